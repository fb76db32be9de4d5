// Kernels that go element by element over matrices of few columns: several rows are one row of as
// many columns, because a row of one or two vectors costs more than its elements.
#pragma once

#include <array>
#include <cstdint>

#include "acan/kernels/launch_check.h"
#include "isa/isa.h"

namespace acan::cpu {

// The launch of `kernel` over its first rows as one over wide rows. What has one or two rows, such
// as a bias, is repeated. The args point into this object.
//
//   x[6, 2]  a b        x[2, 6]  a b c d e f     bias[1, 2]  u v    bias[1, 6]  u v u v u v
//            c d   as            g h i j k l                     as
//            ...
class WideRows {
 public:
  // Whether it is worth to look closer: without looking at the args.
  static bool MayPay(Kernel kernel, const KernelRegion& region);

  // REQUIRES: MayPay(kernel, region).
  WideRows(const LaunchArgs& args, const KernelRegion& region);
  WideRows(const WideRows&) = delete;
  WideRows& operator=(const WideRows&) = delete;

  // Of the narrow matrices, so many are in wide rows; 0: the launch is to be as it was.
  std::int64_t rows() const { return rows_; }
  const LaunchArgs& args() const { return args_; }
  KernelRegion region() const { return region_; }

 private:
  static constexpr std::int64_t kCols = 256;       // of a wide row, at most
  static constexpr std::int64_t kMostCols = 64;    // of a narrow one
  static constexpr std::int64_t kLeastRows = 128;  // of narrow ones
  static constexpr std::int64_t kMostRepeatedRows = 8;

  // False where they do not lie row behind row.
  bool Widen(std::int64_t times);

  std::int64_t rows_ = 0;
  LaunchArgs args_{};
  KernelRegion region_{};
  std::int64_t repeated_rows_ = 0;
  alignas(64) std::array<float, kMostRepeatedRows * kCols> repeated_;
};

// Of the operands that have as many rows as the region, those from `row` on; the others whole.
LaunchArgs RowsFrom(const LaunchArgs& args, const KernelRegion& region, std::int64_t row);

}  // namespace acan::cpu
