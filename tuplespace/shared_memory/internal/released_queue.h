// ReleasedQueue: collects the numbers of objects that any thread releases, for the owner's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace tuplespace {

class ReleasedQueue {
 public:
  void Add(std::uint64_t id) {
    const std::lock_guard lock(mutex_);
    ids_.push_back(id);
  }
  std::vector<std::uint64_t> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(ids_, {});
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return ids_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::uint64_t> ids_;
};

}  // namespace tuplespace
