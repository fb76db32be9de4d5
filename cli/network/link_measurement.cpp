#include "link_measurement.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

#include "acan/core/error.h"
#include "acan/core/names.h"
#include "fmt/format.h"

namespace acan::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

constexpr int kWarmUps = 5;
constexpr int kRoundTrips = 50;
constexpr std::chrono::seconds kPatience(10);  // for one answer
// Fewer bytes than a handler's key may own (HandlerLimits).
constexpr std::size_t kProbeBytes = 768 << 10;
constexpr int kMinProbes = 3;
constexpr int kMaxProbes = 200;
constexpr std::chrono::milliseconds kProbing(500);

[[noreturn]] void ThrowNoAnswer() {
  throw FailureError(fmt::format("the broker has not answered for {} s; it, or the link, hangs",
                                 kPatience.count()));
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Random bytes, which nothing on the way can compress.
tuplespace::Payload RandomBytes() {
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> words(kProbeBytes / sizeof(std::uint64_t));
  for (std::uint64_t& word : words) word = random();
  return tuplespace::Payload::Copy(words.data(), kProbeBytes);
}

// The rate of a probe that was answered after `took`, less a round trip, which says nothing about
// the rate.
double RateMbS(Clock::duration took, double round_trip_us) {
  const double took_us = Microseconds(took).count();
  return static_cast<double>(kProbeBytes) / std::max(took_us - round_trip_us, took_us / 4);
}

}  // namespace

RoundTrips MeasureRoundTrips(tuplespace::Client& client) {
  RoundTrips result;
  std::vector<double> times_us;
  for (int i = 0; i < kWarmUps + kRoundTrips; ++i) {
    const Clock::time_point begin = Clock::now();
    const auto stats = client.GetStatistics(kPatience);
    if (!stats) ThrowNoAnswer();
    const Microseconds took = Clock::now() - begin;
    if (i < kWarmUps) continue;
    const bool fastest = times_us.empty() || took.count() < result.least_us;
    times_us.push_back(took.count());
    if (!fastest) continue;
    result.least_us = took.count();
    if (stats->unix_us == 0) continue;
    // The broker answered half a round trip ago.
    const Microseconds here = std::chrono::system_clock::now().time_since_epoch() - took / 2;
    result.clock_ahead_s = (static_cast<double>(stats->unix_us) - here.count()) / 1e6;
  }
  result.count = kRoundTrips;
  result.median_us = Median(times_us);
  result.most_us = *std::max_element(times_us.begin(), times_us.end());
  return result;
}

Bandwidth MeasureBandwidth(tuplespace::Client& client, double round_trip_us) {
  const tuplespace::Payload bytes = RandomBytes();
  std::vector<double> to_broker;
  std::vector<double> from_broker;
  const Clock::time_point end = Clock::now() + kProbing;
  for (int i = 0; i < kMaxProbes && (i < kMinProbes || Clock::now() < end); ++i) {
    tuplespace::Tuple probe;
    probe.key = ProbeKey(client.id(), i);
    probe.payload = bytes;
    probe.ephemeral = true;
    const tuplespace::Pattern pattern = tuplespace::Pattern::Of(probe.key);
    const Clock::time_point begin = Clock::now();
    if (!client.Put({std::move(probe)}, kPatience)) ThrowNoAnswer();
    const Clock::time_point put = Clock::now();
    if (!client.ReadOne(pattern, kPatience)) ThrowNoAnswer();
    const Clock::time_point read = Clock::now();
    if (!client.RetireAll(pattern, /*watermark=*/false, kPatience)) ThrowNoAnswer();
    to_broker.push_back(RateMbS(put - begin, round_trip_us));
    from_broker.push_back(RateMbS(read - put, round_trip_us));
  }
  return {Median(to_broker), Median(from_broker)};
}

}  // namespace acan::cli
