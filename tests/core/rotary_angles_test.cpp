// The angles of rotary positions and the double-precision functions behind them, compared with
// libm.
#include "acan/core/rotary_angles.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "acan/core/exact_math.h"

namespace acan {
namespace {

TEST(ExactMathTest, ExponentialsAndLogarithmsAgreeWithLibm) {
  EXPECT_EQ(Exponential(0.0), 1.0);
  EXPECT_EQ(Logarithm(1.0), 0.0);
  double worst_exponential = 0, worst_logarithm = 0;
  for (int i = -70000; i <= 70000; ++i) {
    const double x = i * 0.00997;
    worst_exponential = std::max(worst_exponential, std::fabs(Exponential(x) / std::exp(x) - 1));
    const double y = std::exp(x);
    const double scale = std::max(1.0, std::fabs(std::log(y)));
    worst_logarithm = std::max(worst_logarithm, std::fabs(Logarithm(y) - std::log(y)) / scale);
  }
  EXPECT_LT(worst_exponential, 1e-15);
  EXPECT_LT(worst_logarithm, 1e-15);
}

TEST(ExactMathTest, SinesAndCosinesAgreeWithLibm) {
  EXPECT_EQ(Sine(0.0), 0.0);
  EXPECT_EQ(Cosine(0.0), 1.0);
  double worst = 0;
  for (int i = -200000; i <= 200000; ++i) {
    const double x = i * 5.2428;  // up to 2^20
    worst = std::max(worst, std::fabs(Sine(x) - std::sin(x)));
    worst = std::max(worst, std::fabs(Cosine(x) - std::cos(x)));
  }
  for (int i = -100000; i <= 100000; ++i) {
    const double x = i * 1e-4;
    worst = std::max(worst, std::fabs(Sine(x) - std::sin(x)));
    worst = std::max(worst, std::fabs(Cosine(x) - std::cos(x)));
  }
  EXPECT_LT(worst, 1e-15);
}

TEST(RotaryTablesTest, AreThoseOfTheDefinition) {
  for (const double base : {10000.0, 500000.0}) {
    for (const std::int64_t head_size : {2, 64, 80, 128}) {
      const std::int64_t pairs = head_size / 2;
      const RotaryTables tables = MakeRotaryTables(0, 3000, head_size, base);
      ASSERT_EQ(tables.cosine.size(), static_cast<std::size_t>(3000 * pairs));
      for (std::int64_t p = 0; p < 3000; ++p) {
        for (std::int64_t i = 0; i < pairs; ++i) {
          const auto at = static_cast<std::size_t>(p * pairs + i);
          const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(head_size);
          const double angle = static_cast<double>(p) * std::pow(base, exponent);
          ASSERT_NEAR(tables.cosine[at], std::cos(angle), 4e-8) << p << ", " << i;
          ASSERT_NEAR(tables.sine[at], std::sin(angle), 4e-8) << p << ", " << i;
        }
      }
    }
  }
}

// At the first position past the limit, the angle would be too large for the sine.
TEST(RotaryTablesTest, BasesBelowOneHaveFewerPositions) {
  EXPECT_EQ(MostRotaryPositions(128, 10000.0), kMaxRotaryPositions);
  EXPECT_EQ(MostRotaryPositions(128, 1.0), kMaxRotaryPositions);
  EXPECT_EQ(MostRotaryPositions(2, 1e-30), kMaxRotaryPositions) << "its only pair turns by 1";
  EXPECT_EQ(MostRotaryPositions(64, 1e-45), 1);
  for (const double base : {0.999, 0.5, 0.01, 0.001, 1e-4}) {
    const std::int64_t most = MostRotaryPositions(128, base);
    const double largest = Exponential(-126.0 / 128.0 * Logarithm(base));
    EXPECT_LE(static_cast<double>(most - 1) * largest, 1048576.0) << base;
    EXPECT_GT(static_cast<double>(most) * largest, 1048576.0) << base;
    EXPECT_EQ(MakeRotaryTables(most - 1, 1, 128, base).sine.size(), 64u);
  }
}

// The tables of some positions equal those rows of the whole tables, with known bits.
TEST(RotaryTablesTest, DoNotDependOnTheCut) {
  const RotaryTables whole = MakeRotaryTables(0, 100, 64, 10000.0);
  const RotaryTables part = MakeRotaryTables(40, 60, 64, 10000.0);
  EXPECT_EQ(std::vector(whole.cosine.begin() + 40 * 32, whole.cosine.end()), part.cosine);
  EXPECT_EQ(std::vector(whole.sine.begin() + 40 * 32, whole.sine.end()), part.sine);
  std::uint32_t bits = 0;
  for (const float x : whole.cosine) bits = bits * 31 + std::bit_cast<std::uint32_t>(x);
  for (const float x : whole.sine) bits = bits * 31 + std::bit_cast<std::uint32_t>(x);
  EXPECT_EQ(bits, 1432980237u);
}

}  // namespace
}  // namespace acan
