// The kernels' elementary functions against float64, over all exponents and mantissas in steps.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "reference.h"

namespace acan::test {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

// Error in units in the last place of the exact result; denormal results use the unit of the
// smallest normal number.
double UlpError(float got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0.0 : 1e30;
  const auto rounded = static_cast<float>(want);
  if (std::isinf(rounded) || std::isinf(got)) {
    if (got == rounded) return 0.0;
    // One ulp beyond the largest float is where infinity sits.
    if (std::isinf(got) && std::isinf(rounded)) return 1e30;
    const double finite = std::isinf(got) ? std::copysign(0x1p128, got) : got;
    return std::abs(finite - (std::isinf(rounded) ? std::copysign(0x1p128, want) : want)) / 0x1p104;
  }
  int exponent = 0;
  std::frexp(want, &exponent);
  const double ulp = std::ldexp(1.0, std::max(exponent - 24, -149));
  return std::abs(static_cast<double>(got) - want) / ulp;
}

// The largest error over all floats in [low, high], of both signs, whose bits are a multiple of
// `step`.
struct Worst {
  double error = 0.0;
  float at = 0.0f;
};
Worst WorstOf(float (*got)(float), double (*want)(double), float low, float high) {
  Worst worst;
  constexpr std::uint32_t kStep = 4999;  // prime, so that all mantissas and exponents occur
  for (std::uint64_t bits = 0; bits < 0x100000000u; bits += kStep) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (!(x >= low && x <= high)) continue;
    const double error = UlpError(got(x), want(x));
    if (error > worst.error) worst = {error, x};
  }
  // A dense scan of the middle, where the polynomials meet.
  for (double x = std::max(low, -20.0f); x <= std::min(high, 20.0f); x += 0x1.3p-14) {
    const auto f = static_cast<float>(x);
    if (!(f >= low && f <= high)) continue;
    const double error = UlpError(got(f), want(f));
    if (error > worst.error) worst = {error, f};
  }
  return worst;
}

void ExpectWithin(double ulps, float (*got)(float), double (*want)(double), float low, float high) {
  const Worst worst = WorstOf(got, want, low, high);
  EXPECT_LE(worst.error, ulps) << "at " << worst.at << ": got " << got(worst.at) << ", want "
                               << want(static_cast<double>(worst.at));
  ::testing::Test::RecordProperty("worst_ulps", std::to_string(worst.error));
}

double Sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}
double NormalCdf(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}
double NormalDensity(double x) {
  return std::exp(-0.5 * x * x) / std::sqrt(2.0 * 3.14159265358979323846);
}

TEST(KernelMath, Exp) {
  ExpectWithin(
      1.2, KernelExp, [](double x) { return std::exp(x); }, -kInfinite, kInfinite);
  EXPECT_EQ(KernelExp(0.0f), 1.0f);
  EXPECT_EQ(KernelExp(-0.0f), 1.0f);
  EXPECT_EQ(KernelExp(kInfinite), kInfinite);
  EXPECT_EQ(KernelExp(-kInfinite), 0.0f);
  EXPECT_GT(KernelExp(-103.0f), 0.0f) << "denormal results must be kept";
  EXPECT_EQ(std::bit_cast<std::uint32_t>(KernelExp(kNan)), 0x7fc00000u);
}

TEST(KernelMath, Log) {
  ExpectWithin(
      1.5, KernelLog, [](double x) { return std::log(x); }, 0.0f, kInfinite);
  EXPECT_EQ(KernelLog(1.0f), 0.0f);
  EXPECT_EQ(KernelLog(0.0f), -kInfinite);
  EXPECT_EQ(KernelLog(-0.0f), -kInfinite);
  EXPECT_EQ(KernelLog(kInfinite), kInfinite);
  EXPECT_TRUE(std::isnan(KernelLog(-1.0f)));
  EXPECT_TRUE(std::isnan(KernelLog(-kInfinite)));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(KernelLog(kNan)), 0x7fc00000u);
}

TEST(KernelMath, Tanh) {
  ExpectWithin(
      2.0, KernelTanh, [](double x) { return std::tanh(x); }, -kInfinite, kInfinite);
  EXPECT_EQ(KernelTanh(kInfinite), 1.0f);
  EXPECT_EQ(KernelTanh(-kInfinite), -1.0f);
  EXPECT_EQ(KernelTanh(1e-40f), 1e-40f);
  EXPECT_TRUE(std::signbit(KernelTanh(-0.0f)));
  EXPECT_TRUE(std::isnan(KernelTanh(kNan)));
}

TEST(KernelMath, Sigmoid) {
  ExpectWithin(2.5, KernelSigmoid, Sigmoid, -kInfinite, kInfinite);
  EXPECT_EQ(KernelSigmoid(0.0f), 0.5f);
  EXPECT_EQ(KernelSigmoid(kInfinite), 1.0f);
  EXPECT_EQ(KernelSigmoid(-kInfinite), 0.0f);
  EXPECT_GT(KernelSigmoid(-100.0f), 0.0f) << "denormal results must be kept";
  EXPECT_TRUE(std::isnan(KernelSigmoid(kNan)));
}

TEST(KernelMath, NormalDistribution) {
  ExpectWithin(4.5, KernelNormalCdf, NormalCdf, -kInfinite, kInfinite);
  ExpectWithin(2.5, KernelNormalDensity, NormalDensity, -kInfinite, kInfinite);
  EXPECT_EQ(KernelNormalCdf(0.0f), 0.5f);
  EXPECT_EQ(KernelNormalCdf(kInfinite), 1.0f);
  EXPECT_EQ(KernelNormalCdf(-kInfinite), 0.0f);
}

TEST(KernelMath, TheMeasureItselfSeesErrors) {
  EXPECT_NEAR(UlpError(std::nextafter(1.5f, 2.0f), 1.5), 1.0, 1e-9);
  EXPECT_GT(UlpError(kInfinite, 1.0), 1e6);
  EXPECT_GT(UlpError(1.0f, std::nan("")), 1e6);
  EXPECT_NEAR(UlpError(2e-45f, 1.4012984643e-45), 0.0, 1e-3);
}

// Special bit patterns, values near rounding ties, denormals and random ones.
std::vector<float> AllKinds(std::uint32_t seed) {
  std::vector<float> out = {0.0f,      -0.0f,      1.0f,      -1.0f,
                            3.0f,      0x1p-149f,  0x1p-126f, 0x1.fffffep127f,
                            kInfinite, -kInfinite, kNan,      0x1.fffffep-127f};
  std::mt19937 generator(seed);
  for (int i = 0; i < 1000; ++i)
    out.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(generator())));
  for (int i = 0; i < 200; ++i)
    out.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(generator()) & 0x80ffffffu));
  for (int i = 0; i < 200; ++i) out.push_back(static_cast<float>(generator() % 4096));
  return out;
}

std::uint32_t Bits(float x) {
  return std::bit_cast<std::uint32_t>(Canonical(x));
}

TEST(SoftFloat, DivisionIsCorrectlyRounded) {
  const std::vector<float> left = AllKinds(1);
  const std::vector<float> right = AllKinds(2);
  for (const float a : left) {
    for (const float b : right) {
      ASSERT_EQ(Bits(KernelSoftDiv(a, b)), Bits(a / b)) << a << " / " << b;
    }
  }
}

TEST(SoftFloat, SquareRootIsCorrectlyRounded) {
  for (const float x : AllKinds(3)) ASSERT_EQ(Bits(KernelSoftSqrt(x)), Bits(std::sqrt(x))) << x;
  for (std::uint64_t bits = 0; bits < 0x100000000u; bits += 4999) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    ASSERT_EQ(Bits(KernelSoftSqrt(x)), Bits(std::sqrt(x))) << x;
  }
}

}  // namespace
}  // namespace acan::test
