// Plain arrays, which say what the programs' matrices must contain.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cuda_on_cpu {

// Small integers, whose sums and products are exact in any order and in bf16.
using Words = std::vector<float>;

// Whether the product of such words has only sums that are exact, too.
inline bool MayBeMultiplied(const Words& words) {
  return std::all_of(words.begin(), words.end(), [](float word) { return std::fabs(word) <= 200; });
}

// Word (i, x) of an operand is at i * row + x * next.
struct Strides {
  std::int64_t row, next;
};
// The sums over k of a(i, x) * b(j, x). Treats -0 as 0.
inline Words ProductOf(const Words& a, Strides of_a, const Words& b, Strides of_b, std::int64_t m,
                       std::int64_t n, std::int64_t k) {
  Words out;
  out.reserve(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (std::int64_t x = 0; x < k; ++x) {
        sum += a[static_cast<std::size_t>(i * of_a.row + x * of_a.next)] *
               b[static_cast<std::size_t>(j * of_b.row + x * of_b.next)];
      }
      out.push_back(sum + 0.0f);
    }
  }
  return out;
}

}  // namespace cuda_on_cpu
