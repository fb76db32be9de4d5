// SupplyQueue: the results that a handler must supply, in order, and the supplies that the broker
// has not answered. Results that somebody waits for do not wait for others: the broker may have no
// room for those for a long time. For one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tuplespace/key.h"
#include "tuplespace/messages.h"

namespace acan {

// Unanswered supplies carry at most this many bytes, not counting the last one. Supplies that
// another client waits for have a second allowance of the same size. This also bounds the copies of
// the device's memory that a handler makes for supplies.
inline constexpr std::uint64_t kMaxSuppliedBytes = 64 << 20;

class SupplyQueue {
 public:
  struct Entry {
    tuplespace::Key key;
    bool wanted = false;  // somebody waits for it
  };

  void Add(tuplespace::Key key) { unasked_.waiting.push_back(std::move(key)); }
  // Somebody waits for it. It need not be in the queue.
  void Want(const tuplespace::Key& key) {
    const auto at = std::find(unasked_.waiting.begin(), unasked_.waiting.end(), key);
    if (at == unasked_.waiting.end()) return;
    wanted_.waiting.push_back(std::move(*at));
    unasked_.waiting.erase(at);
  }

  // Whether one of them may be supplied now.
  bool MayBegin() const { return wanted_.MayBegin() || unasked_.MayBegin(); }
  // REQUIRES: MayBegin.
  Entry Take() {
    Kind& kind = wanted_.MayBegin() ? wanted_ : unasked_;
    Entry entry{std::move(kind.waiting.front()), &kind == &wanted_};
    kind.waiting.pop_front();
    return entry;
  }
  // `request` supplies the bytes of an entry until it is answered.
  void OnBegun(tuplespace::RequestId request, bool wanted, std::uint64_t bytes) {
    open_[request] = {wanted, bytes};
    (wanted ? wanted_ : unasked_).open_bytes += bytes;
  }
  void OnAnswered(tuplespace::RequestId request) {
    const auto at = open_.find(request);
    if (at == open_.end()) return;
    (at->second.wanted ? wanted_ : unasked_).open_bytes -= at->second.bytes;
    open_.erase(at);
  }
  // Forgets all; returns the requests without an answer.
  std::vector<tuplespace::RequestId> Clear() {
    std::vector<tuplespace::RequestId> open;
    for (const auto& [request, supply] : open_) open.push_back(request);
    *this = {};
    return open;
  }

 private:
  struct Kind {
    std::deque<tuplespace::Key> waiting;
    std::uint64_t open_bytes = 0;

    bool MayBegin() const { return !waiting.empty() && open_bytes < kMaxSuppliedBytes; }
  };
  struct Supply {
    bool wanted = false;
    std::uint64_t bytes = 0;
  };

  Kind wanted_, unasked_;
  std::unordered_map<tuplespace::RequestId, Supply> open_;
};

}  // namespace acan
