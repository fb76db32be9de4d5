// The definitions of the exact operations, written independently of the backends: recursive trees
// from range.h, scalar std::fma, and the kernels' elementary functions compiled with a separate
// prelude.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "acan/core/device.h"
#include "test_devices.h"

namespace acan::test {

// A row-major matrix on the host.
struct Host {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<float> v;

  Host() = default;
  Host(std::int64_t r, std::int64_t c) : rows(r), cols(c), v(static_cast<std::size_t>(r * c)) {}
  float& at(std::int64_t r, std::int64_t c) { return v[static_cast<std::size_t>(r * cols + c)]; }
  float at(std::int64_t r, std::int64_t c) const {
    return v[static_cast<std::size_t>(r * cols + c)];
  }
};

// Uniform in [low, high), from a self-contained generator.
Host Random(std::int64_t rows, std::int64_t cols, std::uint32_t seed, float low = -1.0f,
            float high = 1.0f);

// Maps every NaN to the same NaN.
float Canonical(float value);

// The sum of term(i) for i in [0, n): leaf(acc, i) adds a term to a leaf's sum; the tree adds the
// leaves.
float TreeSum(std::int64_t n, std::int64_t block,
              const std::function<float(float, std::int64_t)>& leaf);

// c[m, n] of `form`, computed element by element from the definition.
Host GemmReference(GemmForm form, std::int64_t block, const Host& a, const Host& b);

// Element (i, k) of the left operand and (j, k) of the right one, whatever the form's layout.
float LeftAt(GemmForm form, const Host& a, std::int64_t i, std::int64_t k);
float RightAt(GemmForm form, const Host& b, std::int64_t j, std::int64_t k);

// Returns "" if the bits are equal, else a text with the first position that differs and both
// values.
std::string Difference(const Host& got, const Host& want);

// A matrix on a device. If `pad` is not 0, it lies inside a wider buffer, so that its stride
// differs from its width.
struct OnDevice {
  BufferPtr buffer;
  Matrix matrix;
};
OnDevice Put(Device& device, const Host& host, std::int64_t pad = 0);
OnDevice Space(Device& device, std::int64_t rows, std::int64_t cols, std::int64_t pad = 0);
Host Fetch(Device& device, const OnDevice& from);
// Columns or rows [begin, end) of m, in m's buffer.
Matrix Columns(const Matrix& m, std::int64_t begin, std::int64_t end);
Matrix Rows(const Matrix& m, std::int64_t begin, std::int64_t end);

constexpr std::uint64_t kRoomyBytes = 1u << 30;

// exp, log, ... of the kernels, compiled with the tests' own prelude.
float KernelExp(float x);
float KernelLog(float x);
float KernelTanh(float x);
float KernelSigmoid(float x);
float KernelNormalCdf(float x);
float KernelNormalDensity(float x);
// Division and square root in integer arithmetic.
float KernelSoftDiv(float a, float b);
float KernelSoftSqrt(float x);

}  // namespace acan::test
