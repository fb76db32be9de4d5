// Texts of other processes, where a person reads them.
#pragma once

#include <string>
#include <string_view>

namespace acan {

// A blank in place of each character that begins a line, moves the cursor, changes how a terminal
// writes or in which direction it does: whoever sent the text must not write lines of theirs. Bytes
// that are no UTF-8 stay.
std::string OneLine(std::string_view text);

}  // namespace acan
