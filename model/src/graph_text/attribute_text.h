// Words and attributes of graph files, for reading and writing. The attributes are those that the
// operators' structs visit, except dropout streams, which the reader numbers itself.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "../words.h"
#include "acan/model/graph.h"
#include "acan/model/rates.h"
#include "json_fields.h"

namespace acan::model {

inline constexpr std::int64_t kMaxAttribute = std::int64_t{1} << 40;

// All words of an enumeration, in its order.
template <class Enum>
std::vector<std::string_view> AllWords() {
  std::vector<std::string_view> words;
  for (std::uint8_t i = 0; Word(static_cast<Enum>(i)) != "unknown"; ++i) {
    words.push_back(Word(static_cast<Enum>(i)));
  }
  return words;
}

template <class Enum>
Enum EnumOf(const Fields& fields, const std::string& key, const json& value) {
  const std::vector<std::string_view> words = AllWords<Enum>();
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (value.is_string() && value.get<std::string>() == words[i]) return static_cast<Enum>(i);
  }
  fields.Refuse(key, value, fmt::format("one of \"{}\"", fmt::join(words, "\", \"")));
}

// The double with the shortest text that gives the same float: 0.02 stays 0.02.
inline double ShortNumber(float value) {
  return std::strtod(fmt::format("{}", value).c_str(), nullptr);
}

inline bool IsDecidedByReader(std::string_view attribute) {
  return attribute == "stream" || attribute == "dropout_stream";
}

// What the sizes of other values do not decide: most integers are counts or sizes.
inline std::int64_t LeastAttribute(std::string_view name) {
  if (name == "ignored_label") return -kMaxAttribute;
  if (name == "padding_id") return -1;
  return name == "first" || name == "begin" ? 0 : 1;
}

inline bool IsRateName(std::string_view attribute) {
  return attribute == "rate" || attribute == "dropout" || attribute == "label_smoothing";
}

struct ReadAttribute {
  const Fields& fields;  // of the node's attributes

  void operator()(std::string_view name, std::int64_t& value) const {
    if (const json* found = Find(name)) {
      value = IntegerOf(fields, std::string(name), *found, LeastAttribute(name), kMaxAttribute);
    }
  }
  void operator()(std::string_view name, float& value) const {
    const json* found = Find(name);
    if (found == nullptr) return;
    value = FloatOf(fields, std::string(name), *found);
    // The file's number is shown here, because the nearest float may be another one.
    if (IsRateName(name) && !IsRate(value)) {
      fields.Refuse(std::string(name), *found, RateText(found->get<double>()));
    }
  }
  // One number for both sides, or [height, width].
  void operator()(std::string_view name, Extent& value) const {
    const json* found = Find(name);
    if (found == nullptr) return;
    const std::string key(name);
    const std::int64_t least = name == "padding" ? 0 : 1;
    if (!found->is_array()) {
      value.height = value.width = IntegerOf(fields, key, *found, least, kMaxSide);
      return;
    }
    if (found->size() != 2) fields.Refuse(key, *found, "a number or [height, width]");
    value.height = IntegerOf(fields, key, (*found)[0], least, kMaxSide);
    value.width = IntegerOf(fields, key, (*found)[1], least, kMaxSide);
  }
  template <class Enum>
  requires std::is_enum_v<Enum>
  void operator()(std::string_view name, Enum& value) const {
    if (const json* found = Find(name)) value = EnumOf<Enum>(fields, std::string(name), *found);
  }

 private:
  const json* Find(std::string_view name) const {
    const std::string key(name);
    if (IsDecidedByReader(name) || !fields.Has(key.c_str())) return nullptr;
    return &fields.Get(key.c_str());
  }
};

struct WriteAttribute {
  json& out;

  void operator()(std::string_view name, std::int64_t value) const { Set(name, value); }
  void operator()(std::string_view name, float value) const { Set(name, ShortNumber(value)); }
  void operator()(std::string_view name, const Extent& value) const {
    Set(name, {value.height, value.width});
  }
  template <class Enum>
  requires std::is_enum_v<Enum>
  void operator()(std::string_view name, Enum value) const { Set(name, Word(value)); }

 private:
  void Set(std::string_view name, json value) const {
    if (!IsDecidedByReader(name)) out[std::string(name)] = std::move(value);
  }
};

}  // namespace acan::model
