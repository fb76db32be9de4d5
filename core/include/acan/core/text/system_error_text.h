// The system's text for an error, with the process limit that caused it, if any.
#pragma once

#include <string>

namespace acan {

// For example "No such file or directory" for ENOENT. If a limit of the process (see setrlimit) may
// have caused the error, the text also names the limit and its shell command: "File too large (the
// limit of a file's size, ulimit -f, is 1 KiB)".
std::string SystemErrorText(int error);

}  // namespace acan
