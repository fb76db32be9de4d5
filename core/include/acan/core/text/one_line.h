// Makes text of other processes safe to show to a person.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace acan {

// Replaces with a blank each character that starts a line, moves the cursor, or changes a
// terminal's attributes or writing direction, so that the sender of the text cannot forge lines.
// Bytes that are not UTF-8 stay.
std::string OneLine(std::string_view text);

// Text that arrives in pieces, such as a model's tokens, made safe for a terminal: as OneLine, but
// newlines and tabs stay. A character may be divided between pieces.
class TerminalText {
 public:
  // The part of the text so far that can be shown now and was not returned before.
  std::string Add(std::string_view piece);
  // The bytes of an incomplete character at the end of the text; mostly none.
  std::string Finish() { return std::exchange(incomplete_, {}); }

 private:
  std::string incomplete_;
};

}  // namespace acan
