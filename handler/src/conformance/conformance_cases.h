// The battery's operations: their names, sizes, kinds of values, and scalars. Constants; any
// thread.
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
  kTiny,      // both signs, magnitudes from 2^-71 to 2^-55; half of the products are denormal
  kDenormal,  // both signs, magnitudes below 2^-126
  kPositive,  // (0, 1]
  kSpecial,   // as kWide, but every fourth value is from kSpecials
  kLabels,    // int32 in [0, kCols)
  kIndices,   // int32 in [0, kIndexed)
};

// One operation of the battery: the sizes of its row's dimensions, the kinds of values for the
// operands that it reads, in their order, and scalars.
using Sizes = Few<NamedDimension, 32>;  // may include dimensions of other rows
struct Case {
  std::string_view variant;  // the name of the variant; empty: there is only one
  std::string_view what;     // what is special about the case
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

// In the order of their hashes in conformance_table.inc: all cases of each product, then those of
// the kernels.
std::span<const ProductCase> AllProductCases();
std::span<const KernelCase> AllKernelCases();

}  // namespace acan::conformance
