// Gets, and the groups of Gets with the same pattern.
#include <algorithm>
#include <cassert>
#include <utility>

#include "space_core.h"

namespace tuplespace {

namespace {

Error Bad(std::string text) {
  return {ErrorCode::kBadRequest, std::move(text)};
}

}  // namespace

std::optional<Error> Space::Impl::ProblemOf(const Client& client, const Get& get) const {
  if (get.max_count == 0) return Bad("max_count 0, must be at least 1");
  if (get.max_count > MostOfRequest(client)) {
    return Error{ErrorCode::kTooLarge, "max_count " + std::to_string(get.max_count) + ", at most " +
                                           std::to_string(MostOfRequest(client)) +
                                           " (limits.tuples_per_request)"};
  }
  if (client.lease_count >= client.limits.leases) {
    return Error{ErrorCode::kBusy, "leases of this client's role: it has " +
                                       std::to_string(client.lease_count) + ", the most allowed"};
  }
  if (get.lease_us < 0 || get.lease_us > limits_.max_lease_us) {
    return Bad("lease_us " + std::to_string(get.lease_us) + ", must be 0 to " +
               std::to_string(limits_.max_lease_us) + " (limits.max_lease_us)");
  }
  if (get.wait_us < 0) {
    return Bad("wait_us " + std::to_string(get.wait_us) + ", must not be negative");
  }
  return std::nullopt;
}

// A new offer ends the one before it, also when it is refused itself: its client is told of one
// end. Its place in the queue, if there was one.
std::optional<std::uint64_t> Space::Impl::EndReplaced(Client& client, RequestId id) {
  const auto open = client.gets.find(id);
  if (open == client.gets.end()) return std::nullopt;
  GetWaiter* replaced = &open->second;
  const std::uint64_t sequence = replaced->sequence;
  LeaveGroup(*replaced);
  deadlines_.Clear(&replaced->deadline);
  client.gets.erase(open);
  --gauges_.open_gets;
  return sequence;
}

void Space::Impl::Handle(Client& client, RequestId id, Get&& get) {
  const std::optional<std::uint64_t> place = EndReplaced(client, id);
  // Most Gets repeat the pattern of the client's last one, which is known to be valid.
  GetGroup* group = client.last_group;
  const bool repeats = group != nullptr && internal::SamePattern(group->pattern, get.pattern);
  if (!repeats) {
    if (const auto problem = get.pattern.Problem()) {
      return Refuse(*client.id, id, Bad("pattern of a Get: " + *problem));
    }
  }
  if (auto problem = ProblemOf(client, get)) return Refuse(*client.id, id, std::move(*problem));
  if (client.reads.contains(id)) {
    return Refuse(*client.id, id,
                  Bad("request id " + std::to_string(id) +
                      " is that of an open Read, must be a new one or that of a Get"));
  }
  if (get.wait_us > 0) {
    if (auto busy = CheckRoomForOpenRequest(client))
      return Refuse(*client.id, id, std::move(*busy));
  }
  if (!repeats) group = FindOrMakeGroup(get.pattern);
  if (group == nullptr) {
    return Refuse(
        *client.id, id,
        {ErrorCode::kBusy, "limits.get_patterns: Gets of " + std::to_string(limits_.get_patterns) +
                               " different patterns are open, the most allowed"});
  }
  client.last_group = group;
  ++counters_.gets;
  group->last_used = next_sequence_++;
  MakeUser(client, group);
  Match();  // a new group or a new user moves tuples that could be taken already

  Taker taker{.client = &client,
              .group = group,
              .offer_bytes = get.offer_bytes,
              .max_count = get.max_count,
              .with_inputs = get.with_inputs,
              .lease_us = get.lease_us,
              .share = get.share,
              .got = {}};
  if (!IsBenched(client)) Fill(taker);
  if (!taker.got.grants.empty() || get.wait_us == 0) {
    return Answer(client, id, std::move(taker.got));
  }
  StartWaiting(client, id, get, std::move(taker), place.value_or(group->last_used));
}

void Space::Impl::StartWaiting(Client& client, RequestId id, const Get& get, Taker taker,
                               std::uint64_t sequence) {
  assert(taker.got.grants.empty());
  GetWaiter& waiter = client.gets[id];
  waiter.id = id;
  waiter.sequence = sequence;
  waiter.taker = std::move(taker);
  ++gauges_.open_gets;
  if (get.wait_us != kForeverUs) deadlines_.Set(&waiter.deadline, After(get.wait_us));
  if (IsBenched(client)) return PutOnBench(waiter);
  const bool is_new = waiter.taker.group->waiters.insert(&waiter).second;
  assert(is_new);
  static_cast<void>(is_new);
}

void Space::Impl::EndGet(GetWaiter* waiter) {
  Client& client = *waiter->taker.client;
  const RequestId id = waiter->id;
  LeaveGroup(*waiter);
  deadlines_.Clear(&waiter->deadline);
  Answer(client, id, std::move(waiter->taker.got));
  --gauges_.open_gets;
  client.gets.erase(id);
}

Space::Impl::GetGroup* Space::Impl::FindOrMakeGroup(const Pattern& pattern) {
  if (GetGroup* group = get_groups_.Find(pattern)) return group;
  if (get_groups_.size() >= limits_.get_patterns && !EvictIdleGroup()) return nullptr;
  auto made = std::make_unique<GetGroup>();
  made->pattern = pattern;
  made->sequence = next_sequence_++;
  GetGroup* group = get_groups_.Add(std::move(made));
  groups_by_age_.emplace(group->sequence, group);
  std::vector<Record*> takable;
  store_.ScanStored(pattern, [&](Record* record) {
    if (record->state == RecordState::kTakable) takable.push_back(record);
    return true;
  });
  for (Record* record : takable) Requeue(record);
  return group;
}

// Who gets tuples of this pattern is worth keeping tasks for. Somebody who asks for one exact key
// is not: he wants that one, whatever he holds.
void Space::Impl::MakeUser(const Client& client, GetGroup* group) {
  if (group->users.contains(&client) || group->pattern.AsExactKey()) return;
  group->users.insert(&client);
  std::vector<const internal::Holding*> held;
  for (const auto& [record, holding] : client.held) held.push_back(&holding);
  for (const internal::Holding* holding : held) RequeueAffine(holding->record);
}

bool Space::Impl::EvictIdleGroup() {
  GetGroup* idle = nullptr;
  for (const auto& [sequence, group] : groups_by_age_) {
    if (!group->waiters.empty() || group->benched > 0) continue;
    if (idle == nullptr || group->last_used < idle->last_used) idle = group;
  }
  if (idle == nullptr) return false;
  EraseGroup(idle);
  return true;
}

void Space::Impl::EraseGroup(GetGroup* group) {
  assert(group->waiters.empty() && group->benched == 0);
  while (!group->free.empty()) DropEntry(group->free.root());
  while (!group->late.empty()) DropEntry(group->late.root());
  while (!group->preferred.empty()) DropEntry(group->preferred.begin()->second.root());
  for (auto* trees : {&group->free_but, &group->late_but}) {
    while (!trees->empty()) DropEntry(trees->begin()->second.root());
  }
  for (const auto& [id, client] : clients_) {
    if (client->last_group == group) client->last_group = nullptr;
  }
  groups_by_age_.erase(group->sequence);
  get_groups_.Remove(group);
}

}  // namespace tuplespace
