#include "standard_output.h"

#include <cerrno>
#include <cstdio>

#include "acan/core/error.h"
#include "acan/core/text/system_error_text.h"

namespace acan::cli {

void Print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    if (errno == EPIPE) throw ReaderGone{};
    throw FailureError(std::string("cannot write to stdout: ") + SystemErrorText(errno));
  }
}

void PrintLine(const std::string& line) {
  Print(line + "\n");
}

}  // namespace acan::cli
