#include "acan/handler/fault_injector.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "acan/core/philox.h"
#include "fmt/format.h"

namespace acan {

using tuplespace::Payload;

namespace {

template <typename Number>
bool Parse(std::string_view text, Number* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

Payload WithFlipped(const Payload& payload, const std::vector<std::uint64_t>& bits) {
  std::string bytes(payload.text());
  for (const std::uint64_t bit : bits) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
  }
  return Payload::Copy(bytes);
}

}  // namespace

FaultPlan ParseFaults(const std::string& text) {
  FaultPlan plan;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t mark = part.find_first_of(":=");
    const std::string name = part.substr(0, mark);
    const std::string value = mark == std::string::npos ? "" : part.substr(mark + 1);
    double* rate = name == "results"       ? &plan.results
                   : name == "result_bits" ? &plan.result_bits
                   : name == "weights"     ? &plan.weights
                                           : nullptr;
    if (name == "seed" && Parse(value, &plan.seed)) continue;
    if (rate != nullptr && Parse(value, rate) && *rate >= 0 && *rate <= 1) continue;
    throw std::invalid_argument(fmt::format(
        "'{}' is not a fault; the faults are results:RATE, result_bits:RATE and weights:RATE "
        "with rates from 0 to 1, and seed=NUMBER, separated by commas",
        part));
  }
  return plan;
}

double FaultInjector::Uniform() {
  const acan_philox4 words = acan_philox(plan_.seed, drawn_++, 0);
  const std::uint64_t bits = (std::uint64_t{words.v[0]} << 21) ^ (words.v[1] >> 11);
  return (static_cast<double>(bits) + 1) / 9007199254740992.0;  // 2^53
}

std::optional<Payload> FaultInjector::FlipOne(const Payload& payload, double rate) {
  if (rate <= 0 || payload.empty() || Uniform() > rate) return std::nullopt;
  const double bits = static_cast<double>(payload.size()) * 8;
  const auto bit = static_cast<std::uint64_t>(std::ceil(Uniform() * bits)) - 1;
  return WithFlipped(payload, {bit});
}

std::optional<Payload> FaultInjector::FlipEach(const Payload& payload, double rate) {
  if (rate <= 0) return std::nullopt;
  const std::uint64_t bits = payload.size() * 8;
  std::vector<std::uint64_t> flipped;
  // The distance between two flips has a geometric distribution, so a small rate costs little.
  for (double at = 0;;) {
    at += rate < 1 ? std::floor(std::log(Uniform()) / std::log1p(-rate)) : 0;
    if (at >= static_cast<double>(bits)) break;
    flipped.push_back(static_cast<std::uint64_t>(at));
    at += 1;
  }
  if (flipped.empty()) return std::nullopt;
  return WithFlipped(payload, flipped);
}

std::optional<Payload> FaultInjector::OfResult(const Payload& payload) {
  if (auto flipped = FlipOne(payload, plan_.results)) return flipped;
  return FlipEach(payload, plan_.result_bits);
}

std::optional<Payload> FaultInjector::OfKept(const Payload& payload) {
  return FlipOne(payload, plan_.weights);
}

}  // namespace acan
