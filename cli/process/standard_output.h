// The output of commands.
#pragma once

#include <string>

namespace acan::cli {

// Thrown if stdout is a pipe whose reader has ended, like head: there is nothing to report.
struct ReaderGone {};

// Writes to stdout and flushes, so that the reader of a pipe sees the text immediately. Throws
// ReaderGone, or Error (failure) if stdout cannot be written for another reason.
void Print(const std::string& text);
void PrintLine(const std::string& line);

}  // namespace acan::cli
