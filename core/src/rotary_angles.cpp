#include "acan/core/rotary_angles.h"

#include <cassert>

#include "acan/core/exact_math.h"

namespace acan {

RotaryTables MakeRotaryTables(std::int64_t first, std::int64_t positions, std::int64_t head_size,
                              double base) {
  assert(head_size > 0 && head_size % 2 == 0 && base > 0.0);
  assert(first >= 0 && positions >= 0 && first + positions <= std::int64_t{1} << 20);
  const std::int64_t pairs = head_size / 2;
  const double log_base = Logarithm(base);
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(head_size);
    frequencies.push_back(Exponential(-exponent * log_base));
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
