// ReadyQueue: tuples that the current event made ready, or whose placement it changed. They are
// placed together at the end of the event, so that a batch counts as one change.
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

  // REQUIRES: the record has no lease and lacks no input.
  void MakeReady(Record* record);
  void Requeue(Record* record);       // a fact that decides its placement has changed
  void RequeueAffine(Record* input);  // the tasks whose affinity input it is
  // Ready tuples enter the new group or are queued. Returns how many tuples were examined.
  std::uint64_t EnterNew(GetGroup* group);
  // How many placements of tuples were withdrawn or added so far, except those of new tuples.
  std::uint64_t placed() const { return placed_; }

  bool empty() const { return unplaced_.empty(); }
  // Calls place(Record*) for each record that is still ready, in the order in which they should be
  // taken, and empties the queue. `place` must not queue.
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
