// Finds which of many patterns match a key. Patterns are grouped by shape (number of fields, open
// or not, which fields are exact) and, within a shape, hashed by their exact fields. So a key costs
// one look-up for each existing shape, whatever the number of patterns.
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "key_encoding.h"
#include "space_key_fields.h"
#include "space_key_hash.h"
#include "tuplespace/key.h"

namespace tuplespace::internal {

// T has a member `Pattern pattern`, which does not change while the T is here, except for the
// values of bounds. Owns its T's; their addresses are stable.
template <typename T>
class PatternIndex {
 public:
  explicit PatternIndex(const KeyHash& hash) : hash_{&hash} {}  // `hash` must outlive it

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  // The T whose pattern is the `same` as `pattern`, or null. `same` must compare exact fields.
  template <typename Same>
  T* Find(const Pattern& pattern, Same same) const {
    const auto shape = shapes_.find(ShapeOf(pattern));
    if (shape == shapes_.end()) return nullptr;
    const auto bucket = shape->second.find(ExactBytes(pattern));
    if (bucket == shape->second.end()) return nullptr;
    for (const auto& item : bucket->second) {
      if (same(item->pattern, pattern)) return item.get();
    }
    return nullptr;
  }
  T* Find(const Pattern& pattern) const { return Find(pattern, SamePattern); }

  T* Add(std::unique_ptr<T> item) {
    Buckets& buckets =
        shapes_.try_emplace(ShapeOf(item->pattern), std::size_t{0}, hash_).first->second;
    auto& bucket = buckets[ExactBytes(item->pattern)];
    bucket.push_back(std::move(item));
    ++size_;
    return bucket.back().get();
  }

  // Destroys the item. REQUIRES: it is in this index.
  void Remove(T* item) {
    const auto shape = shapes_.find(ShapeOf(item->pattern));
    assert(shape != shapes_.end());
    const auto bucket = shape->second.find(ExactBytes(item->pattern));
    assert(bucket != shape->second.end());
    const auto at = std::find_if(bucket->second.begin(), bucket->second.end(),
                                 [&](const auto& owned) { return owned.get() == item; });
    assert(at != bucket->second.end());
    bucket->second.erase(at);
    if (bucket->second.empty()) shape->second.erase(bucket);
    if (shape->second.empty()) shapes_.erase(shape);
    --size_;
  }

  // Calls f(T*) for each T whose pattern matches: by shape, then in the order of addition. `f`
  // returns false to stop, and must not add or remove.
  template <typename F>
  void ForEachMatch(std::string_view key_bytes, F f) const {
    if (shapes_.empty()) return;
    KeyFields fields(key_bytes);
    std::string joined;
    for (const auto& [shape, buckets] : shapes_) {
      if (shape.open ? !fields.HasAtLeast(shape.fields) : !fields.HasExactly(shape.fields))
        continue;
      const auto bucket = buckets.find(ExactBytes(shape, fields, &joined));
      if (bucket == buckets.end()) continue;
      for (const auto& item : bucket->second) {
        if (OtherFieldsMatch(item->pattern, fields) && !f(item.get())) return;
      }
    }
  }

 private:
  struct Shape {
    std::uint8_t fields = 0;
    bool open = false;
    std::uint16_t exact = 0;  // bit i: field i is exact
    friend auto operator<=>(const Shape&, const Shape&) = default;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view bytes) const noexcept { return (*of_keys)(bytes); }

    const KeyHash* of_keys = nullptr;
  };
  using Buckets =
      std::unordered_map<std::string, std::vector<std::unique_ptr<T>>, Hash, std::equal_to<>>;

  // Compares the fields that the shape and the bucket leave open: those that are not exact.
  static bool OtherFieldsMatch(const Pattern& pattern, const KeyFields& fields) {
    for (std::size_t i = 0; i < pattern.fields.size(); ++i) {
      const FieldPattern& field = pattern.fields[i];
      if (field.op == FieldPattern::Op::kExact || field.op == FieldPattern::Op::kAny) continue;
      if (!FieldMatches(field, fields.At(i))) return false;
    }
    return true;
  }

  static Shape ShapeOf(const Pattern& pattern) {
    assert(pattern.fields.size() <= kMaxKeyFields);
    Shape shape{static_cast<std::uint8_t>(pattern.fields.size()), pattern.open, 0};
    for (std::size_t i = 0; i < pattern.fields.size(); ++i) {
      if (pattern.fields[i].op == FieldPattern::Op::kExact) {
        shape.exact = static_cast<std::uint16_t>(shape.exact | 1u << i);
      }
    }
    return shape;
  }
  static std::string ExactBytes(const Pattern& pattern) {
    std::string bytes;
    for (const FieldPattern& field : pattern.fields) {
      if (field.op == FieldPattern::Op::kExact) AppendField(field.value, &bytes);
    }
    return bytes;
  }
  static std::string_view ExactBytes(const Shape& shape, const KeyFields& fields,
                                     std::string* joined) {
    const unsigned exact = shape.exact;
    if (exact == 0) return {};
    const auto first = static_cast<std::size_t>(std::countr_zero(exact));
    const unsigned from_first = exact >> first;
    if ((from_first & (from_first + 1)) == 0) {  // neighbours: no need to join them
      return fields.Between(first, static_cast<std::size_t>(std::bit_width(exact)));
    }
    joined->clear();
    for (std::size_t i = 0; i < shape.fields; ++i) {
      if ((exact >> i & 1u) != 0) joined->append(fields.At(i));
    }
    return *joined;
  }

  Hash hash_;
  std::map<Shape, Buckets> shapes_;
  std::size_t size_ = 0;
};

}  // namespace tuplespace::internal
