// ReleaseQueue: learns when the space has answered a Complete and the results have left the
// process, so that their bytes count against the handler's limit exactly until then.
#pragma once

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

  void Add(FlightId flight) {
    const std::lock_guard lock(mutex_);
    flights_.push_back(flight);
    if (wake_) wake_();
  }
  std::vector<FlightId> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(flights_, {});
  }
  void Close() {  // the client goes away and must not be woken any more
    const std::lock_guard lock(mutex_);
    wake_ = nullptr;
  }

 private:
  std::mutex mutex_;
  std::function<void()> wake_;
  std::vector<FlightId> flights_;
};

struct ReleaseToken {
  ReleaseToken(std::shared_ptr<ReleaseQueue> q, FlightId f) : queue(std::move(q)), flight(f) {}
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
