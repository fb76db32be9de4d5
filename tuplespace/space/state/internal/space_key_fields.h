// KeyFields: the fields of a key, found one after the other as far as they are asked for. Most
// patterns are about the first few fields of keys that have many.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "key_encoding.h"

namespace tuplespace::internal {

class KeyFields {
 public:
  // `key_bytes`: the encoding of a key. Must stay valid as long as this object.
  explicit KeyFields(std::string_view key_bytes) : bytes_(key_bytes) {}

  // Whether the key has this many fields, which are known from then on.
  bool HasAtLeast(std::size_t count) {
    assert(count <= kMaxKeyFields);
    while (known_ < count) {
      const std::size_t end = FieldEnd(bytes_, begin_[known_]);
      if (end == std::string_view::npos) return false;
      begin_[++known_] = static_cast<std::uint16_t>(end);
    }
    return true;
  }
  bool HasExactly(std::size_t count) { return HasAtLeast(count) && begin_[count] == bytes_.size(); }

  // REQUIRES: the fields are known.
  std::string_view At(std::size_t index) const { return Between(index, index + 1); }
  std::string_view Between(std::size_t first, std::size_t end) const {
    assert(first <= end && end <= known_);
    return bytes_.substr(begin_[first], begin_[end] - begin_[first]);
  }

 private:
  std::string_view bytes_;
  std::size_t known_ = 0;
  std::array<std::uint16_t, kMaxKeyFields + 1> begin_{};  // begin_[known_]: where the next begins
};

}  // namespace tuplespace::internal
