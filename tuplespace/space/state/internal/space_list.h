// An intrusive list. Its elements carry the links, so removing one needs no search and no memory.
#pragma once

#include <cassert>

namespace tuplespace::internal {

template <typename T>
struct ListHook {
  T* previous = nullptr;
  T* next = nullptr;
};

// Does not own its elements. An element is in at most one list for each hook.
template <typename T>
class IntrusiveList {
 public:
  bool empty() const { return first_ == nullptr; }
  T* first() const { return first_; }

  void PushBack(T* item) {
    assert(item->previous == nullptr && item->next == nullptr && item != first_);
    item->previous = last_;
    (last_ != nullptr ? last_->next : first_) = item;
    last_ = item;
  }

  // REQUIRES: `item` is in this list.
  void Remove(T* item) {
    assert(item->previous != nullptr || item == first_);
    assert(item->next != nullptr || item == last_);
    (item->previous != nullptr ? item->previous->next : first_) = item->next;
    (item->next != nullptr ? item->next->previous : last_) = item->previous;
    item->previous = nullptr;
    item->next = nullptr;
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;
};

}  // namespace tuplespace::internal
