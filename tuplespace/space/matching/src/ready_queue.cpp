#include "ready_queue.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

namespace tuplespace::internal {

void ReadyQueue::MakeReady(Record* record) {
  assert(!record->lease);
  if (record->task) {
    assert(record->task->missing == 0);
    record->task->ready_since_us = state_.now_us;
  }
  state_.SetState(record, RecordState::kReady);
  Queue(record);
}

void ReadyQueue::Queue(Record* record) {
  assert(record->entries.empty());
  if (record->queued) return;
  record->queued = true;
  ++record->pins;
  unplaced_.push_back(record);
}

void ReadyQueue::Requeue(Record* record) {
  if (record->state != RecordState::kReady || record->queued) return;
  placed_ += 1 + record->entries.size();
  groups_.Withdraw(record);
  Queue(record);
}

void ReadyQueue::RequeueAffine(Record* input) {
  for (InputLink* link = input->affine.first(); link != nullptr; link = link->next) {
    Requeue(link->task);
  }
}

// Tuples that any client may take only have to enter the new group's trees. For the others the new
// group may change which clients they are reserved for.
std::uint64_t ReadyQueue::EnterNew(GetGroup* group) {
  std::vector<Record*> ready;
  std::uint64_t most = UINT64_MAX;
  std::string next;
  state_.store.ScanSome(group->pattern, &most, &next, [&](Record* record) {
    const bool may_be_taken = record->task || !group->tasks_only;
    if (may_be_taken && record->state == RecordState::kReady) ready.push_back(record);
    return true;
  });
  for (Record* record : ready) {
    if (record->queued || record->residence) continue;
    const bool kept = record->placement == Placement::kReserved ||
                      record->placement == Placement::kLate ||
                      (record->task && !record->task->spec.prefers.empty());
    if (kept) {
      Requeue(record);
    } else {
      groups_.EnterOne(record, group);
      ++placed_;
    }
  }
  return UINT64_MAX - most;
}

void ReadyQueue::Sort() {
  const auto goes_first = [](const Record* a, const Record* b) {
    if (a->priority() != b->priority()) return a->priority() < b->priority();
    if (a->need_bytes() != b->need_bytes()) return a->need_bytes() > b->need_bytes();
    return a->sequence < b->sequence;
  };
  std::sort(unplaced_.begin(), unplaced_.end(), goes_first);
}

}  // namespace tuplespace::internal
