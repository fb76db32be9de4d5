// Makes text of other processes safe to show to a person.
#pragma once

#include <string>
#include <string_view>

namespace acan {

// Replaces with a blank each character that starts a line, moves the cursor, or changes a
// terminal's attributes or writing direction, so that the sender of the text cannot forge lines.
// Bytes that are not UTF-8 stay.
std::string OneLine(std::string_view text);

}  // namespace acan
