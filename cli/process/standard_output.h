// The output of commands.
#pragma once

#include <string>

namespace acan::cli {

// Writes to stdout and flushes, so that the reader of a pipe sees the text immediately. Throws
// Error (failure) if stdout cannot be written.
void Print(const std::string& text);
void PrintLine(const std::string& line);

}  // namespace acan::cli
