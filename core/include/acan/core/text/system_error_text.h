// The words of the system for an error, with the limit of this process that is behind it.
#pragma once

#include <string>

namespace acan {

// "No such file or directory" for ENOENT. Where a limit of the process (see setrlimit) makes the
// system refuse, the text also names that limit and how a shell shows it: "File too large (the
// limit of a file's size, ulimit -f, is 1 KiB)".
std::string SystemErrorText(int error);

}  // namespace acan
