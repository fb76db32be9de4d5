// What the commands print.
#pragma once

#include <string>

namespace acan::cli {

// Thrown if stdout is a pipe whose reader has ended, like head: there is nothing to report.
struct ReaderGone {};

// Writes to stdout at once, so that a reader of a pipe sees it. Throws ReaderGone, or Error
// (failure) if the text cannot be written for another reason.
void Print(const std::string& text);
void PrintLine(const std::string& line);

}  // namespace acan::cli
