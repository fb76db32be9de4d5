#include "acan/manager/line_reader.h"

#include <algorithm>
#include <utility>

namespace acan {
namespace {

constexpr std::size_t kFirstBytes = 1 << 12;  // of the buffer; most lines are shorter

}  // namespace

// The buffer has room for the zero that std::istream::getline writes after the text.
LineReader::LineReader(std::istream& stream, std::size_t max_bytes)
    : stream_(stream), max_bytes_(max_bytes), buffer_(std::min(max_bytes, kFirstBytes) + 1, '\0') {}

LineReader::Line LineReader::Next() {
  size_ = 0;
  for (;;) {
    stream_.getline(buffer_.data() + size_, static_cast<std::streamsize>(buffer_.size() - size_));
    const auto got = static_cast<std::size_t>(stream_.gcount());
    if (stream_.bad()) return Line::kNone;
    if (stream_.eof()) {
      size_ += got;
      if (size_ == 0) return Line::kNone;
      return in_long_line_ ? Line::kPart : Line::kTorn;
    }
    if (!stream_.fail()) {
      size_ += got - 1;  // without the '\n'
      return std::exchange(in_long_line_, false) ? Line::kPart : Line::kWhole;
    }
    if (got == 0) return Line::kNone;  // the stream had failed before, or was never opened
    // The buffer is full.
    stream_.clear();
    size_ += got;
    if (buffer_.size() > max_bytes_) {
      in_long_line_ = true;
      return Line::kPart;
    }
    buffer_.resize(std::min(2 * buffer_.size(), max_bytes_ + 1));
  }
}

}  // namespace acan
