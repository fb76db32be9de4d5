// Fuzz targets: a target passes arbitrary bytes to one of the product's decoders and checks what
// must hold for any input. The same target is used in a libFuzzer program (libfuzzer_entry.cpp) and
// in a test that runs the seeds and the corpus (corpus_test.cpp).
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

// A small input that the decoder must accept: a starting point for the fuzzer.
struct Seed {
  std::string name;
  std::string bytes;
};

struct Target {
  std::string name;
  // Returns whether the decoder accepted `input`. Throws BrokenProperty, or any exception of the
  // decoder that its header does not document; both are defects.
  bool (*run)(std::string_view input);
  std::vector<Seed> (*seeds)();
  // Large inputs that a fuzzer would hardly find; they must be refused.
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

// Measures the peak of allocated memory since its construction, not counting what was already in
// use. Only one may exist at a time, on one thread.
class HeapWatch {
 public:
  HeapWatch();
  std::uint64_t peak_bytes() const;
  // Fails if decoding took more memory: a small input must not cause large allocations.
  void RequireAtMost(std::uint64_t bytes) const {
    Require(peak_bytes() <= bytes, "decoding took {} bytes of memory, at most {} are expected",
            peak_bytes(), bytes);
  }

 private:
  std::int64_t before_;
};

// The memory that a job in `input` may take in addition to its text: a few words can request a
// model of thousands of layers, whose graph is built to check them. 0 if the input cannot name a
// model.
inline std::uint64_t GraphBytes(std::string_view input) {
  const bool may_name_a_kind =
      input.find("kind") != std::string_view::npos || input.find('\\') != std::string_view::npos;
  return may_name_a_kind ? std::uint64_t{1} << 30 : 0;
}

// Reads the parts of an input. At the end of the input, every number is 0 and every text is empty.
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

// The inverse of reading a number, for seeds.
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
