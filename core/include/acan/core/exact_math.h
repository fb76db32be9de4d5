// Functions of IEEE double that have the same bits on every machine: only +, -, *, / and no libm
// function whose last bit could differ.
#pragma once

#include <cstdint>

namespace acan {

// cos(pi * x) for x in [0, 1], within 1e-15 of the true value; exactly 1, 0, -1 at 0, 1/2, 1.
double CosinePi(double x);

// base ^ exponent by squaring, lowest bit of the exponent first. REQUIRES: exponent >= 0.
double IntegerPower(double base, std::int64_t exponent);

}  // namespace acan
