#include "reference.h"

#include <fmt/format.h>

#include <bit>
#include <random>

#include "acan/core/range.h"

using acan_i32 = std::int32_t;
using acan_i64 = std::int64_t;
#define ACAN_FN [[maybe_unused]] static inline
#define ACAN_GLOBAL
#define ACAN_FMA(a, b, c) std::fma((a), (b), (c))
#define ACAN_DIV(a, b) ((a) / (b))
#define ACAN_SQRT(x) std::sqrt(x)
#define ACAN_AS_U32(x) std::bit_cast<std::uint32_t>(x)
#define ACAN_AS_F32(x) std::bit_cast<float>(static_cast<std::uint32_t>(x))
#include "acan/core/philox.h"
#include "acan/kernels/math.h"
#include "acan/kernels/soft_float.h"

namespace acan::test {
namespace {

float SumOf(const Range& range, std::int64_t block,
            const std::function<float(float, std::int64_t)>& leaf) {
  if (LeafCount(range, block) == 1) {
    float acc = 0.0f;
    for (std::int64_t i = range.begin; i < range.end; ++i) acc = leaf(acc, i);
    return acc;
  }
  const auto [left, right] = Halve(range, block);
  return SumOf(left, block, leaf) + SumOf(right, block, leaf);
}

}  // namespace

Host Random(std::int64_t rows, std::int64_t cols, std::uint32_t seed, float low, float high) {
  std::mt19937 generator(seed);
  Host host(rows, cols);
  for (float& x : host.v) {
    x = low + (high - low) * static_cast<float>(generator() >> 8) * 0x1p-24f;
  }
  return host;
}

float Canonical(float value) {
  return std::isnan(value) ? std::bit_cast<float>(0x7fc00000u) : value;
}

float TreeSum(std::int64_t n, std::int64_t block,
              const std::function<float(float, std::int64_t)>& leaf) {
  return SumOf({0, n}, block, leaf);
}

float LeftAt(GemmForm form, const Host& a, std::int64_t i, std::int64_t k) {
  return form == GemmForm::kGradient ? a.at(k, i) : a.at(i, k);
}

float RightAt(GemmForm form, const Host& b, std::int64_t j, std::int64_t k) {
  return form == GemmForm::kForward ? b.at(j, k) : b.at(k, j);
}

Host GemmReference(GemmForm form, std::int64_t block, const Host& a, const Host& b) {
  const std::int64_t m = form == GemmForm::kGradient ? a.cols : a.rows;
  const std::int64_t k = form == GemmForm::kGradient ? a.rows : a.cols;
  const std::int64_t n = form == GemmForm::kForward ? b.rows : b.cols;
  Host c(m, n);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      c.at(i, j) = Canonical(TreeSum(k, block, [&](float acc, std::int64_t at) {
        return std::fma(LeftAt(form, a, i, at), RightAt(form, b, j, at), acc);
      }));
    }
  }
  return c;
}

std::string Difference(const Host& got, const Host& want) {
  if (got.rows != want.rows || got.cols != want.cols) return "shapes differ";
  for (std::int64_t r = 0; r < got.rows; ++r) {
    for (std::int64_t c = 0; c < got.cols; ++c) {
      const auto x = std::bit_cast<std::uint32_t>(got.at(r, c));
      const auto y = std::bit_cast<std::uint32_t>(want.at(r, c));
      if (x != y) {
        return fmt::format("[{}, {}]: got {} ({:08x}), want {} ({:08x})", r, c, got.at(r, c), x,
                           want.at(r, c), y);
      }
    }
  }
  return "";
}

OnDevice Space(Device& device, std::int64_t rows, std::int64_t cols, std::int64_t pad) {
  const std::int64_t stride = cols + pad;
  OnDevice out;
  out.buffer = device.Allocate(static_cast<std::uint64_t>(rows * stride + pad) * 4);
  out.matrix = {out.buffer.get(), pad, rows, cols, stride};
  return out;
}

OnDevice Put(Device& device, const Host& host, std::int64_t pad) {
  OnDevice out = Space(device, host.rows, host.cols, pad);
  device.CopyIn(tuplespace::Payload::Copy(host.v.data(), host.v.size() * 4), out.matrix);
  return out;
}

Host Fetch(Device& device, const OnDevice& from) {
  Host host(from.matrix.rows, from.matrix.cols);
  const tuplespace::Payload payload = device.Download(from.buffer, from.matrix);
  std::memcpy(host.v.data(), payload.data(), payload.size());
  return host;
}

Matrix Columns(const Matrix& m, std::int64_t begin, std::int64_t end) {
  Matrix part = m;
  part.offset += begin;
  part.cols = end - begin;
  return part;
}

Matrix Rows(const Matrix& m, std::int64_t begin, std::int64_t end) {
  Matrix part = m;
  part.offset += begin * m.stride;
  part.rows = end - begin;
  return part;
}

float KernelExp(float x) {
  return acan_exp(x);
}
float KernelLog(float x) {
  return acan_log(x);
}
float KernelTanh(float x) {
  return acan_tanh(x);
}
float KernelSigmoid(float x) {
  return acan_sigmoid(x);
}
float KernelNormalCdf(float x) {
  return acan_normal_cdf(x);
}
float KernelNormalDensity(float x) {
  return acan_normal_density(x);
}

float KernelSoftDiv(float a, float b) {
  return acan_soft_div(a, b);
}
float KernelSoftSqrt(float x) {
  return acan_soft_sqrt(x);
}

}  // namespace acan::test
