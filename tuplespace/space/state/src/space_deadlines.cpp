#include "space_deadlines.h"

#include <cassert>

namespace tuplespace::internal {

bool DeadlineHeap::Before(const Deadline* a, const Deadline* b) {
  return a->when_us != b->when_us ? a->when_us < b->when_us : a->sequence < b->sequence;
}

void DeadlineHeap::Put(std::size_t position, Deadline* deadline) {
  heap_[position] = deadline;
  deadline->position = position;
}

void DeadlineHeap::MoveUp(std::size_t position) {
  Deadline* moving = heap_[position];
  while (position > 0) {
    const std::size_t parent = (position - 1) / 2;
    if (!Before(moving, heap_[parent])) break;
    Put(position, heap_[parent]);
    position = parent;
  }
  Put(position, moving);
}

void DeadlineHeap::MoveDown(std::size_t position) {
  Deadline* moving = heap_[position];
  for (;;) {
    std::size_t child = 2 * position + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && Before(heap_[child + 1], heap_[child])) ++child;
    if (!Before(heap_[child], moving)) break;
    Put(position, heap_[child]);
    position = child;
  }
  Put(position, moving);
}

void DeadlineHeap::Set(Deadline* deadline, std::int64_t when_us) {
  Clear(deadline);
  deadline->when_us = when_us;
  deadline->sequence = next_sequence_++;
  heap_.push_back(deadline);
  MoveUp(heap_.size() - 1);
  assert(deadline->set());
}

void DeadlineHeap::Clear(Deadline* deadline) {
  if (!deadline->set()) return;
  const std::size_t position = deadline->position;
  assert(position < heap_.size() && heap_[position] == deadline);
  Deadline* last = heap_.back();
  heap_.pop_back();
  deadline->position = Deadline::kUnset;
  if (last == deadline) return;
  Put(position, last);
  MoveUp(position);
  MoveDown(last->position);
}

bool DeadlineHeap::IsConsistent() const {
  for (std::size_t i = 0; i < heap_.size(); ++i) {
    if (heap_[i]->position != i) return false;
    if (i > 0 && Before(heap_[i], heap_[(i - 1) / 2])) return false;
  }
  return true;
}

}  // namespace tuplespace::internal
