// Files that people name, which may be something else than files.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <string>

namespace acan {

// All of a file of at most `max_bytes`. It may be a pipe: then somebody must write into it within
// some seconds, so that this never waits for ever. `what` says what is expected, say "a job file".
// Throws Error (usage) that names the path: it cannot be opened or read, is a directory, is longer,
// is a pipe that nobody writes to. `check`, if there is one, is told what was opened, before
// anything is read, and may throw.
std::string ReadTextFile(const std::string& path, std::int64_t max_bytes, const std::string& what,
                         const std::function<void(const struct stat& opened)>& check = {});

enum class Devices { kAllowed, kRefused };
enum class Links { kFollowed, kRefused };
// Whether a run can write its records to `path` and read them again when it is resumed: nothing is
// there, or a file, or a device (/dev/null) if they are allowed; and no link to a file if links are
// refused. Throws Error (failure) that says what is there, before an open of a pipe could wait for
// a reader.
void RequireKeptFile(const std::string& path, Devices devices, Links links = Links::kFollowed);

}  // namespace acan
