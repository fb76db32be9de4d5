// Fields: checked access to one JSON object of a graph file. Every error says where the object is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

namespace acan::model {

using nlohmann::json;

// The value as text, shortened if it is long.
std::string Shown(const json& value);

class Fields {
 public:
  // `where` begins the error messages: "net.json: node 'head'". Throws Error (usage) if `object` is
  // not an object.
  Fields(const json& object, std::string where);

  const std::string& where() const { return where_; }
  bool Has(const char* key) const { return object_.contains(key); }
  const json& Get(const char* key) const;  // throws if it is missing
  // Throws if there is any other key.
  void AllowOnly(const std::vector<std::string_view>& keys) const;

  std::string Text(const char* key) const;
  // A text that is neither empty nor too long.
  std::string Name(const char* key) const;
  std::int64_t Integer(const char* key, std::int64_t least, std::int64_t most) const;
  // At most `most` entries.
  const json& Array(const char* key, std::size_t most) const;
  const json& Object(const char* key) const;

  // "net.json: node 'head': 'rows' is 0, expected ...".
  [[noreturn]] void Refuse(const std::string& key, const json& found,
                           const std::string& expected) const;
  [[noreturn]] void Fail(const std::string& what) const;  // "net.json: node 'head': what"

 private:
  const json& object_;
  std::string where_;
};

// The integer `value`; messages call it `key`.
std::int64_t IntegerOf(const Fields& fields, const std::string& key, const json& value,
                       std::int64_t least, std::int64_t most);
// A finite number in the range of float32.
float FloatOf(const Fields& fields, const std::string& key, const json& value);

}  // namespace acan::model
