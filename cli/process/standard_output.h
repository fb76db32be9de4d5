// What the commands print.
#pragma once

#include <string>

namespace acan::cli {

// Writes to stdout at once, so that a reader of a pipe sees it. Throws Error (failure) if nobody
// takes it.
void Print(const std::string& text);
void PrintLine(const std::string& line);

}  // namespace acan::cli
