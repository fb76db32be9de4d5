// Unreadable: the system refused to open or to read a file, or the file changed meanwhile.
#pragma once

#include <string>

#include "acan/core/error.h"

namespace acan {

// The content of the file is unknown: this says nothing about whether it is right or damaged. Usage
// if another path or other rights would help, and failure for what may pass, such as a process
// without descriptors, a disk error, a file server that does not answer, or another process that
// writes to the file.
class Unreadable : public Error {
 public:
  // `error` is a value of errno.
  Unreadable(int error, const std::string& text);
  Unreadable(const Unreadable& cause, const std::string& text) : Error(cause.kind(), text) {}
};

// Throws Unreadable if the last attempt to open `path` failed with `error`, a value of errno, for
// another reason than that there is no such file.
void RequireOpenedOrAbsent(const std::string& path, int error);

}  // namespace acan
