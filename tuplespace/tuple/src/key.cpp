#include "tuplespace/key.h"

#include <cassert>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include "key_encoding.h"

namespace tuplespace {
namespace {

using Op = FieldPattern::Op;

const FieldView& ViewOf(const FieldView& field) {
  return field;
}
FieldView ViewOf(const Field& field) {
  return internal::ViewOf(field);
}

template <typename AnyField>
std::string Encode(const AnyField* fields, std::size_t count) {
  if (count == 0 || count > kMaxKeyFields) {
    throw std::invalid_argument("key of " + std::to_string(count) + " fields, must be 1 to " +
                                std::to_string(kMaxKeyFields));
  }
  std::size_t size = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const FieldView field = ViewOf(fields[i]);
    const auto* text = std::get_if<std::string_view>(&field);
    if (text != nullptr && text->size() > kMaxStringFieldBytes) {
      throw std::invalid_argument("key field " + std::to_string(i) + " is a string of " +
                                  std::to_string(text->size()) + " bytes, at most " +
                                  std::to_string(kMaxStringFieldBytes));
    }
    size += internal::FieldBytes(field);
  }
  // Planning makes millions of keys, so a key takes one allocation and is not written byte by byte.
  std::string bytes(size, '\0');
  char* at = bytes.data();
  for (std::size_t i = 0; i < count; ++i) at = internal::WriteField(ViewOf(fields[i]), at);
  return bytes;
}

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
      quoted += escaped;
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string ToText(const Field& field) {
  if (const auto* text = std::get_if<std::string>(&field)) return Quoted(*text);
  return std::to_string(std::get<std::int64_t>(field));
}

std::string ToText(const FieldPattern& field) {
  switch (field.op) {
    case Op::kAny:
      return "*";
    case Op::kExact:
      return ToText(field.value);
    case Op::kAtMost:
      return "<= " + ToText(field.value);
    case Op::kAtLeast:
      return ">= " + ToText(field.value);
    case Op::kPrefix:
      return ToText(field.value) + "*";
  }
  return "op " + std::to_string(static_cast<int>(field.op));
}

std::optional<std::string> ProblemOf(const FieldPattern& field) {
  const bool is_integer = std::holds_alternative<std::int64_t>(field.value);
  switch (field.op) {
    case Op::kAny:
      return std::nullopt;
    case Op::kExact:
      break;
    case Op::kAtMost:
    case Op::kAtLeast:
      if (!is_integer) return "a bound that is a string, must be an integer";
      break;
    case Op::kPrefix:
      if (is_integer) return "a prefix that is an integer, must be a string";
      break;
    default:
      return "unknown operation " + std::to_string(static_cast<int>(field.op)) + ", must be 0 to 4";
  }
  if (!is_integer && std::get<std::string>(field.value).size() > kMaxStringFieldBytes) {
    return "a string of " + std::to_string(std::get<std::string>(field.value).size()) +
           " bytes, at most " + std::to_string(kMaxStringFieldBytes);
  }
  return std::nullopt;
}

bool IsWithin(const FieldPattern& field, const FieldPattern& wider) {
  if (wider.op == Op::kAny) return true;
  if (field.op == Op::kAny) return false;
  if (wider.op == Op::kExact) return field.op == Op::kExact && field.value == wider.value;
  if (wider.op == Op::kPrefix) {
    if (field.op != Op::kExact && field.op != Op::kPrefix) return false;
    const auto* text = std::get_if<std::string>(&field.value);
    return text != nullptr && text->starts_with(std::get<std::string>(wider.value));
  }
  const auto* value = std::get_if<std::int64_t>(&field.value);
  if (value == nullptr) return false;  // strings match no bound
  const std::int64_t bound = std::get<std::int64_t>(wider.value);
  if (wider.op == Op::kAtMost) {
    return field.op == Op::kAtLeast ? bound == INT64_MAX : *value <= bound;
  }
  return field.op == Op::kAtMost ? bound == INT64_MIN : *value >= bound;
}

}  // namespace

Key::Key(std::initializer_list<FieldView> fields) : bytes_(Encode(fields.begin(), fields.size())) {}

Key::Key(const std::vector<Field>& fields) : bytes_(Encode(fields.data(), fields.size())) {}

std::optional<Key> Key::FromBytes(std::string_view bytes) {
  internal::KeySplit split;
  if (!internal::SplitKey(bytes, &split)) return std::nullopt;
  Key key;
  key.bytes_ = std::string(bytes);
  return key;
}

std::vector<Field> Key::Fields() const {
  std::vector<Field> fields;
  internal::KeySplit split;
  if (!internal::SplitKey(bytes_, &split)) return fields;
  fields.reserve(split.count);
  for (std::size_t i = 0; i < split.count; ++i) {
    fields.push_back(internal::DecodeField(split.FieldOf(bytes_, i)));
  }
  return fields;
}

std::size_t Key::FieldCount() const {
  internal::KeySplit split;
  return internal::SplitKey(bytes_, &split) ? split.count : 0;
}

std::string_view Key::FirstBytes(std::size_t count) const {
  std::size_t end = 0;
  for (std::size_t i = 0; i < count && end < bytes_.size(); ++i) {
    end = internal::FieldEnd(bytes_, end);
  }
  return std::string_view(bytes_).substr(0, end);
}

bool Key::IsInteger(std::size_t index) const {
  return Integer(index).has_value();
}

std::optional<std::int64_t> Key::Integer(std::size_t index) const {
  const std::size_t begin = FirstBytes(index).size();
  if (begin >= bytes_.size() || bytes_[begin] != internal::kIntegerTag) return std::nullopt;
  const std::string_view field(bytes_.data() + begin, internal::kIntegerFieldBytes);
  return std::get<std::int64_t>(internal::DecodeField(field));
}

void Key::SetInteger(std::size_t index, std::int64_t value) {
  assert(IsInteger(index));
  internal::WriteField(value, bytes_.data() + FirstBytes(index).size());
}

std::string Key::BytesWithout(std::size_t index) const {
  internal::KeySplit split;
  const bool is_split = internal::SplitKey(bytes_, &split);
  assert(is_split && index < split.count);
  if (!is_split) return {};
  std::string bytes;
  bytes.reserve(bytes_.size());
  bytes.append(bytes_, 0, split.begin[index]);
  bytes.append(bytes_, split.begin[index + 1]);
  return bytes;
}

std::string Key::ToString() const {
  std::string text = "(";
  for (const Field& field : Fields()) {
    if (text.size() > 1) text += ", ";
    text += ToText(field);
  }
  return text + ")";
}

FieldPattern FieldPattern::Any() {
  return {};
}

FieldPattern FieldPattern::Exact(Field value) {
  return {Op::kExact, std::move(value)};
}

FieldPattern FieldPattern::AtMost(std::int64_t bound) {
  return {Op::kAtMost, bound};
}

FieldPattern FieldPattern::AtLeast(std::int64_t bound) {
  return {Op::kAtLeast, bound};
}

FieldPattern FieldPattern::Prefix(std::string prefix) {
  return {Op::kPrefix, std::move(prefix)};
}

Pattern Pattern::Of(const Key& key) {
  Pattern pattern;
  internal::KeySplit split;
  if (!internal::SplitKey(key.bytes_, &split)) return pattern;
  pattern.fields.reserve(split.count);
  for (std::size_t i = 0; i < split.count; ++i) {
    pattern.fields.push_back({Op::kExact, internal::DecodeField(split.FieldOf(key.bytes_, i))});
  }
  return pattern;
}

bool Pattern::Matches(const Key& key) const {
  internal::KeySplit split;
  return internal::SplitKey(key.bytes(), &split) &&
         internal::PatternMatches(*this, key.bytes(), split);
}

bool Pattern::IsWithin(const Pattern& wider) const {
  if (wider.open ? fields.size() < wider.fields.size()
                 : open || fields.size() != wider.fields.size()) {
    return false;
  }
  for (std::size_t i = 0; i < wider.fields.size(); ++i) {
    if (!tuplespace::IsWithin(fields[i], wider.fields[i])) return false;
  }
  return true;
}

std::optional<Key> Pattern::AsExactKey() const {
  if (open || fields.empty() || fields.size() > kMaxKeyFields) return std::nullopt;
  std::size_t size = 0;
  for (const FieldPattern& field : fields) {
    if (field.op != Op::kExact) return std::nullopt;
    const auto* text = std::get_if<std::string>(&field.value);
    if (text != nullptr && text->size() > kMaxStringFieldBytes) return std::nullopt;
    size += internal::FieldBytes(internal::ViewOf(field.value));
  }
  Key key;
  key.bytes_.resize(size);
  char* at = key.bytes_.data();
  for (const FieldPattern& field : fields)
    at = internal::WriteField(internal::ViewOf(field.value), at);
  return key;
}

std::string Pattern::ExactPrefixBytes() const {
  std::string bytes;
  for (const FieldPattern& field : fields) {
    if (field.op == Op::kExact) {
      internal::AppendField(field.value, &bytes);
      continue;
    }
    if (field.op == Op::kPrefix) {
      internal::AppendStringPrefix(std::get<std::string>(field.value), &bytes);
    } else if (field.op != Op::kAny) {
      bytes.push_back(internal::kIntegerTag);  // only integers match a bound
    }
    break;
  }
  return bytes;
}

std::string Pattern::ToString() const {
  std::string text = "(";
  for (const FieldPattern& field : fields) {
    if (text.size() > 1) text += ", ";
    text += ToText(field);
  }
  if (open) text += text.size() > 1 ? ", ..." : "...";
  return text + ")";
}

std::optional<std::string> Pattern::Problem() const {
  if (fields.empty() && !open) return "a pattern of no fields that is not open matches nothing";
  if (fields.size() > kMaxKeyFields) {
    return std::to_string(fields.size()) + " fields, at most " + std::to_string(kMaxKeyFields);
  }
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (const auto problem = ProblemOf(fields[i])) {
      return "field " + std::to_string(i) + " is " + *problem;
    }
  }
  return std::nullopt;
}

}  // namespace tuplespace
