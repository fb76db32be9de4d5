#include "lease_ends.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "tuplespace/planted.h"

namespace tuplespace::internal {

namespace {
constexpr std::size_t kMaxCauseBytes = 4096;
constexpr std::size_t kMaxSaidBytes = 256;  // in texts that are repeated
constexpr std::size_t kLostWithSaid = 3;    // so many clients were lost with a task

// A client that was told where to fetch an input asks the space for it when it has tried for
// kFetchUs, and for as long as the bytes take at the least rate that it accepts (PeerReaderLimits).
constexpr std::int64_t kFetchUs = 10'000'000;
constexpr std::uint64_t kMinBytesPerS = 64 << 10;
constexpr std::uint32_t kMaxFetchHalvings = 4;

// Whether another client was asked for the payload of an input of this task and has not supplied
// it. A place that the task's holder was told does not count: the space does not know whether the
// payload is late, and it must not be free to take such tasks and give them back.
bool WaitsForAnother(const Record& record, const ClientState& holder) {
  if (!record.task) return false;
  return std::any_of(record.task->links.begin(), record.task->links.end(), [&](const auto& link) {
    const Residence* residence = link.input->residence.get();
    return residence != nullptr && residence->asked == Asked::kNeeded && residence->with != &holder;
  });
}

}  // namespace

// Whether the task's holder may still be fetching an input from another client that holds it. The
// space does not know when a transfer ends, so it assumes the longest. A client that was told a
// place fetches from there first, although the space may have the payload, too, or may get it
// meanwhile. Each bench of the task's holder halves that time: otherwise a client could keep any
// task with such an input for as long.
bool LeaseEnds::MayBeFetching(const Record& record, const ClientState& holder) const {
  if (!record.task) return false;
  std::uint64_t resident_bytes = 0;
  for (const InputLink& link : record.task->links) {
    const Residence* residence = link.input->residence.get();
    if (residence == nullptr || residence->with == &holder || !residence->with->listens) continue;
    if (!holder.held.contains(link.input)) resident_bytes += residence->bytes;
  }
  // Not the sum: inputs that stay with others are among the placed ones, too.
  const std::uint64_t bytes = std::max(record.lease->placed_bytes, resident_bytes);
  if (bytes == 0) return false;
  const auto travels_us = static_cast<std::int64_t>(bytes / kMinBytesPerS) * 1'000'000;
  const std::uint32_t benches = BenchesThatCount(state_, holder, NameOf(record.judge()));
  const std::int64_t most_us = std::min(kFetchUs + travels_us, state_.limits.supply_us) >>
                               std::min(benches, kMaxFetchHalvings);
  return state_.now_us - record.lease->granted_us < most_us;
}

void LeaseEnds::Handle(ClientState& client, RequestId id, Extend&& extend) {
  if (extend.lease_us < 0 || extend.lease_us > state_.limits.max_lease_us) {
    return state_.answers.Refuse(
        *client.id, id,
        {ErrorCode::kBadRequest, "lease_us " + std::to_string(extend.lease_us) + ", must be 0 to " +
                                     std::to_string(state_.limits.max_lease_us) +
                                     " (limits.max_lease_us)"});
  }
  Record* record = leases_.Find(client, extend.lease);
  if (record == nullptr) return state_.answers.Answer(client, id, LeaseReply{LeaseStatus::kStale});
  record->lease->extended = true;
  // A client that waits is not at fault if another client does not supply a payload.
  if (WaitsForAnother(*record, client) || MayBeFetching(*record, client)) {
    record->lease->counted_from_us = state_.now_us;
  }
  const std::int64_t end_us = ExtendedEndUs(client, *record, extend.lease_us);
  if (!IsPlanted(Planted::kExtensionIsForgotten)) {
    state_.deadlines.Set(&record->lease->deadline, end_us);
  }
  state_.answers.Answer(client, id, LeaseReply{});
}

// The lease goes beyond its last end only if no other client may take the task, and then by one
// lease at a time: clients may join, or get tasks again, and should not wait for an hour.
std::int64_t LeaseEnds::ExtendedEndUs(const ClientState& holder, const Record& record,
                                      std::int64_t lease_us) const {
  const std::int64_t end_us = state_.After(leases_.OrDefaultLease(lease_us));
  const std::int64_t most_us = leases_.LastEndUs(record);
  if (end_us <= most_us || !record.task) return std::min(end_us, most_us);
  if (benches_.AnotherMayTake(record, holder)) {
    return std::max(most_us, state_.now_us);  // it may end now
  }
  return std::min(end_us, std::max(most_us, state_.After(leases_.LeaseUs(*record.task))));
}

void LeaseEnds::Handle(ClientState& client, RequestId id, Release&& release) {
  Record* record = leases_.Find(client, release.lease);
  if (record == nullptr) return state_.answers.Answer(client, id, LeaseReply{LeaseStatus::kStale});
  ++state_.counters.released;
  const bool others_could = record->task && record->task->missing == 0;
  if (others_could && !WaitsForAnother(*record, client)) {
    trust_.NoteGivenBack(client, record, leases_.next_fence());
  }
  Return(record);
  state_.answers.Answer(client, id, LeaseReply{});
}

void LeaseEnds::Handle(ClientState& client, RequestId id, Fail&& fail) {
  Record* record = leases_.Find(client, fail.lease);
  if (record == nullptr) return state_.answers.Answer(client, id, LeaseReply{LeaseStatus::kStale});
  if (record->task) {
    trust_.NoteInVain(client, record, 1, "fails task after task");
    FailTask(client, record, std::move(fail.cause));
  } else {
    ++state_.counters.failed;
    Return(record);  // a plain tuple cannot be at fault
  }
  state_.answers.Answer(client, id, LeaseReply{});
}

// `client` holds the task. The task goes to other clients, or is parked if it is hopeless.
void LeaseEnds::FailTask(ClientState& client, Record* record, std::string cause) {
  ++state_.counters.failed;
  Mishaps& mishaps = MishapsOf(*record->task);
  ++mishaps.failures;
  mishaps.failed_with_key |= client.key != nullptr;
  std::vector<Mishaps::Failed>& with = mishaps.failed_with;
  auto at = std::find_if(with.begin(), with.end(),
                         [&](const auto& each) { return each.principal == client.principal; });
  // Further ones do not matter.
  if (at == with.end() && with.size() <= state_.limits.task_failures) {
    at = with.insert(at, {client.principal, 0});
  }
  if (at != with.end()) ++at->times;
  cause.resize(std::min(cause.size(), kMaxCauseBytes));
  AddBarred(*record->task, client);
  if (!record->task->goes_with_lease && IsHopeless(*record, client, cause)) {
    leases_.Drop(record);
    removal_.Park(record, Notice::Kind::kParked, *client.id, std::move(cause));
  } else {
    BarUntilOthersTried(record, client);
    Return(record);
  }
}

// Whether a task that has just failed with `by` must be parked, which ends a run. Reports of a
// single key are no reason while others could do the task. If no other client is there, it is
// unknown whether the task or the client is bad. Then clients with a key keep trying for a while,
// as a client that can do the task may join. Between two attempts the task is barred for them, so
// there must be room for that.
bool LeaseEnds::IsHopeless(const Record& record, const ClientState& by, const std::string& cause) {
  Mishaps& mishaps = *record.task->mishaps;
  std::uint32_t failures = 0;
  std::uint32_t most_of_one = 0;
  for (const auto& each : mishaps.failed_with) {
    failures += each.times;
    most_of_one = std::max(most_of_one, each.times);
  }
  if (IsPlanted(Planted::kOneKeyParksTasks)) most_of_one = 0;
  if (failures - most_of_one >= state_.limits.task_failures) return true;
  if (mishaps.failures < state_.limits.task_failures) return false;
  if (IsPlanted(Planted::kOneClientParksTasks)) return true;
  if (benches_.AnotherCouldTake(record, nullptr, Benches::When::kSomeDay)) return false;
  if (!mishaps.failed_with_key || !HasRoomToBar(*record.task)) return true;
  if (state_.now_us < mishaps.next_round_us) return false;
  if (mishaps.rounds >= state_.limits.rounds_alone) return true;
  const std::int64_t pause_us = benches_.BenchUs(mishaps.rounds++, 0);
  mishaps.next_round_us = state_.After(pause_us);
  state_.answers.Notify(
      record.put_by,
      Notice{Notice::Kind::kMistrusted, record.key, *by.id,
             "task " + record.key.ToString() + " has failed " + std::to_string(mishaps.failures) +
                 " times, on all present clients; " +
                 "other clients may take it, these try again in " +
                 std::to_string(pause_us / 1000) + " ms. The last error, of client \"" + *by.id +
                 "\": " + cause.substr(0, kMaxSaidBytes)});
  return false;
}

void LeaseEnds::AddBarred(TaskState& task, const ClientState& client) const {
  const auto at = std::lower_bound(task.barred.begin(), task.barred.end(), *client.id);
  const bool is_new = at == task.barred.end() || *at != *client.id;
  if (is_new && task.barred.size() < 2 * state_.limits.task_exclusions) {
    task.barred.insert(at, *client.id);
  }
}

// A task that failed on a client is reserved for others for the length of one of its leases, if
// other clients ever asked for such tasks. Each of them will have finished a task by then, however
// busy it is, and a single bad device cannot make the task fail for good. Then any client may try
// again. If the task has failed on all of them, those on which it failed earlier count as the
// others.
//
// Each Get looks at each list of clients for which tasks are barred. So the tasks of a key that
// decides only about some tasks may not have many different lists. Beyond that, any client may try
// again at once.
void LeaseEnds::BarUntilOthersTried(Record* record, const ClientState& client) {
  TaskState& task = *record->task;
  if (!benches_.AnotherCouldTake(*record)) {
    task.barred = task.spec.not_by;
    AddBarred(task, client);
  }
  task.barred_until_us = state_.now_us;
  if (!HasRoomToBar(task)) return;
  if (benches_.AnotherCouldTake(*record)) {
    task.barred_until_us = state_.After(leases_.LeaseUs(task));
  } else if (task.mishaps) {
    task.barred_until_us = std::max(task.mishaps->next_round_us, state_.now_us);
  }
}

bool LeaseEnds::HasRoomToBar(const TaskState& task) const {
  if (!task.judge) return true;
  const std::string& judge = task.judge->name;
  return state_.barred.Has(judge, task.barred) ||
         state_.barred.CountOf(judge) < task.judge->exclusions;
}

void LeaseEnds::TakeBack(const ClientState& client, const LeaseRef& lease) {
  Record* record = leases_.Find(client, lease);
  if (record == nullptr) return;
  ++state_.counters.leases_returned;
  Return(record);
}

// A task whose lease was extended as far as possible goes to others first and does not lengthen the
// next lease: otherwise each of a few clients that cling to it would keep it for twice as long.
void LeaseEnds::EndExpired(Record* record) {
  ClientState& holder = *record->lease->client;
  const bool kept_on = record->lease->extended && state_.now_us >= leases_.LastEndUs(*record);
  const std::int64_t kept_us = state_.now_us - record->lease->granted_us;
  const bool lacked_room = record->lease->lacked_room;  // not the holder's fault
  leases_.Lose(record);
  if (record->task && !lacked_room) {
    if (kept_on) {
      AddBarred(*record->task, holder);
      BarUntilOthersTried(record, holder);  // clients on which it failed earlier may try now
      trust_.NoteInVain(holder, record, state_.limits.tasks_in_vain,
                        "keeps extending the lease of a task", kept_us);
    } else {
      if (Doubles(holder, *record->task)) ++record->task->times_doubled;
      trust_.NoteInVain(holder, record, 1, "lets the leases of its tasks expire");
    }
  }
  Return(record);
}

void LeaseEnds::Return(Record* record) {
  if (record->task && record->task->goes_with_lease) return removal_.Remove(record, false);
  leases_.Drop(record);
  if (!record->task || record->task->missing == 0) return ready_.MakeReady(record);
  for (const InputLink& link : record->task->links) {
    if (!link.input->stored()) return removal_.Orphan(record, Key(link.input->key));
  }
  assert(false);
}

// Whether a lease that ran out lengthens the task's next one. The lease of a client on probation
// does not, and only one client of a key can do so: otherwise a client that makes new ids could
// keep the task twice as long with each.
bool LeaseEnds::Doubles(const ClientState& holder, TaskState& task) const {
  if (IsPlanted(Planted::kEveryLapseDoubles)) return true;
  if (trust_.IsOnProbation(holder) || leases_.LeaseUs(task) >= leases_.LongestLeaseUs(task))
    return false;
  if (holder.key == nullptr) return true;
  auto& by = MishapsOf(task).doubled_by;
  const auto same = [&](const auto& each) { return each.first == holder.principal; };
  const auto at = std::find_if(by.begin(), by.end(), same);
  if (at != by.end()) return at->second == *holder.id;
  by.emplace_back(holder.principal, *holder.id);
  return true;
}

Mishaps& LeaseEnds::MishapsOf(TaskState& task) {
  if (!task.mishaps) task.mishaps = std::make_unique<Mishaps>();
  return *task.mishaps;
}

// A client that a task kills, because it lacks memory or a driver fails, cannot report that. So the
// task would go to each client in turn, and nobody would name it. A client probably works on the
// task that it took first. A client that returns is not dead.
void LeaseEnds::NoteLostWith(const ClientState& client) {
  if (client.leases.empty()) return;
  const Record& record = *client.leases.first()->deadline.record;
  if (!record.task) return;
  std::vector<ClientId>& with = MishapsOf(*record.task).lost_with;
  const bool known = std::find(with.begin(), with.end(), *client.id) != with.end();
  if (known || with.size() >= kLostWithSaid) return;
  with.push_back(*client.id);
  if (with.size() < kLostWithSaid) return;
  state_.answers.Notify(
      record.put_by,
      Notice{Notice::Kind::kMistrusted, record.key, *client.id,
             "task " + record.key.ToString() + ": " + std::to_string(with.size()) +
                 " clients were lost while they held it, at last client \"" + *client.id +
                 "\". It may be what ends them: see their logs and, for a lack of memory, the " +
                 "kernel's log (dmesg) of their hosts"});
}

// The task that `client`, which leaves, has kept from others; null: none. For a client that has
// completed a task, only one counts that it has held for longer than its lease, and for which it
// does not wait for somebody else. Time in which it may have been fetching an input counts as well,
// as a client could leave just before that time ends.
Record* LeaseEnds::KeptFromOthers(const ClientState& client) const {
  for (const Lease* lease = client.leases.first(); lease != nullptr; lease = lease->next) {
    Record* record = lease->deadline.record;
    if (!record->task) continue;
    if (client.untried_of != nullptr) return record;
    const bool is_past = state_.now_us - lease->granted_us > lease->lease_us;
    if (!is_past || !lease->extended || lease->lacked_room) continue;
    if (!WaitsForAnother(*record, client)) return record;
  }
  return nullptr;
}

void LeaseEnds::ReturnAllOf(ClientState& client) {
  if (Record* task = KeptFromOthers(client)) trust_.NoteLeft(client, task);
  NoteLostWith(client);
  while (!client.leases.empty()) {
    ++state_.counters.leases_returned;
    Record* record = client.leases.first()->deadline.record;
    leases_.Lose(record);
    Return(record);
  }
}

}  // namespace tuplespace::internal
