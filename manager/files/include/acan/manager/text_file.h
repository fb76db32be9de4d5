// Files that users name, whose paths may lead to something else than a regular file.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <string>

namespace acan {

// The content of a file of at most `max_bytes`. It may be a pipe, into which another process must
// write within some seconds, so that this never blocks forever. `what` says what is expected, for
// example "a job file". Throws Unreadable if the path cannot be opened or read, and Error (usage)
// if it is a directory or a device, is longer, or is a pipe without a writer; both name it.
// `check`, if set, is called with the status of the opened file before anything is read, and may
// throw.
std::string ReadTextFile(const std::string& path, std::int64_t max_bytes, const std::string& what,
                         const std::function<void(const struct stat& opened)>& check = {});

enum class Devices { kAllowed, kRefused };
enum class Links { kFollowed, kRefused };
// Checks that a run can write its records to `path` and read them again when it is resumed: the
// path is free, or is a file, or a device (/dev/null) if devices are allowed, and it is not a link
// to a file if links are refused. Throws Error (failure) that says what the path is, before opening
// a pipe could block.
void RequireKeptFile(const std::string& path, Devices devices, Links links = Links::kFollowed);
// For what a run writes or removes in its folder. Throws Error (failure) if the path is a link.
void RequireNoLink(const std::string& path);

}  // namespace acan
