// StopRequest: a request to stop a run, and its time limit.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "acan/manager/manager_events.h"
#include "tuplespace/client.h"

namespace acan {

// For the run's thread, except Want.
class StopRequest {
 public:
  // `client` must outlive it. `alive` is called by each Check; it may be null.
  StopRequest(tuplespace::Client& client, std::function<void()> alive)
      : client_(client), alive_(std::move(alive)) {}

  // Thread-safe. The run saves the progress of a training, for at most this long, and ends. May be
  // called again: the shorter time counts.
  void Want(std::int64_t within_us);

  // From now on, there is something to save.
  void OnTrainingBegun() { trains_ = true; }
  bool trains() const { return trains_; }

  // Throws Stopped if the run has to end now. Every wait calls this.
  void Check();
  // Whether to ask the core to save the newest version: true once.
  bool AsksCore();
  // The core has saved what could be saved.
  [[noreturn]] void OnReady(const ReadyToStop& ready);

  enum class Saved : std::uint8_t {
    kAll,      // the newest version has a snapshot
    kNothing,  // it could not be saved in time, or was not requested
    kNotAll,   // the core was asked, and reported that it could not
  };
  Saved SavedOf(std::int64_t version) const;

 private:
  // The time limit; kGoOn: no stop is requested.
  static constexpr std::int64_t kGoOn = INT64_MAX;
  enum class Stage : std::uint8_t { kGoesOn, kWanted, kCoreAsked, kReady };

  tuplespace::Client& client_;
  const std::function<void()> alive_;
  std::atomic<std::int64_t> within_us_{kGoOn};
  bool trains_ = false;
  Stage stage_ = Stage::kGoesOn;
  std::int64_t by_us_ = 0;
  std::int64_t saved_version_ = 0;  // once kReady
};

}  // namespace acan
