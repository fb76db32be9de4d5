// What the tests of the kernels of graphs share: the orders of their sums, written apart from the
// kernels, matrices, and the shapes and devices that each of these tests runs on.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <vector>

#include "reference.h"

namespace acan::test {

// acc with element i.
using Fold = std::function<float(float acc, std::int64_t i)>;

// The aligned tree over leaves[begin, end): the left child is the largest power of two below.
float Tree(const std::vector<float>& leaves, std::size_t begin, std::size_t end);
// n elements in lane order: lane i mod 16 of a leaf of 64 folds element i.
float LaneSum(std::int64_t n, const Fold& fold);
// Rows in groups: leaves of `block` rows, the tree in a group of `group` rows, the tree over
// groups.
float GroupSum(std::int64_t rows, std::int64_t group, std::int64_t block, const Fold& fold);

// [rows, cols] with of(row, column) in each place.
template <typename Of>
Host Make(std::int64_t rows, std::int64_t cols, Of of) {
  Host host(rows, cols);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) host.at(r, c) = Canonical(of(r, c));
  }
  return host;
}
// [rows, 1] of integers, as kernels take them, and one of them.
Host Integers(std::int64_t rows, const std::function<std::int64_t(std::int64_t)>& of);
std::int64_t IntegerAt(const Host& host, std::int64_t r);

// Random, and in every fifth place something that hurts.
Host Hard(std::int64_t rows, std::int64_t cols, std::uint32_t seed);

struct Case {
  std::int64_t rows, cols, pad;
};
// One element, one row, a leaf, a leaf and one, ragged, several leaves, enough for two threads.
inline constexpr Case kCases[] = {{1, 1, 0},  {1, 37, 0},   {3, 64, 0},    {5, 65, 2},
                                  {7, 15, 3}, {70, 200, 1}, {130, 130, 0}, {600, 321, 5}};

class RowKernelTest : public ::testing::TestWithParam<TestDevice> {
 protected:
  // body(device, case) with each number of threads of the device.
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

// Runs a kernel on matrices that are there.
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
