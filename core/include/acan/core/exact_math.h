// Functions of IEEE double that have the same bits on every machine: only +, -, *, / and no libm
// function whose last bit could differ.
#pragma once

#include <cstdint>

namespace acan {

// cos(pi * x) for x in [0, 1], within 1e-15 of the true value; exactly 1, 0, -1 at 0, 1/2, 1.
double CosinePi(double x);

// base ^ exponent by squaring, lowest bit of the exponent first. REQUIRES: exponent >= 0.
double IntegerPower(double base, std::int64_t exponent);

// e^x within 1e-15 of it, relatively. REQUIRES: -700 <= x <= 700.
double Exponential(double x);

// The natural logarithm, within 1e-15 of it, relatively or absolutely. REQUIRES: x > 0, normal.
double Logarithm(double x);

// sin x and cos x within 1e-15 of them plus what x lost to its own rounding. REQUIRES: |x| <= 2^20.
double Sine(double x);
double Cosine(double x);

}  // namespace acan
