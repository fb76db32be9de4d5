#include "acan/core/exact_math.h"

#include <cassert>

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

}  // namespace

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
