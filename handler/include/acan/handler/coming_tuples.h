// ComingTuples: the tuples that a handler fetches ahead of the tasks that need them. Pure; a part
// of HandlerCore.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <map>

#include "tuplespace/key.h"

namespace acan {

// At most this many tuples are fetched ahead at a time. The others are fetched when a task needs
// them: the broker limits the open requests of a handler, and a tuple may never come.
inline constexpr std::size_t kMaxComing = 128;

class ComingTuples {
 public:
  bool IsFull() const { return bytes_of_.size() >= kMaxComing; }
  std::uint64_t bytes() const { return bytes_; }  // of all

  // False: it is coming already.
  bool Add(const tuplespace::Key& key, std::uint64_t bytes) {
    if (!bytes_of_.emplace(key, bytes).second) return false;
    bytes_ += bytes;
    return true;
  }
  // It has arrived, or will not come. Returns the bytes that were set aside for it. REQUIRES: it is
  // coming.
  std::uint64_t End(const tuplespace::Key& key) {
    const auto at = bytes_of_.find(key);
    assert(at != bytes_of_.end());
    const std::uint64_t bytes = at->second;
    bytes_of_.erase(at);
    bytes_ -= bytes;
    return bytes;
  }

 private:
  std::map<tuplespace::Key, std::uint64_t> bytes_of_;  // not hashed, as managers choose the keys
  std::uint64_t bytes_ = 0;
};

}  // namespace acan
