// Building blocks for the definitions of operations.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "operations.h"

namespace acan::test {

constexpr std::int64_t kBlock = 32;
constexpr float kBound = 0.6f;

template <typename Of>
Doubles Define(std::int64_t rows, std::int64_t cols, Of of) {
  Doubles out{rows, cols, {}, {}};
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      double magnitude = 0.0;
      out.v.push_back(of(r, c, magnitude));
      out.magnitude.push_back(std::max(magnitude, std::abs(out.v.back())));
    }
  }
  return out;
}

using In = std::vector<Host>;
using Out = std::vector<Doubles>;
using Values = Operation::Values;

// Uniform in [low, high).
inline Values Between(std::uint32_t seed, float low = -1.0f, float high = 1.0f) {
  return [=](const Shape&, std::int64_t rows, std::int64_t cols) {
    return Random(rows, cols, seed, low, high);
  };
}

// A column of int32.
inline Host Integers(std::int64_t rows, const std::function<std::int64_t(std::int64_t)>& of) {
  Host host(rows, 1);
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto value = static_cast<std::int32_t>(of(r));
    std::memcpy(&host.at(r, 0), &value, 4);
  }
  return host;
}

inline std::int64_t IntegerAt(const Host& host, std::int64_t r) {
  std::int32_t value = 0;
  std::memcpy(&value, &host.v[static_cast<std::size_t>(r)], 4);
  return value;
}

// Converts to the float whose bits are those of the int32.
inline double AsFloat(std::int64_t value) {
  return double{Integers(1, [&](std::int64_t) { return value; }).v[0]};
}

inline double Activated(Activation activation, double z) {
  switch (activation) {
    case Activation::kIdentity:
      return z;
    case Activation::kRelu:
      return std::max(z, 0.0);
    case Activation::kClippedRelu:
      return z > 0 && z <= kBound ? z : 0.0;
    case Activation::kTanh:
      return std::tanh(z);
    case Activation::kSigmoid:
      return 1 / (1 + std::exp(-z));
    case Activation::kGelu:
      return z * 0.5 * std::erfc(-z / std::sqrt(2.0));
    case Activation::kGeluTanh:
      return z / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (z + 0.044715 * z * z * z)));
    case Activation::kSilu:
      return z / (1 + std::exp(-z));
  }
  return NAN;
}

// The derivative, as a function of the output y; for gelus and silu, of the input.
inline double Slope(Activation activation, double y) {
  switch (activation) {
    case Activation::kIdentity:
      return 1.0;
    case Activation::kRelu:
      return y > 0 ? 1.0 : 0.0;
    case Activation::kClippedRelu:
      return y > 0 && y <= kBound ? 1.0 : 0.0;
    case Activation::kTanh:
      return 1 - y * y;
    case Activation::kSigmoid:
      return y * (1 - y);
    case Activation::kGelu:
      return 0.5 * std::erfc(-y / std::sqrt(2.0)) +
             y * std::exp(-y * y / 2) / std::sqrt(2 * std::acos(-1.0));
    case Activation::kGeluTanh: {
      const double root = std::sqrt(2 / std::acos(-1.0));
      const double t = std::tanh(root * (y + 0.044715 * y * y * y));
      return (1 + t) / 2 + y / 2 * (1 - t * t) * root * (1 + 3 * 0.044715 * y * y);
    }
    case Activation::kSilu: {
      const double u = 1 / (1 + std::exp(-y));
      return u * (1 + y * (1 - u));
    }
  }
  return NAN;
}

// Each result is a function of the operands' elements x(0), x(1), ... at the same position.
template <typename... Of>
auto ElementByElement(Of... of) {
  return [=](const Shape& s, const In& in) -> Out {
    const auto each = [&](auto function) {
      return Define(s.rows, s.cols, [&](auto r, auto c, double& magnitude) {
        magnitude = 1.0;
        return function([&](int i) { return double{in[static_cast<std::size_t>(i)].at(r, c)}; });
      });
    };
    return {each(of)...};
  };
}

// An element of a result and the magnitude of the terms that were summed.
struct Sum {
  double value = 0, magnitude = 0;
  void Add(double term) {
    value += term;
    magnitude += std::abs(term);
  }
};

template <typename Of>
Doubles DefineSums(std::int64_t rows, std::int64_t cols, Of of) {
  return Define(rows, cols, [&](auto r, auto c, double& magnitude) {
    Sum sum;
    of(r, c, sum);
    magnitude = sum.magnitude;
    return sum.value;
  });
}

// Operators of graphs: operations_graph.cpp, operations_images.cpp, operations_samples.cpp.
void AddGraphOperations(std::vector<Operation>& all);
void AddImageOperations(std::vector<Operation>& all);
void AddSampleOperations(std::vector<Operation>& all);

}  // namespace acan::test
