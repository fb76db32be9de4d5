// The cost of hashing payloads: GB/s of HashOf compared with memcpy, for payloads of 4 KiB to 16
// MiB. Prints JSON with medians and the range of several runs.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "clock.h"
#include "tuplespace/payload.h"

namespace {

using acan::bench::NowS;

constexpr std::size_t kBytesPerRun = 256u << 20;
constexpr int kRuns = 9;

std::vector<double> Rates(std::size_t size, const std::function<void(std::size_t)>& work) {
  // More than any cache, so that every payload comes from memory, which is the worst case: a
  // payload that has just arrived is in a cache.
  const std::size_t slots = std::max<std::size_t>(1, (128u << 20) / size);
  std::vector<double> rates;
  for (int run = 0; run < kRuns; ++run) {
    const std::size_t count = kBytesPerRun / size;
    const double begin_s = NowS();
    for (std::size_t i = 0; i < count; ++i) work(i % slots * size);
    rates.push_back(static_cast<double>(count * size) / (NowS() - begin_s) * 1e-9);
  }
  std::sort(rates.begin(), rates.end());
  return rates;
}

}  // namespace

int main() {
  std::vector<std::byte> memory(128u << 20, std::byte{7});
  std::vector<std::byte> target(16u << 20);
  std::uint64_t sum = 0;
  fmt::print("{{\"bench\": \"payload_hash\", \"unit\": \"GB/s\", \"points\": [\n");
  bool first = true;
  for (std::size_t size = 4096; size <= (16u << 20); size *= 4) {
    const auto hash = Rates(size, [&](std::size_t at) {
      sum += tuplespace::HashOf({memory.data() + at, size}).low;
    });
    const auto copy = Rates(size, [&](std::size_t at) {
      std::memcpy(target.data(), memory.data() + at, size);
      sum += static_cast<std::uint64_t>(target[at % size]);
    });
    fmt::print(
        "{}  {{\"bytes\": {}, \"hash\": {:.2f}, \"hash_range\": [{:.2f}, {:.2f}], \"memcpy\": "
        "{:.2f}, "
        "\"memcpy_range\": [{:.2f}, {:.2f}]}}",
        first ? "" : ",\n", size, hash[kRuns / 2], hash.front(), hash.back(), copy[kRuns / 2],
        copy.front(), copy.back());
    first = false;
  }
  fmt::print("\n], \"checksum\": {}}}\n", sum);
}
