#include "json_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/model/graph_text.h"

namespace acan::model {

std::string Shown(const json& value) {
  constexpr std::size_t kMost = 60;
  if (value.is_object()) return "an object";
  // Nested arrays are not printed: they may be too deep for the stack.
  const bool is_plain = std::ranges::none_of(
      value, [](const json& entry) { return entry.is_array() || entry.is_object(); });
  if (value.is_array() && (value.size() > kMost / 4 || !is_plain)) return "an array";
  const std::string text = JsonTextReplacing(value);
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

Fields::Fields(const json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (!object.is_object()) Fail(fmt::format("is {}, expected an object", Shown(object)));
}

const json& Fields::Get(const char* key) const {
  const auto at = object_.find(key);
  if (at == object_.end()) Fail(fmt::format("'{}' is missing", key));
  return *at;
}

void Fields::AllowOnly(const std::vector<std::string_view>& keys) const {
  for (const auto& [key, value] : object_.items()) {
    if (std::ranges::find(keys, key) != keys.end()) continue;
    Fail(fmt::format("has an unknown key {}; the keys here are {}", Shown(json(key)),
                     keys.empty() ? "none" : fmt::format("{}", fmt::join(keys, ", "))));
  }
}

std::string Fields::Text(const char* key) const {
  if (!Get(key).is_string()) Refuse(key, Get(key), "a text");
  return Get(key).get<std::string>();
}

std::string Fields::Name(const char* key) const {
  std::string text = Text(key);
  if (text.empty() || text.size() > kMaxGraphNameBytes || text.find('\0') != std::string::npos) {
    Refuse(key, Get(key),
           fmt::format("a name of 1 to {} bytes without U+0000", kMaxGraphNameBytes));
  }
  return text;
}

std::int64_t Fields::Integer(const char* key, std::int64_t least, std::int64_t most) const {
  return IntegerOf(*this, key, Get(key), least, most);
}

const json& Fields::Array(const char* key, std::size_t most) const {
  const json& value = Get(key);
  if (!value.is_array()) Refuse(key, value, "an array");
  if (value.size() > most) {
    Fail(fmt::format("'{}' has {} entries; the limit is {}", key, value.size(), most));
  }
  return value;
}

const json& Fields::Object(const char* key) const {
  if (!Get(key).is_object()) Refuse(key, Get(key), "an object");
  return Get(key);
}

void Fields::Refuse(const std::string& key, const json& found, const std::string& expected) const {
  Fail(fmt::format("'{}' is {}, expected {}", key, Shown(found), expected));
}

void Fields::Fail(const std::string& what) const {
  throw UsageError(fmt::format("{}: {}", where_, what));
}

std::int64_t IntegerOf(const Fields& fields, const std::string& key, const json& value,
                       std::int64_t least, std::int64_t most) {
  // Numbers above the largest int64 are unsigned in JSON.
  const bool is_small = value.is_number_integer() &&
                        (!value.is_number_unsigned() ||
                         value.get<std::uint64_t>() <=
                             static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  if (!is_small || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most) {
    fields.Refuse(key, value, fmt::format("an integer from {} to {}", least, most));
  }
  return value.get<std::int64_t>();
}

float FloatOf(const Fields& fields, const std::string& key, const json& value) {
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (!(std::fabs(number) <= static_cast<double>(std::numeric_limits<float>::max()))) {
    fields.Refuse(key, value, "a finite number of float32");
  }
  return static_cast<float>(number);
}

}  // namespace acan::model
