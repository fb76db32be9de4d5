// Elementwise kernels over matrices of few columns: several rows are treated as one wide row,
// because a row of one or two vectors costs more than its elements.
#pragma once

#include <array>
#include <cstdint>

#include "acan/kernels/launch_check.h"
#include "isa/isa.h"

namespace acan::cpu {

// The launch of `kernel` over the first rows of its matrices, as a launch over wide rows. Matrices
// of one or two rows, such as a bias, are repeated. The args point into this object.
//
//   x[6, 2]  a b        x[2, 6]  a b c d e f     bias[1, 2]  u v    bias[1, 6]  u v u v u v
//            c d   as            g h i j k l                     as
//            ...
class WideRows {
 public:
  // Whether WideRows may pay off, judged without the args.
  static bool MayPay(Kernel kernel, const KernelRegion& region);

  // REQUIRES: MayPay(kernel, region).
  WideRows(const LaunchArgs& args, const KernelRegion& region);
  WideRows(const WideRows&) = delete;
  WideRows& operator=(const WideRows&) = delete;

  // The number of the narrow matrices' rows that are in wide rows; 0: the launch stays as it was.
  std::int64_t rows() const { return rows_; }
  const LaunchArgs& args() const { return args_; }
  KernelRegion region() const { return region_; }

 private:
  static constexpr std::int64_t kCols = 256;     // the most columns of a wide row
  static constexpr std::int64_t kMaxCols = 64;   // the most columns of a narrow row
  static constexpr std::int64_t kMinRows = 128;  // the fewest narrow rows
  static constexpr std::int64_t kMaxRepeatedRows = 8;

  // False if the rows are not contiguous.
  bool Widen(std::int64_t times);

  std::int64_t rows_ = 0;
  LaunchArgs args_{};
  KernelRegion region_{};
  std::int64_t repeated_rows_ = 0;
  alignas(64) std::array<float, kMaxRepeatedRows * kCols> repeated_;
};

// For operands with as many rows as the region, the rows from `row` on; other operands whole.
LaunchArgs RowsFrom(const LaunchArgs& args, const KernelRegion& region, std::int64_t row);

}  // namespace acan::cpu
