// Shapes of a graph's values.
//
// A value is a matrix [rows, features], row-major. Values that belong to samples have the same
// number of rows (tokens of a sequence, pixels of an image, or 1) for every sample, and their rows
// lie in the order of the samples:
//
//            features ->
//   sample 0 +----------------+  position 0: token 0, or pixel (y 0, x 0)
//            |                |  position 1: token 1, or pixel (y 0, x 1)
//            +----------------+  ...
//   sample 1 |                |
//            +----------------+
//
// The number of samples is not part of a graph: one graph serves every batch size.
#pragma once

#include <cstdint>
#include <string>

namespace acan::model {

enum class Element : std::uint8_t { kFloat, kInteger };  // fp32; int32

enum class RowsOf : std::uint8_t {
  kSample,  // each sample has `rows` rows
  kAll,     // `rows` rows in total, whatever the batch: parameters, their gradients, statistics
};

struct Shape {
  std::int64_t rows = 0;
  std::int64_t features = 0;
  RowsOf rows_of = RowsOf::kSample;
  Element element = Element::kFloat;

  friend bool operator==(const Shape&, const Shape&) = default;
};

inline Shape PerSample(std::int64_t rows, std::int64_t features) {
  return {rows, features, RowsOf::kSample, Element::kFloat};
}
inline Shape Shared(std::int64_t rows, std::int64_t features) {
  return {rows, features, RowsOf::kAll, Element::kFloat};
}

// "[samples x 64, 128]" or "[768, 768]"; integers are "integers [samples x 64, 1]".
std::string ToText(const Shape& shape);

// Height and width of an image, a window or a step. A pixel's position is y x width + x.
struct Extent {
  std::int64_t height = 1;
  std::int64_t width = 1;

  std::int64_t area() const { return height * width; }
  friend bool operator==(const Extent&, const Extent&) = default;
};

}  // namespace acan::model
