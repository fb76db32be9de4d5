#include "acan/generate/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <vector>

#include "acan/core/error.h"
#include "acan/core/exact_math.h"
#include "acan/core/philox.h"

namespace acan {
namespace {

// RandomUse::kSampling of manager/data/src/random_streams.h, where all streams that are drawn from
// the same seed are listed.
constexpr std::uint64_t kStream = std::uint64_t{5} << 58;
// Below this, e^x is not a normal number, and such a token is never drawn.
constexpr double kMinExponent = -700;

std::size_t Largest(std::span<const float> outputs) {
  return static_cast<std::size_t>(std::ranges::max_element(outputs) - outputs.begin());
}

// Uniform in [0, 1).
double Draw(std::uint64_t seed, std::int64_t position) {
  const acan_philox4 words = acan_philox(seed, static_cast<std::uint64_t>(position), kStream);
  const std::uint64_t bits = (std::uint64_t{words.v[0]} << 32 | words.v[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

// The tokens to draw from, ascending.
std::vector<std::size_t> Candidates(std::span<const float> outputs, std::int64_t top_k) {
  std::vector<std::size_t> tokens(outputs.size());
  std::iota(tokens.begin(), tokens.end(), std::size_t{0});
  if (top_k == 0 || top_k >= std::ssize(tokens)) return tokens;
  const auto is_before = [&outputs](std::size_t a, std::size_t b) {
    return outputs[a] != outputs[b] ? outputs[a] > outputs[b] : a < b;
  };
  const auto end = tokens.begin() + static_cast<std::ptrdiff_t>(top_k);
  std::nth_element(tokens.begin(), end - 1, tokens.end(), is_before);
  tokens.erase(end, tokens.end());
  std::ranges::sort(tokens);
  return tokens;
}

}  // namespace

std::int32_t ChooseToken(std::span<const float> outputs, const Sampling& sampling,
                         std::int64_t position) {
  assert(!outputs.empty());
  if (sampling.tokens > 0 && sampling.tokens < std::ssize(outputs)) {
    outputs = outputs.first(static_cast<std::size_t>(sampling.tokens));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (std::isfinite(outputs[i])) continue;
    throw FailureError(
        fmt::format("the model's output for token {} at position {} is {}: its weights do not give "
                    "finite numbers",
                    i, position, outputs[i]));
  }
  const std::size_t largest = Largest(outputs);
  if (sampling.temperature == 0) return static_cast<std::int32_t>(largest);
  const std::vector<std::size_t> tokens = Candidates(outputs, sampling.top_k);
  std::vector<double> sums;  // cumulative weights, by candidate
  double sum = 0;
  for (const std::size_t token : tokens) {
    const double exponent =
        (static_cast<double>(outputs[token]) - static_cast<double>(outputs[largest])) /
        sampling.temperature;
    if (exponent >= kMinExponent) sum += Exponential(exponent);
    sums.push_back(sum);
  }
  const double drawn = Draw(sampling.seed, position) * sum;
  const auto at = std::ranges::upper_bound(sums, drawn);
  // Rounding may make the product equal to the sum itself.
  const auto index = static_cast<std::size_t>(
      at == sums.end() ? std::ranges::lower_bound(sums, sum) - sums.begin() : at - sums.begin());
  return static_cast<std::int32_t>(tokens[index]);
}

}  // namespace acan
