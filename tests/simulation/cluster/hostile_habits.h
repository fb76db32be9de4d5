// HostileHabits: what its seed makes of a HostileHandler: when it acts, which deeds it does, and
// how often it does each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "world/random.h"

namespace acan::simulation {

enum class HostileDeed : std::uint8_t {
  kGet,
  kCompleteOwn,
  kCompleteOthers,
  kCompleteInvented,
  kExtend,
  kStore,
  kFail,
  kPutCapacity,
  kPutReports,
  kPutAnything,
  kRead,
  kListOrCount,
  kRetire,
  kHold,
  kCancel,
  kSupply,
  kFlood,
  kJoinAgain,
  kLeave,
  kLie,
  kKeep,
  kBorrow,
  kCount,
};
inline constexpr std::size_t kHostileDeeds = static_cast<std::size_t>(HostileDeed::kCount);

const char* NameOf(HostileDeed deed);

class HostileHabits {
 public:
  // Draws most from `random`, which begins with the seed.
  HostileHabits(std::uint64_t seed, bool lies, Random& random);

  bool lies() const { return lies_; }
  bool agrees() const { return agrees_; }    // with itself, under several ids
  bool clings() const { return clings_; }    // only takes tasks and extends their leases for long
  bool listens() const { return listens_; }  // at kHostileEndpoint, and sends nothing
  bool Does(HostileDeed deed) const { return WeightOf(deed) > 0; }
  std::string DescribeTimes() const;
  std::string DescribeDeeds() const;  // with their weights

  // The time until it acts next, and whether it also acts after a message of another client.
  std::int64_t NextDelayUs(Random& random) const;
  bool Joins(Random& random) const { return random.OneIn(after_one_in_); }
  HostileDeed Draw(Random& random) const;

 private:
  std::uint64_t& WeightOf(HostileDeed deed) { return weights_[static_cast<std::size_t>(deed)]; }
  std::uint64_t WeightOf(HostileDeed deed) const {
    return weights_[static_cast<std::size_t>(deed)];
  }
  void DrawWeights(Random& random);
  void DrawKeeping(Random random);
  void DrawBorrowing(Random random);

  const bool lies_;
  const bool agrees_;
  bool clings_ = false;
  bool listens_ = false;
  std::int64_t pause_us_ = 0;
  std::uint64_t after_one_in_ = 1;
  std::vector<std::uint64_t> weights_;  // of its deeds
};

}  // namespace acan::simulation
