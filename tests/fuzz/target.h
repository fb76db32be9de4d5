// Fuzz targets: a target feeds any bytes to one decoder of the product and checks what must hold
// whatever the bytes are. The same target is a libFuzzer program (libfuzzer_entry.cpp) and a test
// that runs the seeds and the corpus (corpus_test.cpp).
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace acan::fuzz {

// A small input that the decoder must accept: where a fuzzer begins.
struct Seed {
  std::string name;
  std::string bytes;
};

struct Target {
  std::string name;
  // Whether the decoder took `input`. Throws BrokenProperty, or whatever the decoder throws beside
  // the types that its header documents; both are defects.
  bool (*run)(std::string_view input);
  std::vector<Seed> (*seeds)();
  // Large inputs that a fuzzer would take long to think of: they must be refused.
  std::vector<Seed> (*hostile)() = [] { return std::vector<Seed>(); };
};

// For GoogleTest's messages.
inline void PrintTo(const Target& target, std::ostream* out) {
  *out << target.name;
}

// The targets that are linked into this program.
std::vector<Target>& Targets();

struct Registration {
  explicit Registration(Target target) { Targets().push_back(std::move(target)); }
};

class BrokenProperty : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

template <typename... Args>
void Require(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) throw BrokenProperty(fmt::format(format, std::forward<Args>(args)...));
}

// The most bytes of memory that were allocated at a time since it was made, beyond those that
// were in use then. One at a time, on one thread.
class HeapWatch {
 public:
  HeapWatch();
  std::uint64_t peak_bytes() const;
  // A small input must not ask for much memory.
  void RequireAtMost(std::uint64_t bytes) const {
    Require(peak_bytes() <= bytes, "decoding took {} bytes of memory, at most {} are expected",
            peak_bytes(), bytes);
  }

 private:
  std::int64_t before_;
};

// What a job in `input` may take beside the text: a few words can ask for a model of thousands of
// layers, whose graph is built to check them. 0 where no kind of model can be named.
inline std::uint64_t GraphBytes(std::string_view input) {
  const bool may_name_a_kind =
      input.find("kind") != std::string_view::npos || input.find('\\') != std::string_view::npos;
  return may_name_a_kind ? std::uint64_t{1} << 30 : 0;
}

// Reads the parts of an input; at its end every number is 0 and every text is empty.
class InputReader {
 public:
  explicit InputReader(std::string_view bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }
  std::uint64_t Number(std::size_t bytes) {
    std::uint64_t value = 0;
    for (const char byte : Text(bytes)) value = value << 8 | static_cast<std::uint8_t>(byte);
    return value;
  }
  std::string_view Text(std::size_t bytes) {
    const std::string_view text = bytes_.substr(0, bytes);
    bytes_.remove_prefix(text.size());
    return text;
  }
  std::string_view SizedText() { return Text(Number(2)); }
  std::string_view Rest() { return Text(bytes_.size()); }

 private:
  std::string_view bytes_;
};

// The other way round, for seeds.
inline std::string NumberBytes(std::uint64_t value, std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = bytes; i-- > 0; value >>= 8) text[i] = static_cast<char>(value & 0xFF);
  return text;
}
inline std::string Repeated(std::string_view text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}
inline std::string SizedTextBytes(std::string_view text) {
  return NumberBytes(text.size(), 2) + std::string(text);
}

}  // namespace acan::fuzz
