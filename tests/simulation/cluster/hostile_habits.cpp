#include "cluster/hostile_habits.h"

#include <array>

#include "fmt/format.h"

namespace acan::simulation {

const char* NameOf(HostileDeed deed) {
  static constexpr std::array<const char*, kHostileDeeds> kNames = {"get",
                                                                    "complete its own",
                                                                    "complete others'",
                                                                    "complete what is not",
                                                                    "extend",
                                                                    "store",
                                                                    "fail",
                                                                    "put its capacity",
                                                                    "put reports",
                                                                    "put anything",
                                                                    "read",
                                                                    "list or count",
                                                                    "retire",
                                                                    "hold",
                                                                    "cancel",
                                                                    "supply",
                                                                    "flood",
                                                                    "join again",
                                                                    "leave",
                                                                    "lie",
                                                                    "keep results",
                                                                    "borrow"};
  return kNames[static_cast<std::size_t>(deed)];
}

HostileHabits::HostileHabits(std::uint64_t seed, bool lies, Random& random)
    : lies_(lies),
      agrees_(lies && Random(seed ^ 0xa94ee).OneIn(2)),  // so that the other seeds do not change
      pause_us_(random.Magnitude(10'000, 4'000'000)),
      after_one_in_(1ull << random.Between(2, 8)) {
  DrawWeights(random);
  DrawKeeping(Random(seed ^ 0x4ee9));
  DrawBorrowing(Random(seed ^ 0xb0440));
}

void HostileHabits::DrawWeights(Random& random) {
  // Each seed has only some of the deeds, with different frequencies.
  while (weights_.size() < static_cast<std::size_t>(HostileDeed::kLie)) {
    weights_.push_back(random.OneIn(3) ? 0 : 1ull << random.Below(5));
  }
  weights_.push_back(lies_ ? 1ull << random.Between(2, 6) : 0);
  weights_.resize(kHostileDeeds);
  // A client that takes no tasks does little harm.
  WeightOf(HostileDeed::kGet) = 1ull << random.Between(2, 5);
  // Some hostile handlers do only one kind of harm, to all tasks that they can get.
  const std::uint64_t kind = random.Below(6);
  clings_ = kind == 0;
  if (kind < (lies_ ? 4 : 3)) {
    // The last two only let leases expire, besides lying.
    const std::array kOnly = {HostileDeed::kExtend, HostileDeed::kFail, HostileDeed::kGet,
                              HostileDeed::kGet};
    weights_.assign(kHostileDeeds, 0);
    WeightOf(HostileDeed::kGet) = 1;
    WeightOf(kOnly.at(kind)) = 1;
    WeightOf(HostileDeed::kLie) = lies_ ? 1 : 0;
  }
}

// Uses its own random numbers, so that the other seeds do not change.
void HostileHabits::DrawKeeping(Random random) {
  if (!random.OneIn(3)) return;
  if (random.OneIn(3)) {  // it does nothing else
    weights_.assign(kHostileDeeds, 0);
    clings_ = false;
    WeightOf(HostileDeed::kGet) = 1;
  }
  WeightOf(HostileDeed::kKeep) = 1ull << random.Below(6);
  if (!lies_) WeightOf(HostileDeed::kSupply) = 0;
  listens_ = random.OneIn(2);
}

// As DrawKeeping.
void HostileHabits::DrawBorrowing(Random random) {
  if (random.OneIn(2)) WeightOf(HostileDeed::kBorrow) = 1ull << random.Below(6);
}

std::string HostileHabits::DescribeTimes() const {
  return fmt::format("acts every {:.0f} ms and after one in {} messages",
                     static_cast<double>(pause_us_) * 1e-3, after_one_in_);
}

std::string HostileHabits::DescribeDeeds() const {
  std::string deeds;
  for (std::size_t i = 0; i < kHostileDeeds; ++i) {
    if (weights_[i] == 0) continue;
    const char* between = deeds.empty() ? "" : ", ";
    deeds += fmt::format("{}{} {}", between, NameOf(static_cast<HostileDeed>(i)), weights_[i]);
  }
  return deeds;
}

std::int64_t HostileHabits::NextDelayUs(Random& random) const {
  return random.Magnitude(pause_us_ / 8 + 1, pause_us_ * 2);
}

HostileDeed HostileHabits::Draw(Random& random) const {
  std::uint64_t total = 0;
  for (const std::uint64_t weight : weights_) total += weight;
  std::uint64_t at = random.Below(total);
  for (std::size_t i = 0; i < kHostileDeeds; ++i) {
    if (at < weights_[i]) return static_cast<HostileDeed>(i);
    at -= weights_[i];
  }
  return HostileDeed::kGet;
}

}  // namespace acan::simulation
