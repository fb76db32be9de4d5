// Ending: when a broker's loop ends that was asked to stop.
//
// AskNow and AskSoon are thread safe and async-signal safe; all other methods are for the broker's
// thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "broker_core.h"
#include "tuplespace/broker.h"

namespace tuplespace {

class Ending {
 public:
  using Log = std::function<void(const std::string& line)>;

  explicit Ending(std::optional<BrokerLinger> linger) : linger_(std::move(linger)) {}

  void AskNow() { asked_.store(Asked::kNow, std::memory_order_release); }
  void AskSoon();  // changes nothing after AskNow

  bool IsAsked() const { return asked_.load(std::memory_order_acquire) != Asked::kNothing; }
  // Whether the loop must end now. Logs that it serves on, and that it does so no longer.
  bool IsDue(const BrokerCore& core, std::int64_t now_us, const Log& log);
  std::int64_t DeadlineUs() const { return until_us_.value_or(kForeverUs); }
  void Forget();  // what was asked, so that the loop may run again

 private:
  enum class Asked : std::uint8_t { kNothing, kSoon, kNow };
  static_assert(std::atomic<Asked>::is_always_lock_free);  // used in signal handlers

  const std::optional<BrokerLinger> linger_;
  std::atomic<Asked> asked_{Asked::kNothing};
  std::optional<std::int64_t> until_us_;  // set: it serves on until then
};

}  // namespace tuplespace
