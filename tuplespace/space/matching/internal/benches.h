// Benches: clients that get no tasks for a while. Their Gets wait on the bench as long as other
// clients could take the tasks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "get_groups.h"

namespace tuplespace::internal {

class Benches {
 public:
  Benches(SpaceState& state, GetGroups& groups) : state_(state), groups_(groups) {}

  bool IsBenched(const ClientState& client) const { return state_.now_us < BenchEndUs(client); }
  // Whether the client does not get this tuple now because it is benched, if only for such tuples.
  bool IsBenchedFor(const ClientState& client, const Record& record) const;
  // The length of a bench. It doubles each time, is at least `least_us`, and never exceeds
  // limits.most_bench_us.
  std::int64_t BenchUs(std::uint32_t times, std::int64_t least_us) const;
  // The Get of a benched client ends with its bench, and its client asks again. REQUIRES: the Get
  // is in no group's `waiters`.
  void PutOnBench(GetWaiter& waiter);
  // While a client is benched for the tasks of one judge, its Gets wait for others. But they end
  // with this bench at the latest, and the client asks again.
  void LimitWait(GetWaiter& waiter);
  // BeginBench: `client`, or its key, was just benched for the tasks of this judge (empty: for all
  // tasks), so the Gets of `client` wait as above. EndBench: the bench has ended early, so the Gets
  // that wait because of it end.
  void BeginBench(ClientState& client, std::string_view judge);
  void EndBench(ClientState& client, std::string_view judge);

  enum class When : bool { kNow, kSomeDay };  // kSomeDay: benches will have ended
  // Whether there is a client, other than `but`, that asks for such tasks, has offered enough
  // memory for this one, has not failed on it, and gets tasks now (kNow) or once benches end
  // (kSomeDay).
  bool AnotherCouldTake(const Record& record, const ClientState* but = nullptr,
                        When when = When::kNow) const;
  bool AnotherMayTake(const Record& record, const ClientState& holder) const;
  // As AnotherCouldTake, but excludes all untried clients of `key`.
  bool OthersThanUntriedCouldTake(const Record& record, const KeyTrust& key) const;

 private:
  static std::int64_t BenchEndUs(const ClientState& client) {
    const TrustRecord& own = client.trust.general;
    const KeyTrust* key = client.untried_of;
    if (key == nullptr) return own.benched_until_us;
    return std::max(
        {own.benched_until_us, key->trust.general.benched_until_us, key->trial_until_us});
  }
  template <class Accept>
  bool AnyUserCouldTake(const Record& record, Accept accept) const;
  template <class Accept>
  bool AnyUser(const Record& record, Accept accept) const;

  SpaceState& state_;
  GetGroups& groups_;
};

}  // namespace tuplespace::internal
