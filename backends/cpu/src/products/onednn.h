// oneDNN, loaded at its first use, so that the program runs where it is not installed. Any thread.
#pragma once

#include <cstdint>
#include <string>

namespace acan::cpu {

// Row-major c = alpha * op(a) * op(b) + beta * c, fp32 in memory. a is [m, k], or [k, m] if
// a_transposed; b is [k, n], or [n, k] if b_transposed. Strides are in floats, from row to row.
struct OneDnnProduct {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  const float* a;
  std::int64_t a_stride;
  bool a_transposed;
  const float* b;
  std::int64_t b_stride;
  bool b_transposed;
  float* c;
  std::int64_t c_stride;
  float alpha = 1.0f;
  float beta = 0.0f;
};

// Why oneDNN cannot be used, as a sentence; empty if it can.
std::string OneDnnProblem();
// "2.6.3"; empty if oneDNN cannot be used.
std::string OneDnnVersion();
// The instruction set for which oneDNN compiles, such as "avx2" or "avx512_core_amx"; empty if it
// cannot be used.
std::string OneDnnIsa();
// Whether this CPU multiplies bf16 in hardware and oneDNN uses that.
bool OneDnnHasBf16();

// Both functions run on `threads` OpenMP threads, including the calling one, and throw
// std::runtime_error with oneDNN's status. REQUIRES: OneDnnProblem() is empty.
void OneDnnMultiply(const OneDnnProduct& product, int threads);

// Rounds the operands to bf16 (nearest, ties to even) and sums in fp32. While it runs, it takes 2
// bytes for each element of a and b, and what the library allocates. REQUIRES: OneDnnHasBf16();
// alpha 1, beta 0.
void OneDnnMultiplyBf16(const OneDnnProduct& product, int threads);

}  // namespace acan::cpu
