// Shared by the tests of graph kernels: the orders of their sums (written independently of the
// kernels), matrices, and the shapes and devices that each test runs on.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <vector>

#include "reference.h"

namespace acan::test {

// Folds element i into acc.
using Fold = std::function<float(float acc, std::int64_t i)>;

// The aligned tree over leaves[begin, end): the left child has the largest power of two of leaves
// below their number.
float Tree(const std::vector<float>& leaves, std::size_t begin, std::size_t end);
// The sum of n elements in lane order: lane i mod 16 of a leaf of 64 adds element i.
float LaneSum(std::int64_t n, const Fold& fold);
// The sum of rows in groups: leaves of `block` rows, a tree within each group of `group` rows, and
// a tree over the groups.
float GroupSum(std::int64_t rows, std::int64_t group, std::int64_t block, const Fold& fold);

// A matrix [rows, cols] with of(row, column) at each position.
template <typename Of>
Host Make(std::int64_t rows, std::int64_t cols, Of of) {
  Host host(rows, cols);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) host.at(r, c) = Canonical(of(r, c));
  }
  return host;
}
// A column [rows, 1] of integers as kernels take them, and one of its elements.
Host Integers(std::int64_t rows, const std::function<std::int64_t(std::int64_t)>& of);
std::int64_t IntegerAt(const Host& host, std::int64_t r);

// Random values, with a difficult value in every fifth place.
Host Hard(std::int64_t rows, std::int64_t cols, std::uint32_t seed);

struct Case {
  std::int64_t rows, cols, pad;
};
// One element, one row, one leaf, one more than a leaf, ragged, several leaves, enough for two
// threads.
inline constexpr Case kCases[] = {{1, 1, 0},  {1, 37, 0},   {3, 64, 0},    {5, 65, 2},
                                  {7, 15, 3}, {70, 200, 1}, {130, 130, 0}, {600, 321, 5}};

class RowKernelTest : public ::testing::TestWithParam<TestDevice> {
 protected:
  // Calls body(device, case) with each of the device's thread counts.
  template <typename Body>
  void ForAll(Body body) {
    ACAN_SKIP_WITHOUT(GetParam());
    for (const int threads : GetParam().threads) {
      const auto device = GetParam().make(threads, kRoomyBytes);
      for (const Case& at : kCases) {
        SCOPED_TRACE(::testing::Message() << "[" << at.rows << ", " << at.cols << "] pad " << at.pad
                                          << ", " << threads << " threads");
        body(*device, at);
      }
    }
  }
};

// Runs a kernel on existing matrices.
struct Launcher {
  Device& device;
  void operator()(Kernel kernel, const std::vector<Matrix>& m, const KernelScalars& scalars) const {
    KernelArgs args;
    std::copy(m.begin(), m.end(), args.m.begin());
    args.scalars = scalars;
    device.Launch(kernel, args);
  }
};

}  // namespace acan::test
