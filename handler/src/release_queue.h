// ReleaseQueue: learns when the space has answered a Complete and the results have left the
// process, so that their bytes count against the handler's limit exactly until then.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "acan/handler/handler_core.h"

namespace acan {

// Flights whose result bytes have left this process. The destructor of the last payload reports
// them; it may run on one of ZeroMQ's threads.
class ReleaseQueue {
 public:
  explicit ReleaseQueue(std::function<void()> wake) : wake_(std::move(wake)) {}

  // Makes room for one more Add, which a destructor calls and which must not allocate.
  void Expect() {
    const std::lock_guard lock(mutex_);
    const std::size_t most = flights_.size() + expected_ + 1;
    if (flights_.capacity() < most) flights_.reserve(2 * most);
    ++expected_;
  }
  // REQUIRES: an Expect for each.
  void Add(FlightId flight) {
    const std::lock_guard lock(mutex_);
    --expected_;
    flights_.push_back(flight);
    if (wake_) wake_();
  }
  std::vector<FlightId> Take() {
    const std::lock_guard lock(mutex_);
    std::vector<FlightId> flights = flights_;
    flights_.clear();  // keeps its room
    return flights;
  }
  void Close() {  // the client goes away and must not be woken any more
    const std::lock_guard lock(mutex_);
    wake_ = nullptr;
  }

 private:
  std::mutex mutex_;
  std::function<void()> wake_;
  std::vector<FlightId> flights_;
  std::size_t expected_ = 0;
};

struct ReleaseToken {
  ReleaseToken(std::shared_ptr<ReleaseQueue> q, FlightId f) : queue(std::move(q)), flight(f) {
    queue->Expect();
  }
  ReleaseToken(const ReleaseToken&) = delete;
  ReleaseToken& operator=(const ReleaseToken&) = delete;
  ~ReleaseToken() { queue->Add(flight); }
  std::shared_ptr<ReleaseQueue> queue;
  FlightId flight;
};

// The order of the members releases the bytes before the token reports it.
struct TokenedBytes {
  std::shared_ptr<ReleaseToken> token;
  std::shared_ptr<const void> bytes;
};

}  // namespace acan
