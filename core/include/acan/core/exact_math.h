// Functions on IEEE double that return the same bits on every machine. They use only +, -, * and /,
// and no libm function whose last bit could differ.
#pragma once

#include <cstdint>

namespace acan {

// cos(pi * x) for x in [0, 1], with an error below 1e-15; exactly 1, 0, -1 at x = 0, 1/2, 1.
double CosinePi(double x);

// base ^ exponent by squaring, lowest bit of the exponent first. REQUIRES: exponent >= 0.
double IntegerPower(double base, std::int64_t exponent);

// e^x with a relative error below 1e-15. REQUIRES: -700 <= x <= 700.
double Exponential(double x);

// The natural logarithm, with a relative or absolute error below 1e-15. REQUIRES: x > 0, normal.
double Logarithm(double x);

// sin x and cos x with an error below 1e-15 plus the effect of x's own rounding. REQUIRES: |x| <=
// 2^20.
double Sine(double x);
double Cosine(double x);

}  // namespace acan
