// How leases end: completed, extended, stored back, failed, expired, or lost with the client.
#include <algorithm>
#include <cassert>
#include <set>
#include <string_view>
#include <utility>

#include "space_core.h"
#include "tuplespace/planted.h"

namespace tuplespace {

namespace {

constexpr std::size_t kMaxCauseBytes = 4096;
constexpr std::size_t kMaxSaidBytes = 256;    // of it, where it is said again and again
constexpr std::uint32_t kMostDoublings = 20;  // of a lease, by having run out
constexpr std::size_t kMaxPastLeases = 8;     // of one task

std::uint32_t Saturated(std::int64_t value) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(value, 0, UINT32_MAX));
}

// Of `leases` the one that `client` had under that fence, or null.
const internal::PastLease* HeldBefore(const internal::Client& client,
                                      const std::vector<internal::PastLease>& leases,
                                      std::uint64_t fence) {
  const auto at = std::find_if(leases.begin(), leases.end(), [&](const auto& past) {
    return past.fence == fence && *past.client == *client.id;
  });
  return at == leases.end() ? nullptr : &*at;
}

bool Declares(const std::vector<Key>& results, const Key& key) {
  return std::find(results.begin(), results.end(), key) != results.end();
}

}  // namespace

std::int64_t Space::Impl::OrDefaultLease(std::int64_t lease_us) const {
  return lease_us != 0 ? lease_us : std::min(limits_.default_lease_us, limits_.max_lease_us);
}

// How long a task may be kept from others, by extending its lease or by leases that ran out.
std::int64_t Space::Impl::LongestLeaseUs(const internal::TaskState& task) const {
  const std::int64_t lease_us = OrDefaultLease(task.spec.lease_us);
  const bool ends = lease_us <= kForeverUs / limits_.lease_extensions;
  return ends ? limits_.lease_extensions * lease_us : kForeverUs;
}

// Of the next lease of the task. Where a device is slower than thought, others should not do the
// same work again and again. A lease that is still too short for it loses nothing: the device may
// extend it, or complete the task late.
std::int64_t Space::Impl::LeaseUs(const internal::TaskState& task) const {
  const std::int64_t lease_us = OrDefaultLease(task.spec.lease_us);
  if (task.times_doubled == 0) return lease_us;
  std::int64_t most_us = limits_.max_lease_us;
  if (!IsPlanted(Planted::kEveryLapseDoubles)) most_us = std::min(most_us, LongestLeaseUs(task));
  const std::uint32_t doublings = std::min(task.times_doubled, kMostDoublings);
  return lease_us > most_us >> doublings ? most_us : lease_us << doublings;
}

// Whether a lease that ran out makes the next one of the task longer. That of a client on probation
// does not, and of the clients of one key only one's do: else whoever makes new ids would keep the
// task for twice as long with each.
bool Space::Impl::Doubles(const Client& holder, internal::TaskState& task) const {
  if (IsPlanted(Planted::kEveryLapseDoubles)) return true;
  if (IsOnProbation(holder) || LeaseUs(task) >= LongestLeaseUs(task)) return false;
  if (holder.key == nullptr) return true;
  auto& by = MishapsOf(task).doubled_by;
  const auto same = [&](const auto& each) { return each.first == holder.principal; };
  const auto at = std::find_if(by.begin(), by.end(), same);
  if (at != by.end()) return at->second == *holder.id;
  by.emplace_back(holder.principal, *holder.id);
  return true;
}

internal::Mishaps& Space::Impl::MishapsOf(internal::TaskState& task) {
  if (!task.mishaps) task.mishaps = std::make_unique<internal::Mishaps>();
  return *task.mishaps;
}

Space::Impl::Record* Space::Impl::FindLeased(const Client& client, const LeaseRef& lease) {
  Record* record = store_.Find(lease.key.bytes());
  if (record != nullptr && record->lease &&
      ((record->lease->fence == lease.fence && record->lease->client == &client) ||
       IsPlanted(Planted::kFenceIsNotChecked))) {
    assert(record->state == RecordState::kLeased);
    return record;
  }
  ++counters_.stale;
  return nullptr;
}

void Space::Impl::Handle(Client& client, RequestId id, Complete&& complete) {
  if (auto problem = ProblemOf(client, complete.results)) {
    return Refuse(*client.id, id, std::move(*problem));
  }
  Record* record = FindLeased(client, complete.lease);
  if (record == nullptr) {
    return CompleteTooLate(client, id, std::move(complete),
                           store_.Find(complete.lease.key.bytes()));
  }
  if (record->task) {
    const std::int64_t granted_us = record->lease->granted_us;
    return CompleteTask(client, id, std::move(complete), record, granted_us, LeaseStatus::kOk);
  }
  if (auto busy = CheckRoom(complete.results, 0)) return Refuse(*client.id, id, std::move(*busy));
  ++counters_.completed;
  Remove(record, false);
  CompleteReply reply;
  for (Tuple& tuple : complete.results) {
    const bool counts = tuple.stays_bytes == 0;  // of no task nobody would hear that it is lost
    reply.results.push_back(counts ? PutOne(client, std::move(tuple), {}) : PutStatus::kRefused);
  }
  Answer(client, id, std::move(reply));
}

// What is wrong with `results` as those of the task; nullopt: they are what it declared.
std::optional<std::string> Space::Impl::FalseResults(const internal::TaskState& task,
                                                     std::span<const Tuple> results) {
  const std::vector<Key>& declared = task.spec.results;
  const auto same = [](const Key& key, const Tuple& tuple) { return key == tuple.key; };
  // As they are nearly always: all of them, in their order.
  if (std::equal(declared.begin(), declared.end(), results.begin(), results.end(), same)) {
    return std::nullopt;
  }
  std::set<std::string_view> missing;
  for (const Key& key : declared) missing.insert(key.bytes());
  for (const Tuple& tuple : results) {
    if (missing.erase(tuple.key.bytes()) > 0) continue;
    const bool twice = std::find(declared.begin(), declared.end(), tuple.key) != declared.end();
    return (twice ? "brings twice " : "brings what it did not declare: ") + tuple.key.ToString();
  }
  if (missing.empty()) return std::nullopt;
  for (const Key& key : declared) {
    if (missing.contains(key.bytes())) return "lacks its result " + key.ToString();
  }
  return std::nullopt;
}

// `client` holds the task, or held it and may complete it all the same.
void Space::Impl::CompleteTask(Client& client, RequestId id, Complete&& complete, Record* task,
                               std::int64_t granted_us, LeaseStatus status) {
  const bool checked = !IsPlanted(Planted::kResultsAreNotChecked);
  if (const auto problem = FalseResults(*task->task, complete.results); problem && checked) {
    ++counters_.false_completions;
    counters_.refused_results += complete.results.size();
    const std::string text = "the completion of task " + task->key.ToString() + " " + *problem;
    if (status == LeaseStatus::kOk) {
      NoteInVain(client, task, limits_.tasks_in_vain, "completes a task that it did not do");
      FailTask(client, task, text);
    }
    return Refuse(*client.id, id, {ErrorCode::kBadRequest, text + ": the task counts as failed"});
  }
  // The room that the completed tuple leaves is not counted on: its key stays remembered.
  if (auto busy = CheckRoom(complete.results, 0)) return Refuse(*client.id, id, std::move(*busy));
  ++counters_.completed;
  NoteCompleted(client);
  Origin origin;
  origin.task_owner = task->put_by;
  origin.took_us = Saturated(now_us_ - granted_us);
  origin.times_taken = task->task->times_taken;
  RememberOthers(client, task, complete.lease.fence);
  Remove(task, true);
  CompleteReply reply;
  reply.lease = status;
  reply.results.reserve(complete.results.size());
  for (Tuple& tuple : complete.results) {
    reply.results.push_back(PutOne(client, std::move(tuple), origin));
  }
  Answer(client, id, std::move(reply));
}

// Whoever else held the task may still bring its results, to be compared with these.
void Space::Impl::RememberOthers(const Client& client, Record* task, std::uint64_t fence) const {
  if (task->lease && task->lease->fence != fence) LoseLease(task);
  std::vector<internal::PastLease> others = std::move(task->task->past_leases);
  std::erase_if(others, [&](const internal::PastLease& past) {
    return past.fence == fence && *past.client == *client.id;
  });
  if (others.empty()) return;
  task->done = std::make_unique<internal::DoneTask>(
      internal::DoneTask{std::move(others), std::move(task->task->spec.results)});
}

// `client` does not hold `record` (null: there is no such tuple) under that fence.
void Space::Impl::CompleteTooLate(Client& client, RequestId id, Complete&& complete,
                                  Record* record) {
  if (const auto granted_us = LateLease(client, record, complete.lease.fence)) {
    return CompleteTask(client, id, std::move(complete), record, *granted_us, LeaseStatus::kStale);
  }
  const bool held = record != nullptr && record->done &&
                    HeldBefore(client, record->done->leases, complete.lease.fence);
  CompleteReply reply;
  reply.lease = LeaseStatus::kStale;
  reply.results.reserve(complete.results.size());
  for (Tuple& tuple : complete.results) {
    if (IsPlanted(Planted::kAnyResultCounts)) {
      reply.results.push_back(PutOne(client, std::move(tuple), {}));
      continue;
    }
    const bool compares = held && Declares(record->done->results, tuple.key);
    reply.results.push_back(CompareLate(client, compares ? record : nullptr, tuple));
    if (reply.results.back() == PutStatus::kRefused) ++counters_.refused_results;
  }
  Answer(client, id, std::move(reply));
}

// `task`: the one that is done and that `client` held; null: it has no right to the result, and
// only hears whether the very same is there, as after a lost answer.
PutStatus Space::Impl::CompareLate(Client& client, const Record* task, const Tuple& result) {
  Record* there = store_.Find(result.key.bytes());
  if (there == nullptr || !there->stored()) return PutStatus::kRefused;
  if (task != nullptr) return PutAgain(client, there, result, task->put_by);
  const bool same =
      there->stay || result.stays_bytes > 0 ? there->stay != nullptr : SameBytes(*there, result);
  return same ? PutAgain(client, there, result, nullptr) : PutStatus::kRefused;
}

// When the task was given to `client` under a lease that it has lost since, but may complete.
std::optional<std::int64_t> Space::Impl::LateLease(const Client& client, const Record* record,
                                                   std::uint64_t fence) const {
  if (record == nullptr || !record->task || record->state == RecordState::kParked) {
    return std::nullopt;
  }
  const internal::PastLease* past = HeldBefore(client, record->task->past_leases, fence);
  if (past == nullptr) return std::nullopt;
  return past->granted_us;
}

// Remembers the lease, which is about to be returned without its holder's doing.
void Space::Impl::LoseLease(Record* record) const {
  assert(record->lease);
  if (!record->task) return;
  std::vector<internal::PastLease>& past = record->task->past_leases;
  if (past.size() >= kMaxPastLeases) past.erase(past.begin());
  const internal::Lease& lease = *record->lease;
  past.push_back({lease.client->id, lease.fence, lease.granted_us});
}

void Space::Impl::Handle(Client& client, RequestId id, Extend&& extend) {
  if (extend.lease_us < 0 || extend.lease_us > limits_.max_lease_us) {
    return Refuse(*client.id, id,
                  {ErrorCode::kBadRequest,
                   "lease_us " + std::to_string(extend.lease_us) + ", must be 0 to " +
                       std::to_string(limits_.max_lease_us) + " (limits.max_lease_us)"});
  }
  Record* record = FindLeased(client, extend.lease);
  if (record == nullptr) return Answer(client, id, LeaseReply{LeaseStatus::kStale});
  const std::int64_t end_us = After(OrDefaultLease(extend.lease_us));
  const std::int64_t most_us = LastEndUs(*record);
  record->lease->extended = true;
  if (end_us > most_us && AnotherCouldTake(*record, &client)) {
    deadlines_.Set(&record->lease->deadline, std::max(most_us, now_us_));  // it may end now
  } else if (!IsPlanted(Planted::kExtensionIsForgotten)) {
    deadlines_.Set(&record->lease->deadline, end_us);
  }
  Answer(client, id, LeaseReply{});
}

// How long the lease of a task may last while others could do it. That of a plain tuple, such as a
// lock, has no such end. What earlier holders let run out makes it no longer, but for the lease
// itself: else a few clients together could keep a task for ever.
std::int64_t Space::Impl::LastEndUs(const Record& record) const {
  if (!record.task || IsPlanted(Planted::kExtensionNeverEnds)) return kForeverUs;
  const std::int64_t longest_us = LongestLeaseUs(*record.task);
  const std::int64_t granted_us = record.lease->granted_us;
  return longest_us > kForeverUs - granted_us ? kForeverUs : granted_us + longest_us;
}

// A task whose lease was extended as far as it can be goes to others first, and makes the next
// lease no longer: else each of a few clients that cling to it would keep it for twice as long.
void Space::Impl::EndExpired(Record* record) {
  Client& holder = *record->lease->client;
  const bool kept_on = record->lease->extended && now_us_ >= LastEndUs(*record);
  const std::int64_t kept_us = now_us_ - record->lease->granted_us;
  LoseLease(record);
  if (record->task) {
    if (kept_on) {
      NoteInVain(holder, record, limits_.tasks_in_vain, "extends the lease of a task on and on",
                 kept_us);
      AddBarred(*record->task, holder);
      BarUntilOthersTried(record, holder);
    } else {
      if (Doubles(holder, *record->task)) ++record->task->times_doubled;
      NoteInVain(holder, record, 1, "lets the leases of its tasks run out");
    }
  }
  ReturnLease(record);
}

void Space::Impl::Handle(Client& client, RequestId id, Store&& store) {
  Record* record = FindLeased(client, store.lease);
  if (record == nullptr) return Answer(client, id, LeaseReply{LeaseStatus::kStale});
  ++counters_.stored_back;
  ReturnLease(record);
  Answer(client, id, LeaseReply{});
}

void Space::Impl::Handle(Client& client, RequestId id, Fail&& fail) {
  Record* record = FindLeased(client, fail.lease);
  if (record == nullptr) return Answer(client, id, LeaseReply{LeaseStatus::kStale});
  if (record->task) {
    NoteInVain(client, record, 1, "fails one task after the other");
    FailTask(client, record, std::move(fail.cause));
  } else {
    ++counters_.failed;
    ReturnLease(record);  // a plain tuple cannot be at fault
  }
  Answer(client, id, LeaseReply{});
}

// `client` holds the task. It is given to others, or parked if there is no hope for it.
void Space::Impl::FailTask(Client& client, Record* record, std::string cause) {
  ++counters_.failed;
  internal::Mishaps& mishaps = MishapsOf(*record->task);
  ++mishaps.failures;
  mishaps.failed_with_key |= client.key != nullptr;
  std::vector<internal::Mishaps::Failed>& with = mishaps.failed_with;
  auto at = std::find_if(with.begin(), with.end(),
                         [&](const auto& each) { return each.principal == client.principal; });
  if (at == with.end() && with.size() <= limits_.task_failures) {  // more need not be known
    at = with.insert(at, {client.principal, 0});
  }
  if (at != with.end()) ++at->times;
  cause.resize(std::min(cause.size(), kMaxCauseBytes));
  AddBarred(*record->task, client);
  if (IsHopeless(*record, client, cause)) {
    DropLease(record);
    Park(record, Notice::Kind::kParked, *client.id, std::move(cause));
  } else {
    BarUntilOthersTried(record, client);
    ReturnLease(record);
  }
}

// Whether a task that has just failed with `by` is to be parked, which ends a run. What a single
// key reports is no reason for that while others could do the task. Where nobody else is there,
// nobody knows whether the task or the client is bad: then those with a key try for a while, as
// somebody may come who can do it.
bool Space::Impl::IsHopeless(const Record& record, const Client& by, const std::string& cause) {
  internal::Mishaps& mishaps = *record.task->mishaps;
  std::uint32_t failures = 0;
  std::uint32_t most_of_one = 0;
  for (const auto& each : mishaps.failed_with) {
    failures += each.times;
    most_of_one = std::max(most_of_one, each.times);
  }
  if (IsPlanted(Planted::kOneKeyParksTasks)) most_of_one = 0;
  if (failures - most_of_one >= limits_.task_failures) return true;
  if (mishaps.failures < limits_.task_failures) return false;
  if (IsPlanted(Planted::kOneClientParksTasks)) return true;
  if (AnotherCouldTake(record, nullptr, When::kSomeDay)) return false;
  if (!mishaps.failed_with_key) return true;
  if (now_us_ < mishaps.next_round_us) return false;
  if (mishaps.rounds >= limits_.rounds_alone) return true;
  const std::int64_t pause_us = BenchUs(mishaps.rounds++, 0);
  mishaps.next_round_us = After(pause_us);
  Notify(record.put_by,
         Notice{Notice::Kind::kMistrusted, record.key, *by.id,
                "task " + record.key.ToString() + " has failed " +
                    std::to_string(mishaps.failures) + " times, on all clients that are there; " +
                    "others may take it, these try again in " + std::to_string(pause_us / 1000) +
                    " ms. Client \"" + *by.id + "\" said last: " + cause.substr(0, kMaxSaidBytes)});
  return false;
}

void Space::Impl::AddBarred(internal::TaskState& task, const Client& client) const {
  const auto at = std::lower_bound(task.barred.begin(), task.barred.end(), *client.id);
  const bool is_new = at == task.barred.end() || *at != *client.id;
  if (is_new && task.barred.size() < 2 * limits_.task_exclusions) {
    task.barred.insert(at, *client.id);
  }
}

// A task that failed on a client is for others alone as long as a lease of it lasts, if there are
// others that ever asked for such tasks: each of them will have ended one by then, however busy it
// is, and one bad device alone does not make the task fail for good. Then anybody may try again. If
// it has failed on all of them, those on whom it failed earlier are the others.
void Space::Impl::BarUntilOthersTried(Record* record, const Client& client) {
  internal::TaskState& task = *record->task;
  if (!AnotherCouldTake(*record)) {
    task.barred = task.spec.not_by;
    AddBarred(task, client);
  }
  if (AnotherCouldTake(*record)) {
    task.barred_until_us = After(LeaseUs(task));
  } else {
    task.barred_until_us = task.mishaps ? std::max(task.mishaps->next_round_us, now_us_) : now_us_;
  }
}

// Whether a client is there that asks for such tasks, on which this one has not failed, and that
// gets tasks at present, or some day.
bool Space::Impl::AnotherCouldTake(const Record& record, const Client* but, When when) const {
  return AnyUserCouldTake(record, [&](const Client* user) {
    return user != but && (when == When::kSomeDay || !IsBenched(*user));
  });
}

bool Space::Impl::OthersThanUntriedCouldTake(const Record& record, const KeyTrust& key) const {
  return AnyUserCouldTake(
      record, [&](const Client* user) { return user->untried_of != &key && !IsBenched(*user); });
}

template <class Accept>
bool Space::Impl::AnyUserCouldTake(const Record& record, Accept accept) const {
  const std::vector<ClientId>& barred = record.task->barred;
  bool found = false;
  get_groups_.ForEachMatch(record.key.bytes(), [&](const GetGroup* group) {
    found = std::any_of(group->users.begin(), group->users.end(), [&](const Client* user) {
      return accept(user) && !std::binary_search(barred.begin(), barred.end(), *user->id);
    });
    return !found;
  });
  return found;
}

void Space::Impl::DropLease(Record* record) {
  assert(record->state == RecordState::kLeased && record->lease);
  record->lease->client->leases.Remove(record->lease.get());
  --record->lease->client->lease_count;
  deadlines_.Clear(&record->lease->deadline);
  record->lease.reset();
}

void Space::Impl::ReturnLease(Record* record) {
  DropLease(record);
  if (!record->task || record->task->missing == 0) return MakeTakable(record);
  for (const InputLink& link : record->task->links) {
    if (!link.input->stored()) return Orphan(record, Key(link.input->key));
  }
  assert(false);
}

void Space::Impl::Park(Record* record, Notice::Kind kind, const ClientId& by, std::string text) {
  assert(record->task && !record->lease);
  Unplace(record);
  UnlinkInputs(record);
  SetState(record, RecordState::kParked);
  ++counters_.parked;
  Notify(record->put_by, Notice{kind, record->key, by, std::move(text)});
}

void Space::Impl::Orphan(Record* task, const Key& input) {
  Park(task, Notice::Kind::kOrphaned, {},
       "input " + input.ToString() + " was retired or removed, so the task can never run");
}

void Space::Impl::UnlinkInputs(Record* task) {
  for (InputLink& link : task->task->links) {
    (link.affine ? link.input->affine : link.input->dependents).Remove(&link);
    store_.EraseIfUnused(link.input);
  }
  task->task->links.clear();
}

}  // namespace tuplespace
