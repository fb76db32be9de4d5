#include "device/wide_rows.h"

#include <algorithm>

#include "acan/core/operators/by_rows.h"

namespace acan::cpu {

bool WideRows::MayPay(Kernel kernel, const KernelRegion& region) {
  return region.cols <= kMaxCols && region.rows >= kMinRows && IsByRows(kernel);
}

WideRows::WideRows(const LaunchArgs& args, const KernelRegion& region)
    : args_(args), region_(region) {
  const std::int64_t times = kCols / region.cols;
  if (!Widen(times)) return;
  rows_ = region.rows / times * times;
  region_.rows /= times;
  region_.cols *= times;
}

bool WideRows::Widen(std::int64_t times) {
  for (View& view : args_.m) {
    if (view.data == nullptr) continue;
    if (view.cols != region_.cols) return false;
    if (view.rows == region_.rows) {
      if (view.stride != view.cols) return false;
      view.rows /= times;
    } else {
      if (repeated_rows_ + view.rows > kMaxRepeatedRows) return false;
      float* const repeated = repeated_.data() + repeated_rows_ * kCols;
      for (std::int64_t r = 0; r < view.rows; ++r) {
        for (std::int64_t i = 0; i < times; ++i) {
          std::copy_n(view.data + r * view.stride, view.cols,
                      repeated + r * times * view.cols + i * view.cols);
        }
      }
      repeated_rows_ += view.rows;
      view.data = repeated;
    }
    view.cols *= times;
    view.stride = view.cols;
  }
  return true;
}

LaunchArgs RowsFrom(const LaunchArgs& args, const KernelRegion& region, std::int64_t row) {
  LaunchArgs rest = args;
  for (View& view : rest.m) {
    if (view.data == nullptr || view.rows != region.rows) continue;
    view.data += row * view.stride;
    view.rows -= row;
  }
  return rest;
}

}  // namespace acan::cpu
