// The names of the operations: products, and kernels, which are all other operations. The rows of
// operators.inc (operators.h) define what each operation computes, takes and returns. The functions
// of the kernels are in backends/kernels/, in a subset of C that C++, OpenCL and CUDA compile.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "acan/core/operators/kernel_constants.h"

namespace acan {

enum class Activation : std::uint8_t {
#define ACAN_ENUMERATOR(number, enumerator, constant, word, takes) enumerator = number,
  ACAN_ACTIVATION_TABLE(ACAN_ENUMERATOR)
#undef ACAN_ENUMERATOR
};

struct ActivationRow {
  Activation activation;
  std::string_view word;      // its name in job files
  bool gradient_takes_input;  // otherwise its output
};

inline constexpr ActivationRow kActivations[] = {
#define ACAN_TAKES_INPUT true
#define ACAN_TAKES_OUTPUT false
#define ACAN_ROW(number, enumerator, constant, word, takes) \
  {Activation::enumerator, word, ACAN_TAKES_##takes},
    ACAN_ACTIVATION_TABLE(ACAN_ROW)
#undef ACAN_ROW
#undef ACAN_TAKES_INPUT
#undef ACAN_TAKES_OUTPUT
};

constexpr const ActivationRow& RowOf(Activation activation) {
  return kActivations[static_cast<std::size_t>(activation)];
}

// The kernels of operators.inc. No enumerator stands for their number, so that the compiler reports
// a missing case in a switch without `default:`.
enum class Kernel : std::uint8_t {
#define ACAN_OPERATOR(number, enumerator, ...) enumerator = number,
#include "acan/core/operators/operators.inc"
};

// The three products of training, as c[m, n] = sum over k.
enum class GemmForm : std::uint8_t {
#define ACAN_PRODUCT(number, enumerator, ...) enumerator = number,
#include "acan/core/operators/operators.inc"
};

inline constexpr int kMaxKernelMatrices = ACAN_KERNEL_MATRICES;

struct KernelScalars {
  std::array<float, ACAN_KERNEL_FLOATS> f{};
  std::array<std::int64_t, ACAN_KERNEL_INTEGERS> i{};
  friend bool operator==(const KernelScalars&, const KernelScalars&) = default;
};

}  // namespace acan
