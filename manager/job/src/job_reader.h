// Typed, checked access to the values of a job's TOML text. Every error names the key, its place (a
// line of the file or the override), what was found and what is expected.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace acan {

// The keys of a section, in the order in which they are written.
struct SectionKeys {
  std::string section;
  std::vector<std::string> keys;
};

// A parsed job with the overrides applied. Throws Error (usage) for text that is not TOML, for
// unknown sections and keys, and for overrides that are not section.key=value.
class JobText {
 public:
  JobText(const std::string& toml, std::string name, const std::vector<std::string>& overrides,
          const std::vector<SectionKeys>& known);

  // Null if the key is not set.
  const toml::node* Find(const std::string& section, const std::string& key) const;
  bool IsOverride(const std::string& section, const std::string& key) const;
  // "line 12 of job.toml" or "--set train.epochs=3". REQUIRES: the key is set.
  std::string Place(const std::string& section, const std::string& key) const;
  const std::string& name() const { return name_; }

 private:
  void ApplyOverride(const std::string& text, const std::vector<SectionKeys>& known);
  void CheckKeys(const std::vector<SectionKeys>& known) const;

  std::string name_;
  toml::table root_;
  std::map<std::pair<std::string, std::string>, std::string> overrides_;  // key -> "--set ..."
};

// Describes a value in words: `the string "three"`, `the number 2.5`, "an array".
std::string DescribeValue(const toml::node& node);

// Which ends of a range of numbers are allowed values.
enum class Ends : std::uint8_t { kBoth, kWithoutLeast, kWithoutMost };

// One section's values. The readers leave `*value` (the default) unchanged if the key is not set,
// and throw Error (usage) if its value has another type or is out of range.
class Section {
 public:
  Section(const JobText& text, std::string name) : text_(text), name_(std::move(name)) {}

  bool Has(const std::string& key) const { return text_.Find(name_, key) != nullptr; }
  bool IsArray(const std::string& key) const {
    const toml::node* node = text_.Find(name_, key);
    return node != nullptr && node->is_array();
  }
  bool IsOverride(const std::string& key) const { return text_.IsOverride(name_, key); }
  void Integer(const std::string& key, std::int64_t least, std::int64_t most,
               std::int64_t* value) const;
  // An integer of which the caller checks the range. Messages about values that 64 bits do not hold
  // name `most`.
  void Integer(const std::string& key, std::int64_t most, std::int64_t* value) const;
  // A finite number; integers are allowed.
  void Number(const std::string& key, double least, double most, double* value,
              Ends ends = Ends::kBoth) const;
  void Flag(const std::string& key, bool* value) const;
  void Text(const std::string& key, std::string* value) const;
  void Integers(const std::string& key, std::size_t fewest, std::size_t count_most,
                std::int64_t least, std::int64_t most, std::vector<std::int64_t>* value) const;
  void Texts(const std::string& key, std::size_t count_most, std::vector<std::string>* value) const;
  // 1 to `count_most` finite numbers.
  void Numbers(const std::string& key, std::size_t count_most, double least, double most,
               std::vector<double>* value) const;
  // "auto" leaves `*value` empty.
  void AutoInteger(const std::string& key, std::int64_t least, std::int64_t most,
                   std::optional<std::int64_t>* value) const;
  // "auto", a number of bytes, or a text such as "64KiB".
  void AutoBytes(const std::string& key, std::uint64_t least,
                 std::optional<std::uint64_t>* value) const;

  template <typename Enum>
  void Word(const std::string& key, const std::vector<std::pair<std::string, Enum>>& words,
            Enum* value) const {
    std::vector<std::string> names;
    for (const auto& [word, meaning] : words) names.push_back(word);
    const std::optional<std::size_t> index = WordIndex(key, names);
    if (index) *value = words[*index].second;
  }

  // "line 3 of job.toml". REQUIRES: the key is set.
  std::string Place(const std::string& key) const { return text_.Place(name_, key); }
  // Throws Error (usage): "train.batch = 0 (line 3 of job.toml): <what is expected>".
  [[noreturn]] void Refuse(const std::string& key, const std::string& what) const;

 private:
  [[noreturn]] void RefuseType(const std::string& key, const std::string& expected) const;
  // For a value that is no integer or, in an override, one that 64 bits do not hold.
  [[noreturn]] void RefuseNumber(const std::string& key, const std::string& expected,
                                 const std::string& range) const;
  std::optional<std::size_t> WordIndex(const std::string& key,
                                       const std::vector<std::string>& words) const;

  const JobText& text_;
  std::string name_;
};

}  // namespace acan
