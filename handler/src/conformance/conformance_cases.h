// The battery's operations: what each one is called, its sizes, the kinds of its values and its
// scalars. Constants; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "acan/core/device.h"
#include "acan/core/operators/operators.h"

namespace acan::conformance {

inline constexpr std::int64_t kCols = 83;  // six leaves of 16, the last of three
inline constexpr std::int64_t kIndexed = 7;

enum class Values : std::uint8_t {
  kUnit,      // [-1, 1)
  kWide,      // both signs, magnitudes from 2^-20 to 2^12
  kPositive,  // (0, 1]
  kSpecial,   // as kWide, every fourth from kSpecials
  kLabels,    // int32 in [0, kCols)
  kIndices,   // int32 in [0, kIndexed)
};

// One operation of the battery: a row of operators.inc, the sizes of its dimensions, values for the
// operands that it reads, in their order, and scalars.
using Sizes = Few<NamedDimension, 32>;  // of more dimensions than one row has
struct Case {
  std::string_view variant;  // of the scalar with this rule, in words; empty: there is one
  std::string_view what;     // what is special about it, in words
  Sizes sizes;
  Few<Values, kMaxKernelMatrices> values;
  KernelScalars scalars = {};
};

struct KernelCase {
  Kernel kernel;
  Case of;
};

struct ProductCase {
  std::int64_t block;
  Case of;
};

// In the order of their hashes in conformance_table.inc: of each product all the cases, then those
// of the kernels.
std::span<const ProductCase> AllProductCases();
std::span<const KernelCase> AllKernelCases();

}  // namespace acan::conformance
