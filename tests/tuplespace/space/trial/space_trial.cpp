// Trial: draws the next event, lets clients join and leave, lets time pass, and checks what must
// hold.
#include "space_trial.h"

namespace tuplespace::testing {

SpaceLimits Trial::Limits() {
  SpaceLimits limits;
  limits.get_patterns = 3;
  limits.default_lease_us = 5000;
  limits.steal_after_us = 200;
  limits.most_steal_after_us = 400;
  limits.most_prefer_us = 300;
  limits.least_kept_bytes = 1;
  limits.supply_us = 1'000'000'000'000;  // no client is given up
  limits.lease_extensions = 1'000'000;   // no lease ends by this; space_trust_test.cpp tests it
  limits.first_bench_us = 20;
  limits.most_bench_us = 100;
  return limits;
}

void Trial::Step() {
  const ClientId client = kClients[Below(kClients.size())];
  if (!joined_.contains(client) && Below(4) != 0) return JoinOne(client);
  switch (Below(18)) {
    case 0:
    case 1:
    case 2:
      return PutSome(client);
    case 3:
    case 4:
    case 5:
      return GetSome(client);
    case 6:
    case 7:
    case 8:
      return CompleteOne(client);
    case 9:
      return EndOne(client);
    case 10:
      return Below(4) == 0 ? LoseOne(client) : ReadSome(client);
    case 11:
      return RetireSome(client);
    case 12:
      return HoldSome(client);
    case 13:
      return Pass(static_cast<std::int64_t>(Below(3000)));
    case 14:
      return ListAll(client);
    case 15:
    case 16:
      return SupplySome(client);
    default:
      return CancelOne(client);
  }
}

void Trial::CheckNobodyStarves() {
  Pass(60 * Limits().steal_after_us);
  for (const auto& [who, get] : open_gets_) {
    for (const auto& [key, tuple] : model_.tuples) {
      const std::uint64_t need_bytes = tuple.task ? tuple.task->need_bytes : 0;
      EXPECT_FALSE(model_.IsReady(tuple) && !MayBeReserved(tuple) && get.pattern.Matches(key) &&
                   need_bytes <= get.offer_bytes && !Model::IsKeptFrom(tuple, who.first))
          << key.ToString() << " is there, and " << who.first << " waits for it";
    }
  }
}

void Trial::CheckWhoAsksGetsTheBytes() {
  while (!wanted_.empty()) {
    const auto [key, client] = *wanted_.begin();
    Supplies(client, key);
  }
  for (const auto& [who, read] : open_reads_) {
    const auto matches = [&](const Pattern& pattern) {
      return std::any_of(model_.tuples.begin(), model_.tuples.end(),
                         [&](const auto& item) { return pattern.Matches(item.first); });
    };
    const auto& patterns = read.patterns;
    const bool there = read.all ? std::all_of(patterns.begin(), patterns.end(), matches)
                                : std::any_of(patterns.begin(), patterns.end(), matches);
    EXPECT_FALSE(there) << who.first << " waits for what is there";
  }
}

void Trial::CheckALateComerGetsAll() {
  JoinOne("late");
  while (!open_gets_.empty()) {
    const auto [client, id] = open_gets_.begin()->first;
    Ask<Ok>(client, Cancel{id});
  }
  Get get;
  get.pattern = Pattern{{}, true};
  get.max_count = 1000;
  get.wait_us = 0;
  const RequestId id = Send("late", get);
  open_gets_[{"late", id}] = get;
  Absorb();
  for (const auto& [key, tuple] : model_.tuples) {
    EXPECT_FALSE(model_.IsReady(tuple) && !MayBeReserved(tuple))
        << key.ToString() << " was not given";
  }
}

void Trial::JoinOne(const ClientId& client) {
  ClientJoined joining{client, {}, {}};
  joining.limits.judges_apart = client == "m";
  d_.Step(joining);
  joined_.insert(client);
  model_.joined.insert(client);
  if (Below(2) == 0) {
    d_.Step(ClientListens{client});
    listening_.insert(client);
  }
  Absorb();
}

void Trial::LoseOne(const ClientId& client) {
  if (!joined_.erase(client)) return;
  listening_.erase(client);
  std::erase_if(open_gets_, [&](const auto& item) { return item.first.first == client; });
  std::erase_if(open_reads_, [&](const auto& item) { return item.first.first == client; });
  model_.Lose(client);
  std::erase_if(wanted_, [&](const auto& item) { return item.second == client; });
  d_.Lose(client);
  Absorb();
}

void Trial::Pass(std::int64_t duration_us) {
  // Stops at each deadline, so that leases end one after the other, as they do in a broker.
  const std::int64_t end_us = d_.now_us + duration_us;
  while (d_.space.NextDeadlineUs() <= end_us) {
    const std::int64_t next_us = std::max(d_.now_us, d_.space.NextDeadlineUs());
    model_.Expire(next_us);
    d_.Advance(next_us - d_.now_us);
    Absorb();
    ASSERT_GT(d_.space.NextDeadlineUs(), d_.now_us);
  }
  d_.Advance(end_us - d_.now_us);
  Absorb();
}

}  // namespace tuplespace::testing
