#include "gets.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "space_refusals.h"
#include "tuplespace/planted.h"

namespace tuplespace::internal {

std::optional<RequestError> Gets::ProblemOf(const ClientState& client, const Get& get) const {
  if (get.max_count == 0) return Bad("max_count 0, must be at least 1");
  if (get.max_count > state_.MostOfRequest(client)) {
    return TooLarge("max_count", get.max_count, "tuples_per_request", state_.MostOfRequest(client));
  }
  if (client.lease_count >= client.limits.leases) {
    return Busy("leases of this client's role: it has " + std::to_string(client.lease_count) +
                ", the most allowed");
  }
  if (get.lease_us < 0 || get.lease_us > state_.limits.max_lease_us) {
    return Bad("lease_us " + std::to_string(get.lease_us) + ", must be 0 to " +
               std::to_string(state_.limits.max_lease_us) + " (limits.max_lease_us)");
  }
  if (get.wait_us < 0) {
    return Bad("wait_us " + std::to_string(get.wait_us) + ", must not be negative");
  }
  return std::nullopt;
}

// A task's placement may have to pass over the Gets of clients that must not have it.
std::optional<RequestError> Gets::RoomProblemOf(const ClientState& client) const {
  if (auto busy = state_.CheckRoomForOpenRequest(client)) return busy;
  if (client.gets.size() < client.limits.open_gets) return std::nullopt;
  return Busy("open_gets of this client's role: " + std::to_string(client.limits.open_gets) +
              " are open, the most allowed");
}

// A client that only borrows plain tuples must not hold many places in the queue for one.
std::optional<RequestError> Gets::BorrowProblemOf(const ClientState& client,
                                                  const Pattern& pattern) const {
  if (client.limits.borrow_us == kForeverUs) return std::nullopt;
  const std::optional<Key> key = pattern.AsExactKey();
  if (!key) return std::nullopt;
  const Record* record = state_.store.Find(key->bytes());
  const bool has = record != nullptr && record->lease && record->lease->client == &client;
  bool waits = std::any_of(client.gets.begin(), client.gets.end(), [](const auto& item) {
    return item.second.taker.group->pattern.AsExactKey().has_value();
  });
  if (IsPlanted(Planted::kBorrowersWaitTwice)) waits = false;
  if (!has && !waits) return std::nullopt;
  return Busy("borrow_us of this client's role: it " +
              std::string(has ? "has borrowed" : "waits for") +
              " a tuple already, the most allowed");
}

// A new offer ends the earlier one, even if the new one is refused: its client gets one answer.
// Returns the earlier one's place in the queue, if it had one.
std::optional<std::uint64_t> Gets::EndReplaced(ClientState& client, RequestId id) {
  const auto open = client.gets.find(id);
  if (open == client.gets.end()) return std::nullopt;
  GetWaiter* replaced = &open->second;
  const std::uint64_t sequence = replaced->sequence;
  GetGroups::Leave(*replaced);
  state_.deadlines.Clear(&replaced->deadline);
  client.gets.erase(open);
  --state_.gauges.open_gets;
  return sequence;
}

void Gets::Handle(ClientState& client, RequestId id, Get&& get) {
  const std::optional<std::uint64_t> place = EndReplaced(client, id);
  // Most Gets repeat the pattern of the client's last one, which is known to be valid.
  GetGroup* group = client.last_group;
  const bool repeats = group != nullptr && SamePattern(group->pattern, get.pattern);
  if (!repeats) {
    if (const auto problem = get.pattern.Problem()) {
      return state_.answers.Refuse(*client.id, id, Bad("pattern of a Get: " + *problem));
    }
  }
  if (auto problem = ProblemOf(client, get))
    return state_.answers.Refuse(*client.id, id, std::move(*problem));
  if (auto busy = BorrowProblemOf(client, get.pattern))
    return state_.answers.Refuse(*client.id, id, std::move(*busy));
  if (client.reads.contains(id)) {
    return state_.answers.Refuse(
        *client.id, id,
        Bad("request id " + std::to_string(id) +
            " is that of an open Read, must be a new one or that of a Get"));
  }
  if (get.wait_us > 0) {
    if (auto busy = RoomProblemOf(client))
      return state_.answers.Refuse(*client.id, id, std::move(*busy));
  }
  std::uint64_t examined = 0;
  const std::uint64_t placed_before = ready_.placed();
  if (!repeats && (group = groups_.Find(client, get.pattern)) == nullptr) {
    if (auto busy = groups_.MakeRoomFor(client, get.pattern))
      return state_.answers.Refuse(*client.id, id, std::move(*busy));
    group = groups_.Make(client, get.pattern);
    examined = ready_.EnterNew(group);
  }
  client.last_group = group;
  client.ns_per_kib = get.ns_per_kib;
  client.holds_from_bytes = get.holds_from_bytes;
  client.most_offered_bytes = std::max(client.most_offered_bytes, get.offer_bytes);
  ++state_.counters.gets;
  group->last_used = state_.next_sequence++;
  if (!repeats) MakeUser(client, group);
  if (examined > 0) groups_.Charge(client, examined, ready_.placed() - placed_before);
  matcher_.Match();  // a new group or user moves tuples that could be taken already

  Taker taker{.client = &client,
              .group = group,
              .offer_bytes = get.offer_bytes,
              .max_count = get.max_count,
              .with_inputs = get.with_inputs,
              .direct = get.direct,
              .lease_us = get.lease_us,
              .share = get.share,
              .got = {}};
  if (!benches_.IsBenched(client)) matcher_.Fill(taker);
  if (!taker.got.grants.empty() || get.wait_us == 0) {
    return state_.answers.Answer(client, id, std::move(taker.got));
  }
  StartWaiting(client, id, get, std::move(taker), place.value_or(group->last_used));
}

void Gets::StartWaiting(ClientState& client, RequestId id, const Get& get, Taker taker,
                        std::uint64_t sequence) {
  assert(taker.got.grants.empty());
  GetWaiter& waiter = client.gets[id];
  waiter.id = id;
  waiter.sequence = sequence;
  waiter.taker = std::move(taker);
  ++state_.gauges.open_gets;
  if (get.wait_us != kForeverUs) state_.deadlines.Set(&waiter.deadline, state_.After(get.wait_us));
  if (benches_.IsBenched(client)) return benches_.PutOnBench(waiter);
  benches_.LimitWait(waiter);
  waiter.taker.group->waiters.Insert(&waiter);
}

// Tasks are reserved for clients that take tuples of this pattern. A client that asks for one exact
// key is not such a user: it wants that tuple, whatever copies it holds.
void Gets::MakeUser(const ClientState& client, GetGroup* group) {
  if (group->users.contains(&client) || group->pattern.AsExactKey()) return;
  group->users.insert(&client);
  if (client.principal != group->principal) ++group->other_users;
  std::vector<const Holding*> held;
  for (const auto& [record, holding] : client.held) held.push_back(&holding);
  for (const Holding* holding : held) ready_.RequeueAffine(holding->record);
}

void Gets::ForgetAllOf(ClientState& client) {
  for (auto& [id, waiter] : client.gets) {
    GetGroups::Leave(waiter);
    state_.deadlines.Clear(&waiter.deadline);
  }
  state_.gauges.open_gets -= client.gets.size();
  client.gets.clear();
}

}  // namespace tuplespace::internal
