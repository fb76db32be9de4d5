// Offered: payloads that a client serves without being asked for each. Its own thread offers and
// withdraws them, and its courier's thread serves them. Withdrawing frees the bytes at once, except
// those in flight.
//
// Thread safe.
#pragma once

#include <map>
#include <mutex>
#include <set>
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
  // The payload, which is about to be served; empty: it is not offered.
  Payload Find(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto at = offered_.find(key);
    if (at == offered_.end()) return {};
    served_.insert(key);
    return at->second;
  }
  // Whether it was offered and never served, so that none of it is in flight.
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
  // Ordered, as others choose the keys: many that have the same hash would be slow to find.
  std::map<Key, Payload> offered_;
  std::set<Key> served_;
};

}  // namespace tuplespace
