// ReadyQueue: tuples that became ready, or whose placement changed, by the event at work. They are
// placed together at its end, so that a batch counts as one change.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "get_groups.h"

namespace tuplespace::internal {

class ReadyQueue {
 public:
  ReadyQueue(SpaceState& state, GetGroups& groups) : state_(state), groups_(groups) {}

  // REQUIRES: it has no lease and lacks no input.
  void MakeReady(Record* record);
  void Requeue(Record* record);       // something that decides its placement has changed
  void RequeueAffine(Record* input);  // the tasks whose affinity input it is
  // Ready tuples enter a group that is new, or are queued. Returns how many tuples were looked at.
  std::uint64_t EnterNew(GetGroup* group);
  // How many places of tuples were taken back or added so far, beside those of new tuples.
  std::uint64_t placed() const { return placed_; }

  bool empty() const { return unplaced_.empty(); }
  // Calls place(Record*) for each that is ready still, first those that should be taken first, and
  // empties the queue. `place` must not queue.
  template <class Place>
  void PlaceAll(Place place) {
    Sort();
    const std::size_t count = unplaced_.size();
    for (std::size_t i = 0; i < count; ++i) {
      Record* record = unplaced_[i];
      record->queued = false;
      --record->pins;
      if (record->state == RecordState::kReady) place(record);
      state_.store.EraseIfUnused(record);
    }
    assert(unplaced_.size() == count);
    unplaced_.clear();
  }

 private:
  void Queue(Record* record);
  void Sort();

  SpaceState& state_;
  GetGroups& groups_;
  std::vector<Record*> unplaced_;  // ready, not yet placed; pinned
  std::uint64_t placed_ = 0;
};

}  // namespace tuplespace::internal
