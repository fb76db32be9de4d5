#include "lease_table.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <iterator>
#include <utility>

#include "tuplespace/planted.h"

namespace tuplespace::internal {

namespace {
constexpr std::uint32_t kMaxLeaseDoublings = 20;  // of a lease, each because one ran out
// Of one task: those of each client that is there, and those of all others together.
constexpr std::ptrdiff_t kMaxPastLeases = 8;

std::int64_t Times(std::int64_t times, std::int64_t lease_us) {
  return lease_us <= kForeverUs / times ? times * lease_us : kForeverUs;
}
}  // namespace

const PastLease* HeldBefore(const ClientState& client, const std::vector<PastLease>& leases,
                            std::uint64_t fence) {
  const auto at = std::find_if(leases.begin(), leases.end(), [&](const auto& past) {
    return past.fence == fence && *past.client == *client.id;
  });
  return at == leases.end() ? nullptr : &*at;
}

std::int64_t LeaseTable::OrDefaultLease(std::int64_t lease_us) const {
  return lease_us != 0 ? lease_us
                       : std::min(state_.limits.default_lease_us, state_.limits.max_lease_us);
}

std::int64_t LeaseTable::LongestLeaseUs(const TaskState& task) const {
  return Times(state_.limits.lease_extensions, OrDefaultLease(task.spec.lease_us));
}

// The length of the task's next lease. If a device is slower than expected, others should not
// repeat the same work. A lease that is still too short does no harm: the device may extend it or
// complete the task late.
std::int64_t LeaseTable::LeaseUs(const TaskState& task) const {
  const std::int64_t lease_us = OrDefaultLease(task.spec.lease_us);
  if (task.times_doubled == 0) return lease_us;
  std::int64_t most_us = state_.limits.max_lease_us;
  if (!IsPlanted(Planted::kEveryLapseDoubles)) most_us = std::min(most_us, LongestLeaseUs(task));
  const std::uint32_t doublings = std::min(task.times_doubled, kMaxLeaseDoublings);
  return lease_us > most_us >> doublings ? most_us : lease_us << doublings;
}

void LeaseTable::Grant(ClientState& client, Record* record, std::int64_t lease_us) {
  record->lease = std::make_unique<Lease>(record);
  record->lease->client = &client;
  record->lease->fence = next_fence_++;
  if (IsPlanted(Planted::kFenceIsGivenTwice) && next_fence_ % 16 == 0) --next_fence_;
  record->lease->granted_us = record->lease->counted_from_us = state_.now_us;
  record->lease->lease_us = lease_us;
  state_.deadlines.Set(&record->lease->deadline, state_.After(lease_us));
  client.leases.PushBack(record->lease.get());
  ++client.lease_count;
  state_.SetState(record, RecordState::kLeased);
}

Record* LeaseTable::Find(const ClientState& client, const LeaseRef& lease) {
  Record* record = state_.store.Find(lease.key.bytes());
  if (record != nullptr && record->lease &&
      ((record->lease->fence == lease.fence && record->lease->client == &client) ||
       IsPlanted(Planted::kFenceIsNotChecked))) {
    assert(record->state == RecordState::kLeased);
    return record;
  }
  ++state_.counters.stale;
  return nullptr;
}

// When `client` got the task under a lease that it has lost but may still complete.
std::optional<std::int64_t> LeaseTable::LateLease(const ClientState& client, const Record* record,
                                                  std::uint64_t fence) const {
  if (record == nullptr || !record->task || record->state == RecordState::kParked) {
    return std::nullopt;
  }
  const PastLease* past = HeldBefore(client, record->task->past_leases, fence);
  if (past == nullptr) return std::nullopt;
  return past->granted_us;
}

// Remembers the lease, which is about to end without its holder's doing.
void LeaseTable::Lose(Record* record) const {
  assert(record->lease);
  if (!record->task) return;
  const Lease& lease = *record->lease;
  MakeRoomFor(*lease.client, record->task->past_leases);
  record->task->past_leases.push_back({lease.client->id, lease.fence, lease.granted_us});
}

// A result may be under way for any number of leases, over a slow link and behind others. Meanwhile
// the task goes to ever more clients with such links. If their leases displaced the earlier ones,
// no result would count. A client sends its results in the order of its leases, so its first lease
// is the one that can end the task soonest. If it was restarted, only the last ones can.
void LeaseTable::MakeRoomFor(const ClientState& holder, std::vector<PastLease>& past) const {
  if (std::ssize(past) < kMaxPastLeases) return;
  const auto is_gone = [this](const PastLease& lease) {
    return !state_.clients.contains(*lease.client);
  };
  auto gone = std::count_if(past.begin(), past.end(), is_gone);
  std::erase_if(past, [&](const PastLease& lease) {
    if (gone <= kMaxPastLeases || !is_gone(lease)) return false;
    --gone;
    return true;
  });
  const auto is_own = [&holder](const PastLease& lease) { return *lease.client == *holder.id; };
  if (std::count_if(past.begin(), past.end(), is_own) < kMaxPastLeases) return;
  const auto first = std::find_if(past.begin(), past.end(), is_own);
  past.erase(std::find_if(first + 1, past.end(), is_own));
}

// How long the lease of a task may last while others could do the task. A lease of a plain tuple,
// such as a lock, has no such end unless its holder only borrows it. Leases of earlier holders that
// ran out do not raise this limit beyond the lease itself: otherwise a few clients together could
// keep a task for ever. How far the holder may extend it depends on its record: otherwise it could
// delay each step of a job by as much.
std::int64_t LeaseTable::LastEndUs(const Record& record) const {
  if (IsPlanted(Planted::kExtensionNeverEnds)) return kForeverUs;
  if (!record.task) {
    if (IsPlanted(Planted::kBorrowedIsKept)) return kForeverUs;
    const std::int64_t borrow_us = record.lease->client->limits.borrow_us;
    const std::int64_t granted_us = record.lease->granted_us;
    return borrow_us > kForeverUs - granted_us ? kForeverUs : granted_us + borrow_us;
  }
  const std::int64_t asked_us = OrDefaultLease(record.task->spec.lease_us);
  const std::int64_t extended_us =
      Times(trust_.ExtensionsOf(*record.lease->client, record), asked_us);
  const std::int64_t longest_us = std::max(extended_us, record.lease->lease_us);
  const std::int64_t from_us = record.lease->counted_from_us;
  return longest_us > kForeverUs - from_us ? kForeverUs : from_us + longest_us;
}

void LeaseTable::Drop(Record* record) {
  assert(record->state == RecordState::kLeased && record->lease);
  trust_.EndTrialOn(*record->lease);
  record->lease->client->leases.Remove(record->lease.get());
  --record->lease->client->lease_count;
  state_.deadlines.Clear(&record->lease->deadline);
  record->lease.reset();
}

}  // namespace tuplespace::internal
