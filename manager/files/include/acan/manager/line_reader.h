// LineReader: reads the lines of a file that others may have written, such as a downloaded log,
// without holding more of a line in memory than the longest that acan writes. For one thread.
#pragma once

#include <cstddef>
#include <istream>
#include <string>
#include <string_view>

namespace acan {

class LineReader {
 public:
  enum class Line {
    kWhole,  // a line that ended with '\n', which text() leaves out
    kTorn,   // the last line, without its '\n'
    kPart,   // a part of a line longer than the limit; the next call goes on in the same line
    kNone,   // the end of the stream, or an error: see stream.bad()
  };

  // The stream must outlive this object. REQUIRES: max_bytes > 0.
  LineReader(std::istream& stream, std::size_t max_bytes);

  Line Next();
  // What Next has read; valid until the next call.
  std::string_view text() const { return std::string_view(buffer_).substr(0, size_); }

 private:
  std::istream& stream_;
  const std::size_t max_bytes_;
  std::string buffer_;  // grows with the lines
  std::size_t size_ = 0;
  bool in_long_line_ = false;
};

}  // namespace acan
