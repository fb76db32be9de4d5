#include "benches.h"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "space_key_offences.h"

namespace tuplespace::internal {

namespace {
constexpr std::uint32_t kMaxBenchDoublings = 20;
}

// The Get is answered as timed out when the bench ends, and its client asks again.
void Benches::PutOnBench(GetWaiter& waiter) {
  assert(!waiter.benched && IsBenched(*waiter.taker.client));
  waiter.benched = true;
  ++waiter.taker.group->benched;
  const std::int64_t end_us = BenchEndUs(*waiter.taker.client);
  if (end_us == kForeverUs) return;
  if (!waiter.deadline.set() || waiter.deadline.when_us > end_us) {
    state_.deadlines.Set(&waiter.deadline, end_us);
  }
}

// The Gets that are being answered stay: their client learns of the bench with its next one.
void Benches::BeginBench(ClientState& client, std::string_view judge) {
  for (auto& [id, waiter] : client.gets) {
    if (!waiter.taker.got.grants.empty()) continue;
    if (!judge.empty()) {
      LimitWait(waiter);
    } else if (!waiter.benched) {
      GetGroups::Leave(waiter);
      PutOnBench(waiter);
    }
  }
}

void Benches::EndBench(ClientState& client, std::string_view judge) {
  std::vector<GetWaiter*> ended;
  for (auto& [id, waiter] : client.gets) {
    const bool waits_for_it = waiter.benched == judge.empty();
    if (waits_for_it && waiter.taker.got.grants.empty()) ended.push_back(&waiter);
  }
  for (GetWaiter* waiter : ended) groups_.EndGet(waiter);
}

bool Benches::IsBenchedFor(const ClientState& client, const Record& record) const {
  return IsBenched(client) || IsBenchedBy(state_, client, NameOf(record.judge()));
}

void Benches::LimitWait(GetWaiter& waiter) {
  const std::int64_t end_us = FirstApartEndUs(state_, *waiter.taker.client);
  if (end_us == kForeverUs) return;
  if (!waiter.deadline.set() || waiter.deadline.when_us > end_us) {
    state_.deadlines.Set(&waiter.deadline, end_us);
  }
}

std::int64_t Benches::BenchUs(std::uint32_t times, std::int64_t least_us) const {
  const std::uint32_t doublings = std::min(times, kMaxBenchDoublings);
  const bool most = state_.limits.first_bench_us > state_.limits.most_bench_us >> doublings;
  return most ? state_.limits.most_bench_us
              : std::clamp(least_us, state_.limits.first_bench_us << doublings,
                           state_.limits.most_bench_us);
}

bool Benches::AnotherCouldTake(const Record& record, const ClientState* but, When when) const {
  return AnyUserCouldTake(record, [&](const ClientState* user) {
    return user != but && (when == When::kSomeDay || !IsBenchedFor(*user, record));
  });
}

// Whether a client other than its holder could get the task at some time after its lease ends, even
// one on which it failed before. Ignores `barred`, which changes then (BarUntilOthersTried).
bool Benches::AnotherMayTake(const Record& record, const ClientState& holder) const {
  return AnyUser(record, [&](const ClientState* user) {
    const std::vector<ClientId>& never = record.task->spec.not_by;
    return user != &holder && !IsBenchedFor(*user, record) && !IsAmong(never, *user->id);
  });
}

bool Benches::OthersThanUntriedCouldTake(const Record& record, const KeyTrust& key) const {
  return AnyUserCouldTake(record, [&](const ClientState* user) {
    return user->untried_of != &key && !IsBenchedFor(*user, record);
  });
}

template <class Accept>
bool Benches::AnyUserCouldTake(const Record& record, Accept accept) const {
  const std::vector<ClientId>& barred = record.task->barred;
  return AnyUser(
      record, [&](const ClientState* user) { return accept(user) && !IsAmong(barred, *user->id); });
}

// Checks the clients that ever asked for such tasks and offered as much memory as this one needs.
template <class Accept>
bool Benches::AnyUser(const Record& record, Accept accept) const {
  bool found = false;
  const auto fits = [&](const ClientState* user) {
    return user->most_offered_bytes >= record.need_bytes() && accept(user);
  };
  groups_.ForEachMatch(record, [&](const GetGroup* group) {
    found = std::any_of(group->users.begin(), group->users.end(), fits);
    return !found;
  });
  return found;
}

}  // namespace tuplespace::internal
