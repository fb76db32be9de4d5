// Benches: clients that get no tasks for a while wait on the bench, as long as others could take
// what they are kept from.
#pragma once

#include <algorithm>
#include <cstdint>

#include "get_groups.h"

namespace tuplespace::internal {

class Benches {
 public:
  Benches(SpaceState& state, GetGroups& groups) : state_(state), groups_(groups) {}

  bool IsBenched(const ClientState& client) const { return state_.now_us < BenchEndUs(client); }
  // How long a bench is: twice as long each time, and `least_us` at least, if that is not more than
  // the most.
  std::int64_t BenchUs(std::uint32_t times, std::int64_t least_us) const;
  // The Get of a benched client ends with its bench, and its client asks again.
  // REQUIRES: it is in no group's `waiters`.
  void PutOnBench(GetWaiter& waiter);
  void BenchUntried(const KeyTrust& key);
  void EndGetsOf(ClientState& client);  // those that wait on the bench

  enum class When : bool { kNow, kSomeDay };  // some day: benches end
  // Whether a client is there that asks for such tasks, has offered enough memory for this one, has
  // not failed on it, and gets tasks at present, or some day.
  bool AnotherCouldTake(const Record& record, const ClientState* but = nullptr,
                        When when = When::kNow) const;
  bool AnotherMayTake(const Record& record, const ClientState& holder) const;
  // As AnotherCouldTake, but for all untried clients of `key`.
  bool OthersThanUntriedCouldTake(const Record& record, const KeyTrust& key) const;

 private:
  static std::int64_t BenchEndUs(const ClientState& client) {
    const KeyTrust* key = client.untried_of;
    if (key == nullptr) return client.trust.benched_until_us;
    return std::max({client.trust.benched_until_us, key->benched_until_us, key->trial_until_us});
  }
  template <class Accept>
  bool AnyUserCouldTake(const Record& record, Accept accept) const;
  template <class Accept>
  bool AnyUser(const Record& record, Accept accept) const;

  SpaceState& state_;
  GetGroups& groups_;
};

}  // namespace tuplespace::internal
