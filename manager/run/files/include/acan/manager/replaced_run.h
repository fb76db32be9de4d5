// What an output folder has of an earlier run, and a new run replaces.
#pragma once

#include <cstdint>
#include <string>
#include <system_error>

namespace acan {

// The newest version in a snapshot of the run in `folder`, intact or not; -1: there is none. What a
// killed writer left is none. `error` is set if the snapshots' folder cannot be read, or is not
// there.
std::int64_t NewestSnapshot(const std::string& folder, std::error_code& error);

// A sentence about the run in `folder` that a new run of the job with the id `job_id` would
// replace, and that somebody may miss: an unfinished one, or the finished one of another job. Empty
// if there is none. `resume` is the command that continues an unfinished run.
std::string ReplacedRunText(const std::string& folder, const std::string& job_id,
                            const std::string& resume);

// A sentence about a run of another job in `folder`, which a standby manager of the job with the id
// `job_id` would replace when it takes over. Empty if there is none.
std::string OthersRunText(const std::string& folder, const std::string& job_id);

}  // namespace acan
