// oneDNN, loaded when it is first wanted: the program runs where it is not installed. Any thread.
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

// Why oneDNN cannot be used, in a sentence; empty: it can.
std::string OneDnnProblem();
// "2.6.3"; empty without it.
std::string OneDnnVersion();
// What it compiles for here, like "avx2" or "avx512_core_amx"; empty without it.
std::string OneDnnIsa();
// Whether this CPU multiplies bf16 in hardware, and oneDNN uses that.
bool OneDnnHasBf16();

// Both run on `threads` OpenMP threads, the calling one included, and throw std::runtime_error with
// oneDNN's status. REQUIRES: OneDnnProblem() is empty.
void OneDnnMultiply(const OneDnnProduct& product, int threads);

// Operands rounded to bf16 (nearest, ties to even), sums in fp32. Takes 2 bytes for each element of
// a and b while it runs, and as much as the library wants. REQUIRES: OneDnnHasBf16(); alpha 1,
// beta 0.
void OneDnnMultiplyBf16(const OneDnnProduct& product, int threads);

}  // namespace acan::cpu
