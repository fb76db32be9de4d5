#include "job_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <system_error>

#include "acan/core/error.h"
#include "acan/core/text/size_text.h"
#include "acan/core/text/toml_text.h"
#include "acan/manager/closest_word.h"
#include "key_synonyms.h"
#include "model_keys.h"

namespace acan {
namespace {

std::string Shortened(std::string_view text) {
  constexpr std::size_t kMost = 60;
  if (text.size() <= kMost) return std::string(text);
  return std::string(text.substr(0, kMost)) + "...";
}

// The value's text for messages: 3, 0.5, "three", [784, ...].
std::string ValueText(const toml::node& node) {
  if (const auto* text = node.as_string()) return fmt::format("\"{}\"", Shortened(text->get()));
  if (const auto* integer = node.as_integer()) return fmt::format("{}", integer->get());
  if (const auto* number = node.as_floating_point()) {
    const double value = number->get();
    return std::isfinite(value) && value == std::floor(value) && std::fabs(value) < 1e15
               ? fmt::format("{:.1f}", value)
               : fmt::format("{}", value);
  }
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (const auto* array = node.as_array()) {
    std::vector<std::string> values;
    for (const toml::node& value : *array) {
      if (values.size() == 6) {
        values.emplace_back("...");
        break;
      }
      values.push_back(value.is_array() ? "[...]" : ValueText(value));
    }
    return fmt::format("[{}]", fmt::join(values, ", "));
  }
  return node.is_table() ? "{...}" : "a date or time";
}

toml::table ParseText(const std::string& toml, const std::string& name) {
  if (const auto problem = TomlDotsProblem(toml)) {
    throw UsageError(fmt::format("{}: {}", name, *problem));
  }
  try {
    return toml::parse(toml, name);
  } catch (const toml::parse_error& error) {
    throw UsageError(fmt::format("{}, line {}, column {}: not valid TOML: {}", name,
                                 error.source().begin.line, error.source().begin.column,
                                 error.description()));
  }
}

// Whether a text is an integer that 64 bits do not hold.
bool IsHugeInteger(std::string text) {
  std::erase(text, '_');
  const char* const begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* const end = text.data() + text.size();
  std::int64_t value = 0;
  const auto [rest, error] = std::from_chars(begin, end, value);
  return error == std::errc::result_out_of_range && rest == end;
}

std::string RangeText(double least, double most, Ends ends) {
  switch (ends) {
    case Ends::kBoth:
      break;
    case Ends::kWithoutLeast:
      return fmt::format("above {} and at most {}", least, most);
    case Ends::kWithoutMost:
      return fmt::format("at least {} and below {}", least, most);
  }
  return fmt::format("from {} to {}", least, most);
}

bool IsBareWord(const std::string& text) {
  return !text.empty() && text.find_first_of("\"'[]{}\n\r") == std::string::npos;
}

// The value of an override: TOML if it parses, otherwise a bare word.
toml::table ParseOverrideValue(const std::string& value, const std::string& place) {
  if (const auto dots = TomlDotsProblem(value)) {
    throw UsageError(fmt::format("{}: the value {}", Shortened(place), *dots));
  }
  std::string problem;
  try {
    if (value.find_first_of("\n\r") == std::string::npos) {
      return toml::parse("value = " + value, place);
    }
    problem = "it has more than one line";
  } catch (const toml::parse_error& error) {
    problem = std::string(error.description());
  }
  if (IsBareWord(value)) {
    try {
      return toml::parse("value = '" + value + "'", place);
    } catch (const toml::parse_error& error) {
      problem = std::string(error.description());
    }
  }
  throw UsageError(fmt::format("{}: '{}' is not a TOML value: {}", place, value, problem));
}

std::vector<std::string> SectionNames(const std::vector<SectionKeys>& known) {
  std::vector<std::string> names;
  for (const SectionKeys& section : known) names.push_back(section.section);
  return names;
}

const SectionKeys* FindSection(const std::vector<SectionKeys>& known, std::string_view name) {
  const auto at = std::find_if(known.begin(), known.end(),
                               [&](const SectionKeys& one) { return one.section == name; });
  return at == known.end() ? nullptr : &*at;
}

bool HasKey(const SectionKeys& section, std::string_view key) {
  return std::find(section.keys.begin(), section.keys.end(), key) != section.keys.end();
}

// Of [model], these are the keys of the job's kind, and those that all kinds have.
OwnKeys OwnKeysOf(const SectionKeys& section, const toml::table& root) {
  if (section.section != "model") return {"", section.keys};
  const std::string kind =
      root["model"]["kind"].value<std::string>().value_or(std::string(kModelKinds[0]));
  if (std::ranges::find(kModelKinds, kind) == std::end(kModelKinds)) return {"", section.keys};
  OwnKeys own{kind, section.keys};
  const std::vector<std::string> of_kind = KeysOfKind(kind);
  std::erase_if(own.keys, [&](const std::string& key) {
    return std::ranges::find(of_kind, key) == of_kind.end() &&
           std::ranges::find(KeysOfAllKinds(), key) != KeysOfAllKinds().end();
  });
  return own;
}

// The hint for an unknown key: the section that has it, or the key that other programs call so, or
// a similar key that the job may use.
std::string KeyHint(const std::vector<SectionKeys>& known, const SectionKeys& section,
                    std::string_view key, const toml::table& root) {
  for (const SectionKeys& other : known) {
    if (HasKey(other, key)) return fmt::format(": it belongs in [{}]", other.section);
  }
  const OwnKeys own = OwnKeysOf(section, root);
  if (std::string hint = SynonymHint(section.section, key, own); !hint.empty()) return hint;
  if (!ClosestWord(key, own.keys).empty()) return DidYouMean(key, own.keys);
  constexpr std::size_t kMaxListed = 30;
  if (own.keys.size() > kMaxListed) return ": docs/jobs.md has the keys of each kind";
  return DidYouMean(key, own.keys);
}

}  // namespace

std::string DescribeValue(const toml::node& node) {
  if (node.is_string()) return "the string " + ValueText(node);
  if (node.is_integer()) return "the integer " + ValueText(node);
  if (node.is_floating_point()) return "the number " + ValueText(node);
  if (node.is_boolean()) return "the boolean " + ValueText(node);
  if (node.is_array()) return "the array " + ValueText(node);
  return node.is_table() ? "a table" : "a date or time";
}

JobText::JobText(const std::string& toml, std::string name,
                 const std::vector<std::string>& overrides, const std::vector<SectionKeys>& known)
    : name_(std::move(name)), root_(ParseText(toml, name_)) {
  CheckKeys(known);
  for (const std::string& text : overrides) ApplyOverride(text, known);
}

void JobText::ApplyOverride(const std::string& text, const std::vector<SectionKeys>& known) {
  const std::string place = "--set " + text;
  const std::size_t equals = text.find('=');
  const std::size_t dot = text.find('.');
  if (equals == std::string::npos || dot == std::string::npos || dot > equals) {
    throw UsageError(
        fmt::format("{}: expected section.key=value, for example --set train.epochs=3", place));
  }
  const auto trimmed = [](std::string_view part) {
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    return std::string(part);
  };
  const std::string section = trimmed(std::string_view(text).substr(0, dot));
  const std::string key = trimmed(std::string_view(text).substr(dot + 1, equals - dot - 1));
  const std::string value = trimmed(std::string_view(text).substr(equals + 1));
  const SectionKeys* keys = FindSection(known, section);
  if (keys == nullptr) {
    throw UsageError(fmt::format("unknown section '{}' in {}{}", section, place,
                                 DidYouMean(section, SectionNames(known))));
  }
  if (!HasKey(*keys, key)) {
    throw UsageError(fmt::format("unknown key '{}' of [{}] in {}{}", key, section, place,
                                 KeyHint(known, *keys, key, root_)));
  }
  if (value.empty()) throw UsageError(fmt::format("{}: the value is missing", place));
  toml::table parsed = ParseOverrideValue(value, place);
  if (!root_.contains(section)) root_.insert(section, toml::table{});
  root_[section].as_table()->insert_or_assign(key, std::move(*parsed.get("value")));
  overrides_[{section, key}] = place;
}

void JobText::CheckKeys(const std::vector<SectionKeys>& known) const {
  for (const auto& [section_key, node] : root_) {
    const std::string_view section = section_key.str();
    const auto line = section_key.source().begin.line;
    const SectionKeys* keys = FindSection(known, section);
    if (keys == nullptr) {
      std::string hint;
      for (const SectionKeys& other : known) {
        if (HasKey(other, section)) hint = fmt::format(": it belongs in [{}]", other.section);
      }
      throw UsageError(fmt::format(
          "unknown {} '{}', line {} of {}{}", node.is_table() ? "section" : "key outside a section",
          section, line, name_, hint.empty() ? DidYouMean(section, SectionNames(known)) : hint));
    }
    if (!node.is_table()) {
      throw UsageError(fmt::format("{} (line {} of {}): expected the section [{}], found {}",
                                   section, line, name_, section, DescribeValue(node)));
    }
    for (const auto& [key, value] : *node.as_table()) {
      if (HasKey(*keys, key.str())) continue;
      throw UsageError(fmt::format("unknown key '{}' in [{}], line {} of {}{}", key.str(), section,
                                   key.source().begin.line, name_,
                                   KeyHint(known, *keys, key.str(), root_)));
    }
  }
}

const toml::node* JobText::Find(const std::string& section, const std::string& key) const {
  const toml::table* table = root_[section].as_table();
  return table == nullptr ? nullptr : table->get(key);
}

bool JobText::IsOverride(const std::string& section, const std::string& key) const {
  return overrides_.contains({section, key});
}

std::string JobText::Place(const std::string& section, const std::string& key) const {
  const auto at = overrides_.find({section, key});
  if (at != overrides_.end()) return at->second;
  return fmt::format("line {} of {}", Find(section, key)->source().begin.line, name_);
}

void Section::Refuse(const std::string& key, const std::string& what) const {
  throw UsageError(fmt::format("{}.{} = {} ({}): {}", name_, key,
                               ValueText(*text_.Find(name_, key)), text_.Place(name_, key), what));
}

void Section::RefuseType(const std::string& key, const std::string& expected) const {
  throw UsageError(fmt::format("{}.{} ({}): expected {}, found {}", name_, key,
                               text_.Place(name_, key), expected,
                               DescribeValue(*text_.Find(name_, key))));
}

void Section::RefuseNumber(const std::string& key, const std::string& expected,
                           const std::string& range) const {
  const auto* word = text_.Find(name_, key)->as_string();
  if (word == nullptr || !IsOverride(key) || !IsHugeInteger(word->get())) RefuseType(key, expected);
  throw UsageError(fmt::format("{}.{} = {} ({}): must be {}", name_, key, Shortened(word->get()),
                               Shortened(text_.Place(name_, key)), range));
}

void Section::Integer(const std::string& key, std::int64_t most, std::int64_t* value) const {
  const toml::node* node = text_.Find(name_, key);
  if (node == nullptr) return;
  if (!node->is_integer()) RefuseNumber(key, "an integer", fmt::format("at most {}", most));
  *value = node->as_integer()->get();
}

void Section::Integer(const std::string& key, std::int64_t least, std::int64_t most,
                      std::int64_t* value) const {
  const toml::node* node = text_.Find(name_, key);
  if (node == nullptr) return;
  if (!node->is_integer()) {
    const std::string range = fmt::format("from {} to {}", least, most);
    RefuseNumber(key, "an integer " + range, range);
  }
  const std::int64_t found = node->as_integer()->get();
  if (found < least || found > most) {
    Refuse(key, fmt::format("must be from {} to {}", least, most));
  }
  *value = found;
}

void Section::Number(const std::string& key, double least, double most, double* value,
                     Ends ends) const {
  const toml::node* node = text_.Find(name_, key);
  if (node == nullptr) return;
  const std::string range = RangeText(least, most, ends);
  double found = 0;
  if (const auto* integer = node->as_integer()) {
    found = static_cast<double>(integer->get());
  } else if (const auto* number = node->as_floating_point()) {
    found = number->get();
  } else {
    RefuseNumber(key, "a number " + range, range);
  }
  if (!std::isfinite(found)) Refuse(key, "must be a finite number " + range);
  const bool is_open_end = (ends == Ends::kWithoutLeast && found == least) ||
                           (ends == Ends::kWithoutMost && found == most);
  if (found > most || found < least || is_open_end) Refuse(key, "must be " + range);
  *value = found;
}

void Section::Flag(const std::string& key, bool* value) const {
  const toml::node* node = text_.Find(name_, key);
  if (node == nullptr) return;
  if (!node->is_boolean()) RefuseType(key, "true or false");
  *value = node->as_boolean()->get();
}

void Section::Text(const std::string& key, std::string* value) const {
  const toml::node* node = text_.Find(name_, key);
  if (node == nullptr) return;
  if (!node->is_string()) RefuseType(key, "a string");
  const std::string& text = node->as_string()->get();
  if (text.find('\0') != std::string::npos) Refuse(key, "must not contain a zero byte");
  *value = text;
}

void Section::Integers(const std::string& key, std::size_t fewest, std::size_t count_most,
                       std::int64_t least, std::int64_t most,
                       std::vector<std::int64_t>* value) const {
  const toml::node* node = text_.Find(name_, key);
  if (node == nullptr) return;
  const toml::array* array = node->as_array();
  if (array == nullptr) RefuseType(key, "an array of integers, for example [784, 512, 10]");
  if (array->size() < fewest || array->size() > count_most) {
    Refuse(key, fmt::format("must have from {} to {} entries, found {}", fewest, count_most,
                            array->size()));
  }
  std::vector<std::int64_t> found;
  for (const toml::node& entry : *array) {
    const auto* integer = entry.as_integer();
    if (integer == nullptr || integer->get() < least || integer->get() > most) {
      Refuse(key, fmt::format("entry {} is {}; every entry must be an integer from {} to {}",
                              found.size(), DescribeValue(entry), least, most));
    }
    found.push_back(integer->get());
  }
  *value = std::move(found);
}

void Section::Texts(const std::string& key, std::size_t count_most,
                    std::vector<std::string>* value) const {
  const toml::node* node = text_.Find(name_, key);
  if (node == nullptr) return;
  const toml::array* array = node->as_array();
  if (array == nullptr) RefuseType(key, "an array of strings");
  if (array->size() > count_most) {
    Refuse(key, fmt::format("must have at most {} entries, found {}", count_most, array->size()));
  }
  std::vector<std::string> found;
  for (const toml::node& entry : *array) {
    const auto* text = entry.as_string();
    if (text == nullptr || text->get().empty() || text->get().find('\0') != std::string::npos) {
      Refuse(key, fmt::format("entry {} is {}; every entry must be a string that is not empty",
                              found.size(), DescribeValue(entry)));
    }
    found.push_back(text->get());
  }
  *value = std::move(found);
}

void Section::Numbers(const std::string& key, std::size_t count_most, double least, double most,
                      std::vector<double>* value) const {
  const toml::node* node = text_.Find(name_, key);
  if (node == nullptr) return;
  const toml::array* array = node->as_array();
  if (array == nullptr) RefuseType(key, "an array of numbers, for example [0.5, 0.5, 0.5]");
  if (array->empty() || array->size() > count_most) {
    Refuse(key, fmt::format("must have from 1 to {} entries, found {}", count_most, array->size()));
  }
  std::vector<double> found;
  for (const toml::node& entry : *array) {
    const std::optional<double> number = entry.value<double>();
    if (!entry.is_number() || !number || !(*number >= least && *number <= most)) {
      Refuse(key, fmt::format("entry {} is {}; every entry must be a number from {} to {}",
                              found.size(), DescribeValue(entry), least, most));
    }
    found.push_back(*number);
  }
  *value = std::move(found);
}

void Section::AutoInteger(const std::string& key, std::int64_t least, std::int64_t most,
                          std::optional<std::int64_t>* value) const {
  const toml::node* node = text_.Find(name_, key);
  if (node == nullptr) return;
  if (const auto* word = node->as_string()) {
    if (word->get() != "auto") {
      Refuse(key, fmt::format("must be \"auto\" or an integer from {} to {}", least, most));
    }
    value->reset();
    return;
  }
  if (!node->is_integer()) {
    RefuseType(key, fmt::format("\"auto\" or an integer from {} to {}", least, most));
  }
  std::int64_t found = 0;
  Integer(key, least, most, &found);
  *value = found;
}

void Section::AutoBytes(const std::string& key, std::uint64_t least,
                        std::optional<std::uint64_t>* value) const {
  const toml::node* node = text_.Find(name_, key);
  if (node == nullptr) return;
  constexpr const char* kExpected = "\"auto\", a number of bytes, or a string such as \"64KiB\"";
  std::optional<std::uint64_t> found;
  if (const auto* word = node->as_string()) {
    if (word->get() == "auto") {
      value->reset();
      return;
    }
    found = ParseSize(word->get());
    if (!found) Refuse(key, fmt::format("must be {} (B, KiB, MiB, GiB or TiB)", kExpected));
  } else if (const auto* integer = node->as_integer()) {
    if (integer->get() > 0) found = static_cast<std::uint64_t>(integer->get());
  } else {
    RefuseType(key, kExpected);
  }
  if (!found || *found < least) {
    Refuse(key, fmt::format("must be at least {} bytes: one block x block tile of weights, the "
                            "smallest possible task",
                            least));
  }
  *value = found;
}

std::optional<std::size_t> Section::WordIndex(const std::string& key,
                                              const std::vector<std::string>& words) const {
  const toml::node* node = text_.Find(name_, key);
  if (node == nullptr) return std::nullopt;
  if (!node->is_string()) {
    RefuseType(key, fmt::format("one of \"{}\"", fmt::join(words, "\", \"")));
  }
  const std::string& word = node->as_string()->get();
  const auto at = std::find(words.begin(), words.end(), word);
  if (at != words.end()) return static_cast<std::size_t>(at - words.begin());
  const std::string near = ClosestWord(word, words);
  const std::string all = fmt::format("must be one of {}", fmt::join(words, ", "));
  Refuse(key, near.empty() ? all : fmt::format("did you mean \"{}\"? It {}", near, all));
}

}  // namespace acan
