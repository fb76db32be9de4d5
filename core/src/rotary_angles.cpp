#include "acan/core/rotary_angles.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "acan/core/exact_math.h"

namespace acan {
namespace {

double Frequency(std::int64_t pair, std::int64_t head_size, double log_base) {
  const double exponent = static_cast<double>(2 * pair) / static_cast<double>(head_size);
  return Exponential(-exponent * log_base);
}

}  // namespace

std::int64_t MostRotaryPositions(std::int64_t head_size, double base) {
  assert(head_size > 0 && head_size % 2 == 0 && base > 0.0);
  if (base >= 1.0)
    return kMaxRotaryPositions;            // the largest frequency is that of the first pair, 1
  constexpr double kMaxAngle = 1048576.0;  // the limit of Sine and Cosine
  const double largest = Frequency(head_size / 2 - 1, head_size, Logarithm(base));
  auto last = static_cast<std::int64_t>(std::floor(kMaxAngle / largest));
  // Both the quotient and the product that makes the angle are rounded.
  while (static_cast<double>(last) * largest > kMaxAngle) --last;
  while (static_cast<double>(last + 1) * largest <= kMaxAngle) ++last;
  return std::min(last + 1, kMaxRotaryPositions);
}

RotaryTables MakeRotaryTables(std::int64_t first, std::int64_t positions, std::int64_t head_size,
                              double base) {
  assert(first >= 0 && positions >= 0 && first + positions <= MostRotaryPositions(head_size, base));
  const std::int64_t pairs = head_size / 2;
  const double log_base = Logarithm(base);
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < pairs; ++i) {
    frequencies.push_back(Frequency(i, head_size, log_base));
  }
  RotaryTables tables;
  tables.cosine.reserve(static_cast<std::size_t>(positions * pairs));
  tables.sine.reserve(static_cast<std::size_t>(positions * pairs));
  for (std::int64_t p = first; p < first + positions; ++p) {
    for (const double frequency : frequencies) {
      const double angle = static_cast<double>(p) * frequency;
      tables.cosine.push_back(static_cast<float>(Cosine(angle)));
      tables.sine.push_back(static_cast<float>(Sine(angle)));
    }
  }
  return tables;
}

}  // namespace acan
