#include "acan/core/exact_math.h"

#include <bit>
#include <cassert>
#include <cfloat>
#include <cmath>

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ == 1)
#error "acan's bits need IEEE arithmetic: remove -ffast-math and the like from the compiler's flags"
#endif
// From 16 on, only types narrower than float are widened. -1: the compiler may choose the x87 unit.
constexpr int kNarrowTypesAreWidened = 16;
static_assert(FLT_EVAL_METHOD == 0 || FLT_EVAL_METHOD >= kNarrowTypesAreWidened,
              "acan's bits need float arithmetic in float: not in the x87 unit (-mfpmath=387)");

namespace acan {
namespace {

constexpr double kPi = 3.14159265358979323846;

// Taylor series; |z| <= pi / 4, so the first dropped term is below 3e-18.
double CosineSeries(double z) {
  const double s = z * z;
  double sum = 1.0 / 20922789888000.0;
  sum = sum * s - 1.0 / 87178291200.0;
  sum = sum * s + 1.0 / 479001600.0;
  sum = sum * s - 1.0 / 3628800.0;
  sum = sum * s + 1.0 / 40320.0;
  sum = sum * s - 1.0 / 720.0;
  sum = sum * s + 1.0 / 24.0;
  sum = sum * s - 1.0 / 2.0;
  return sum * s + 1.0;
}

double SineSeries(double z) {
  const double s = z * z;
  double sum = 1.0 / 355687428096000.0;
  sum = sum * s - 1.0 / 1307674368000.0;
  sum = sum * s + 1.0 / 6227020800.0;
  sum = sum * s - 1.0 / 39916800.0;
  sum = sum * s + 1.0 / 362880.0;
  sum = sum * s - 1.0 / 5040.0;
  sum = sum * s + 1.0 / 120.0;
  sum = sum * s - 1.0 / 6.0;
  return z + z * (s * sum);
}

// x = quarter * pi / 2 + rest, |rest| <= pi / 4. pi / 2 is split into three parts; the first two
// have 33 bits, so that their products with the quarter are exact.
struct Quarters {
  std::int64_t quarter;
  double rest;
};

Quarters Reduce(double x) {
  assert(x >= -1048576.0 && x <= 1048576.0);
  const double quarter = std::floor(x * 0.63661977236758134308 + 0.5);
  double rest = x - quarter * 1.57079632673412561417e+00;
  rest = rest - quarter * 6.07710050630396597660e-11;
  rest = rest - quarter * 2.02226624879595063154e-21;
  return {static_cast<std::int64_t>(quarter), rest};
}

double PowerOfTwo(std::int64_t n) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52);
}

}  // namespace

double Exponential(double x) {
  assert(x >= -700.0 && x <= 700.0);
  const double n = std::floor(x * 1.44269504088896338700 + 0.5);
  // ln 2 in two parts; the product with the first part is exact.
  const double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
  // Taylor; |r| <= 0.35, so the first dropped term is below 4e-18.
  double sum = 1.0;
  for (int i = 14; i > 0; --i) sum = 1.0 + sum * r / i;
  return sum * PowerOfTwo(static_cast<std::int64_t>(n));
}

double Logarithm(double x) {
  assert(x >= 2.2250738585072014e-308 && x <= 1.7976931348623157e+308);
  // x = m * 2^e with m in [1, 2), which is then moved to [sqrt(1/2), sqrt(2)).
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto e = static_cast<double>(static_cast<std::int64_t>(bits >> 52) - 1023);
  double m = std::bit_cast<double>((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);
  if (m > 1.4142135623730951) {
    m = m * 0.5;
    e = e + 1.0;
  }
  // log m = 2 artanh s; |s| <= 0.172, so the first dropped term is below 1e-19.
  const double s = (m - 1.0) / (m + 1.0);
  const double u = s * s;
  double sum = 0.0;
  for (int i = 23; i > 0; i -= 2) sum = sum * u + 1.0 / i;
  return e * 6.93147180369123816490e-01 + (e * 1.90821492927058770002e-10 + 2.0 * s * sum);
}

double Sine(double x) {
  const Quarters at = Reduce(x);
  const double value = at.quarter % 2 == 0 ? SineSeries(at.rest) : CosineSeries(at.rest);
  return (at.quarter & 2) == 0 ? value : -value;
}

double Cosine(double x) {
  const Quarters at = Reduce(x);
  const double value = at.quarter % 2 == 0 ? CosineSeries(at.rest) : SineSeries(at.rest);
  return ((at.quarter + 1) & 2) == 0 ? value : -value;
}

double CosinePi(double x) {
  assert(x >= 0.0 && x <= 1.0);
  // The subtractions are exact (Sterbenz), so only the products round.
  if (x > 0.5) return -CosinePi(1.0 - x);
  if (x > 0.25) return SineSeries(kPi * (0.5 - x));
  return CosineSeries(kPi * x);
}

double IntegerPower(double base, std::int64_t exponent) {
  assert(exponent >= 0);
  double power = 1.0;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) power *= base;
    base *= base;
  }
  return power;
}

}  // namespace acan
