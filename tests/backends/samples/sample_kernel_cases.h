// Shared by the tests of kernels over positions of samples: matrices, and the devices that each
// test runs on.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <vector>

#include "reference.h"

namespace acan::test {

inline constexpr std::int64_t kBlock = 16;

// Random values, with a difficult value in every fifth place.
inline Host HardSamples(std::int64_t rows, std::int64_t cols, std::uint32_t seed) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float hard[] = {0.0f, -0.0f, 1e-41f, 1e30f, -1e-30f, 104.0f, kInfinity, -kInfinity, NAN};
  Host host = Random(rows, cols, seed, -4.0f, 4.0f);
  for (std::size_t i = 4; i < host.v.size(); i += 5) host.v[i] = hard[i / 5 % std::size(hard)];
  return host;
}

using MakeHost = Host (*)(std::int64_t rows, std::int64_t cols, std::uint32_t seed);

inline Host Plain(std::int64_t rows, std::int64_t cols, std::uint32_t seed) {
  return Random(rows, cols, seed);
}

inline Host ColumnsOf(const Host& x, std::int64_t begin, std::int64_t end) {
  Host out(x.rows, end - begin);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (std::int64_t c = begin; c < end; ++c) out.at(r, c - begin) = x.at(r, c);
  }
  return out;
}

class SampleKernelTest : public ::testing::TestWithParam<TestDevice> {
 protected:
  // Calls body(device, make): once with ordinary values and once with some special ones.
  template <typename Body>
  void ForAll(Body body) {
    ACAN_SKIP_WITHOUT(GetParam());
    for (const int threads : GetParam().threads) {
      const auto device = GetParam().make(threads, kRoomyBytes);
      for (const MakeHost make : {&Plain, &HardSamples}) {
        SCOPED_TRACE(testing::Message() << threads << " threads, " << (make == &HardSamples));
        body(*device, make);
        if (HasFatalFailure()) return;
      }
    }
  }
};

inline void Launch(Device& device, Kernel kernel, const std::vector<Matrix>& m,
                   const KernelScalars& scalars) {
  KernelArgs args;
  for (std::size_t i = 0; i < m.size(); ++i) args.m[i] = m[i];
  args.scalars = scalars;
  device.Launch(kernel, args);
}

}  // namespace acan::test
