// Offered: payloads that a client serves without being asked for each, shared by its thread, which
// offers and withdraws, and its courier's, which serves. Withdrawing frees the bytes at once, but
// for those that are on their way.
//
// Thread safe.
#pragma once

#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tuplespace/key.h"
#include "tuplespace/payload.h"

namespace tuplespace {

class Offered {
 public:
  void Add(const Key& key, Payload payload) {
    const std::lock_guard lock(mutex_);
    offered_[key] = std::move(payload);
  }
  // To be served; empty: it is not offered.
  Payload Find(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto at = offered_.find(key);
    if (at == offered_.end()) return {};
    served_.insert(key);
    return at->second;
  }
  // Whether it was offered, and nobody was served since: nothing of it is on its way.
  bool Remove(const Key& key) {
    Payload last;  // freed without the lock
    const std::lock_guard lock(mutex_);
    const auto at = offered_.find(key);
    if (at == offered_.end()) return false;
    last = std::move(at->second);
    offered_.erase(at);
    return served_.erase(key) == 0;
  }
  void Clear() {
    const std::lock_guard lock(mutex_);
    offered_.clear();
    served_.clear();
  }

 private:
  std::mutex mutex_;
  std::unordered_map<Key, Payload> offered_;
  std::unordered_set<Key> served_;
};

}  // namespace tuplespace
