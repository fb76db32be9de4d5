#include "space_check.h"

#include <algorithm>
#include <string>

#include "space_key_bytes.h"

namespace tuplespace::internal {
namespace {

std::optional<std::string> ContradictionOfResidence(const Record& record) {
  if (!record.stored() || record.task || !record.payload.empty()) {
    return "has a payload that stays with a client, but is no plain tuple without one";
  }
  if (!record.residence->with->held.contains(&record)) return "stays with one who does not hold it";
  if ((record.residence->asked == Asked::kNeeded) != record.residence->deadline.set()) {
    return "is needed without a deadline, or the other way round";
  }
  if (!record.entries.empty()) return "can be taken without its payload";
  return std::nullopt;
}

std::optional<std::string> ContradictionOfLease(const Record& record) {
  const Lease* lease = record.lease->client->leases.first();
  while (lease != nullptr && lease != record.lease.get()) lease = lease->next;
  if (lease == nullptr) return "has a lease that its client does not know";
  if (!lease->deadline.set()) return "has a lease that never ends";
  if (lease->placed_bytes > 0 && (!record.task || record.task->links.empty())) {
    return "has a lease with places of inputs, but no inputs";
  }
  return std::nullopt;
}

std::optional<std::string> ContradictionOfTask(const Record& record) {
  if (!record.stored()) return "has a task but is not stored";
  std::size_t missing = 0;
  for (const InputLink& link : record.task->links) missing += link.input->stored() ? 0 : 1;
  const bool linked = record.state != RecordState::kParked;
  if (linked && record.task->links.size() != record.task->spec.inputs.size()) {
    return "is linked to other inputs than it lists";
  }
  if (!linked && !record.task->links.empty()) return "is parked but linked to inputs";
  if (linked && missing != record.task->missing) return "miscounts its missing inputs";
  if (record.state == RecordState::kWaiting && missing == 0) return "waits for nothing";
  if (record.state == RecordState::kReady && missing != 0) return "is ready without its inputs";
  return std::nullopt;
}

std::optional<std::string> Contradiction(const SpaceState& state, const Record& record) {
  if (record.pins != 0 || record.queued) return "is pinned or queued between events";
  if (state.store.Find(record.key.bytes()) != &record) return "is not found by its key";
  if (record.stored() != (record.put_by != nullptr) && record.state != RecordState::kDone) {
    return "is stored but put by nobody, or the other way round";
  }
  if ((record.state == RecordState::kLeased) != (record.lease != nullptr)) {
    return "is leased without a lease, or the other way round";
  }
  if (record.lease) {
    if (auto problem = ContradictionOfLease(record)) return problem;
  }
  if ((record.placement != Placement::kNone) != (record.state == RecordState::kReady)) {
    return "is ready but not placed, or the other way round";
  }
  if (record.done && record.state != RecordState::kDone) return "is not done, but was";
  if (record.key_bytes != CountedKeyBytes(record)) return "miscounts the bytes of its keys";
  if (record.placement == Placement::kNone && !record.entries.empty()) {
    return "is in a tree without being placed";
  }
  for (const auto& entry : record.entries) {
    if (entry->record != &record || entry->tree == nullptr)
      return "has an entry that is not its own";
    if (entry->at >= record.entries.size() || record.entries[entry->at] != entry)
      return "has an entry that does not know its place";
    if (!entry->group->pattern.Matches(record.key)) return "is in a group that it does not match";
    if (entry->group->tasks_only && !record.task) return "is no task, but in a group for tasks";
  }
  for (const Holding* holding = record.holders.first(); holding != nullptr;
       holding = holding->next) {
    if (!record.stored()) return "is held but not stored";
    if (!holding->client->held.contains(&record)) return "is held by one who does not know it";
  }
  if (record.residence) {
    if (auto problem = ContradictionOfResidence(record)) return problem;
  }
  return record.task ? ContradictionOfTask(record) : std::nullopt;
}

std::optional<std::string> ContradictionOfRecords(const SpaceState& state, Stats* counted) {
  std::optional<std::string> problem;
  std::size_t records = 0;
  const auto check = [&](const Record* record) {
    ++records;
    if (const auto what = Contradiction(state, *record)) {
      problem = record->key.ToString() + " " + *what;
    }
    counted->payload_bytes += record->counted_bytes();
    if (record->task) {
      counted->tasks_waiting += record->state == RecordState::kWaiting;
      counted->tasks_ready += record->state == RecordState::kReady;
      counted->tasks_leased += record->state == RecordState::kLeased;
      counted->tasks_parked += record->state == RecordState::kParked;
    }
    return !problem;
  };
  const Pattern every{{}, true};
  state.store.ScanStored(every, [&](const Record* record) {
    if (!record->stored()) problem = record->key.ToString() + " is shown but not stored";
    return check(record);
  });
  state.store.ScanShadows(every, [&](const Record* record) {
    const bool used = record->state == RecordState::kDone || record->referenced();
    if (record->stored() || !used) problem = record->key.ToString() + " is a useless shadow";
    return check(record) && used;
  });
  if (problem) return problem;
  if (records != state.store.size()) return "the ordered and the hashed records differ in number";
  return std::nullopt;
}

std::optional<std::string> ContradictionOfGets(const GetGroups& groups, const Benches& benches,
                                               const ClientState& client) {
  for (const auto& [request, waiter] : client.gets) {
    if (waiter.benched != benches.IsBenched(client)) {
      return "a Get is benched without its client, or not with it";
    }
    if (waiter.taker.group->waiters.Contains(&waiter) == waiter.benched) {
      return "a Get waits nowhere, or on the bench and elsewhere";
    }
    if (waiter.benched) continue;
    if (groups.NextFor(waiter.taker) != nullptr) {
      return "a Get of " + *client.id + " waits beside its tuple";
    }
  }
  const auto whole_keys = std::count_if(
      client.gets.begin(), client.gets.end(),
      [](const auto& get) { return get.second.taker.group->pattern.AsExactKey().has_value(); });
  if (whole_keys > 1 && client.limits.borrow_us != kForeverUs) {
    return *client.id + " may only borrow tuples, and waits for " + std::to_string(whole_keys);
  }
  return std::nullopt;
}

std::optional<std::string> ContradictionOfOwnTuples(const SpaceState& state) {
  OwnTuples counted;
  for (const auto& [id, client] : state.clients) {
    std::uint64_t bytes = 0;
    for (const auto& [sequence, record] : client->ephemerals) {
      bytes += record->counted_bytes();
      counted.Add(client->principal, record->counted_bytes());
    }
    if (bytes != client->own_payload_bytes) return "the own bytes of " + id + " are miscounted";
  }
  if (counted != state.own_tuples) return "the own tuples of a key are miscounted";
  return std::nullopt;
}

std::optional<std::string> ContradictionOfAsked(const SpaceState& state) {
  for (const auto& [id, client] : state.clients) {
    std::uint64_t bytes = 0;
    for (const auto& [record, holding] : client->held) {
      const Residence* residence = record->residence.get();
      const bool stays = residence != nullptr && residence->with == client.get();
      if (stays && residence->asked == Asked::kAhead) bytes += residence->bytes;
    }
    if (bytes != client->asked_ahead_bytes) return "what " + id + " was asked for is miscounted";
  }
  return std::nullopt;
}

std::optional<std::string> ContradictionOfExclusions(const SpaceState& state) {
  Exclusions not_by;
  Exclusions barred;
  state.store.ScanStored(Pattern{{}, true}, [&](const Record* record) {
    if (!record->judge()) return true;
    const std::string& judge = record->judge()->name;
    not_by.Add(judge, record->task->spec.not_by);
    if (record->placement == Placement::kBarred) barred.Add(judge, record->task->barred);
    return true;
  });
  if (not_by != state.exclusions) return "the lists not_by of a key's tasks are miscounted";
  if (barred != state.barred) return "the lists of clients that are barred are miscounted";
  return std::nullopt;
}

bool SameGauges(const Stats& a, const Stats& b) {
  return a.payload_bytes == b.payload_bytes && a.tasks_waiting == b.tasks_waiting &&
         a.tasks_ready == b.tasks_ready && a.tasks_leased == b.tasks_leased &&
         a.tasks_parked == b.tasks_parked && a.open_reads == b.open_reads &&
         a.open_gets == b.open_gets && a.held_keys == b.held_keys;
}

std::optional<std::string> ContradictionOfTrees(const SpaceState& state, const GetGroup& group) {
  if (!group.free.IsConsistent() || !group.late.IsConsistent()) return "a tree is out of order";
  const auto others = static_cast<std::size_t>(
      std::count_if(group.users.begin(), group.users.end(),
                    [&](const ClientState* user) { return user->principal != group.principal; }));
  if (others != group.other_users) return "the users of a group are miscounted";
  if (group.whole_key && !group.users.empty()) return "the group of a whole key has users";
  for (const auto& [whose, tree] : group.preferred) {
    const ClientState* kept_for = whose.first;
    const bool is_there =
        std::any_of(state.clients.begin(), state.clients.end(),
                    [&](const auto& item) { return item.second.get() == kept_for; });
    if (!is_there) return "tuples are kept for a client that is gone";
    if (tree.empty() || !tree.IsConsistent()) return "a preferred tree is empty or out of order";
  }
  for (const auto* trees : {&group.free_but, &group.late_but}) {
    for (const auto& [barred, tree] : *trees) {
      if (tree.empty() || !tree.IsConsistent()) return "a barred tree is empty or out of order";
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> FindContradiction(const SpaceState& state, const GetGroups& groups,
                                             const Benches& benches) {
  Stats counted;
  if (!state.store.IsConsistent()) return "the order of keys contradicts itself";
  if (auto problem = ContradictionOfRecords(state, &counted)) return problem;
  for (const auto& [id, client] : state.clients) {
    counted.open_reads += client->reads.size();
    counted.open_gets += client->gets.size();
    counted.held_keys += client->held.size();
    if (auto problem = ContradictionOfGets(groups, benches, *client)) return problem;
  }
  if (!SameGauges(counted, state.gauges)) return "a gauge differs from a recount";
  if (auto problem = ContradictionOfOwnTuples(state)) return problem;
  if (auto problem = ContradictionOfExclusions(state)) return problem;
  if (auto problem = ContradictionOfAsked(state)) return problem;
  if (!state.deadlines.IsConsistent()) return "the deadlines are out of order";
  for (const GetGroups::ByAge* some : {&groups.patterns(), &groups.whole_keys()}) {
    for (const auto& [sequence, group] : *some) {
      if (auto problem = ContradictionOfTrees(state, *group)) return problem;
    }
  }
  if (!groups.IsConsistent()) return "the get groups differ in number";
  return std::nullopt;
}

}  // namespace tuplespace::internal
