// Ensures that no run overwrites its job's input files or its audit log.
#pragma once

#include <string>

#include "acan/manager/job.h"

namespace acan {

// Throws Error (usage) if a file that the job reads (initial weights, graph file, data) is, under
// any name, one that a run writes or removes in `out_dir`. The same holds for the files beside the
// initial weights that describe these (FileOfWeights), unless a run that began from these weights
// wrote them. Each Manager checks this; calling it earlier reports the problem before data are
// loaded and processes are started.
void RequireOtherInputs(const Job& job, const std::string& out_dir);

// The same for the path of an audit log, which is an output of its own and must not be one of the
// others. Does nothing if one of the paths is empty.
void RequireOtherAuditLog(const std::string& audit_log, const std::string& out_dir);

}  // namespace acan
