// How leases end: completed, extended, stored back, failed, expired, or lost with the client.
#include <algorithm>
#include <cassert>
#include <utility>

#include "space_core.h"
#include "tuplespace/planted.h"

namespace tuplespace {

namespace {

constexpr std::size_t kMaxCauseBytes = 4096;
constexpr std::uint32_t kMostDoublings = 20;  // of a lease, by having run out
constexpr std::size_t kMaxPastLeases = 8;     // of one task

std::uint32_t Saturated(std::int64_t value) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(value, 0, UINT32_MAX));
}

}  // namespace

std::int64_t Space::Impl::OrDefaultLease(std::int64_t lease_us) const {
  return lease_us != 0 ? lease_us : std::min(limits_.default_lease_us, limits_.max_lease_us);
}

// Of the next lease of the task. Whoever is slower than thought must be able to finish some day.
std::int64_t Space::Impl::LeaseUs(const internal::TaskState& task) const {
  const std::int64_t lease_us = OrDefaultLease(task.spec.lease_us);
  const std::uint32_t doublings = std::min(task.times_expired, kMostDoublings);
  const bool most = lease_us > limits_.max_lease_us >> doublings;
  return most ? limits_.max_lease_us : lease_us << doublings;
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
  if (auto problem = ProblemOf(complete.results)) {
    return Refuse(*client.id, id, std::move(*problem));
  }
  // The room that the completed tuple leaves is not counted on: its key may stay remembered, and
  // whether the lease is good must not decide whether the results fit.
  if (auto busy = CheckRoom(complete.results, 0)) return Refuse(*client.id, id, std::move(*busy));

  CompleteReply reply;
  Record* known = store_.Find(complete.lease.key.bytes());
  Origin origin;
  if (known != nullptr && !complete.results.empty()) origin.task_owner = known->put_by;
  std::optional<std::int64_t> granted_us;
  if (const Record* record = FindLeased(client, complete.lease)) {
    granted_us = record->lease->granted_us;
  } else {
    reply.lease = LeaseStatus::kStale;
    granted_us = LateLease(client, known, complete.lease.fence);
  }
  if (granted_us) {
    ++counters_.completed;
    const bool is_task = known->task != nullptr;
    if (is_task) {
      origin.took_us = Saturated(now_us_ - *granted_us);
      origin.times_taken = known->task->times_taken;
    }
    Remove(known, is_task);
  }
  reply.results.reserve(complete.results.size());
  for (Tuple& tuple : complete.results) {
    // Of a task that is gone nobody would hear that it is lost.
    const Record* there = tuple.stays_bytes > 0 ? store_.Find(tuple.key.bytes()) : nullptr;
    const bool counts =
        granted_us || tuple.stays_bytes == 0 || (there != nullptr && there->stored());
    reply.results.push_back(counts ? PutOne(client, std::move(tuple), origin)
                                   : PutStatus::kRetired);
  }
  Answer(client, id, std::move(reply));
}

// When the task was given to `client` under a lease that it has lost since, but may complete.
std::optional<std::int64_t> Space::Impl::LateLease(const Client& client, const Record* record,
                                                   std::uint64_t fence) const {
  if (record == nullptr || !record->task || record->state == RecordState::kParked) {
    return std::nullopt;
  }
  for (const internal::PastLease& past : record->task->past_leases) {
    if (past.fence == fence && *past.client == *client.id) return past.granted_us;
  }
  return std::nullopt;
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
  if (!IsPlanted(Planted::kExtensionIsForgotten)) {
    deadlines_.Set(&record->lease->deadline, After(OrDefaultLease(extend.lease_us)));
  }
  Answer(client, id, LeaseReply{});
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
  ++counters_.failed;
  if (!record->task) {
    ReturnLease(record);  // a plain tuple cannot be at fault
  } else if (++record->task->failures >= limits_.task_failures) {
    DropLease(record);
    fail.cause.resize(std::min(fail.cause.size(), kMaxCauseBytes));
    Park(record, Notice::Kind::kParked, *client.id, std::move(fail.cause));
  } else {
    Bar(record, *client.id);
    ReturnLease(record);
  }
  Answer(client, id, LeaseReply{});
}

// A task that failed on a client is for others alone as long as a lease of it lasts, if there are
// others that ever asked for such tasks: each of them will have ended one by then, however busy it
// is, and one bad device alone does not make the task fail for good. Then anybody may try again.
void Space::Impl::Bar(Record* record, const ClientId& client) {
  internal::TaskState& task = *record->task;
  const auto at = std::lower_bound(task.barred.begin(), task.barred.end(), client);
  if (at == task.barred.end() || *at != client) task.barred.insert(at, client);
  task.barred_until_us = AnotherCouldTake(*record) ? After(LeaseUs(task)) : now_us_;
}

bool Space::Impl::AnotherCouldTake(const Record& record) const {
  bool found = false;
  get_groups_.ForEachMatch(record.key.bytes(), [&](const GetGroup* group) {
    std::size_t barred = 0;
    for (const ClientId& id : record.task->barred) {
      const auto client = clients_.find(id);
      if (client != clients_.end() && group->users.contains(client->second.get())) ++barred;
    }
    assert(barred <= group->users.size());
    found = barred < group->users.size();
    return !found;
  });
  return found;
}

void Space::Impl::DropLease(Record* record) {
  assert(record->state == RecordState::kLeased && record->lease);
  record->lease->client->leases.Remove(record->lease.get());
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
