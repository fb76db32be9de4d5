// SafeTimer: decides when weights that stay with handlers are copied into the space, tracks the
// version being copied, and decides in which steps results may stay with handlers at all. Versions
// are copied in the background, so that no step waits: a version becomes safe some steps after it
// was made. Pure: no clock.
#pragma once

#include <cstdint>
#include <optional>

namespace acan {

class SafeTimer {
 public:
  // At most one version in `steps` steps is copied.
  explicit SafeTimer(std::int64_t steps) : steps_(steps) {}

  // The run begins.
  void Start(std::int64_t now_us) { started_us_ = begun_us_ = now_us; }
  // Whether copying `version` should begin now: no copying is under way, and the time that
  // SavingIntervalUs returns has passed since the last one began.
  bool IsDue(std::int64_t version, std::int64_t now_us) const;
  void Begin(std::int64_t version, std::int64_t now_us);
  // `version` became safe in another way. Returns whether an older one was being copied, which is
  // no longer needed.
  bool Note(std::int64_t version);
  // Results that stayed with handlers are lost, and the run goes back to `version`. If no version
  // that stayed with handlers has become safe since the last loss, nothing stays with handlers in
  // the next steps; their number doubles each time.
  void OnLost(std::int64_t version);
  // Whether results of this step may stay with handlers.
  bool MayStay(std::int64_t step) const { return step >= stay_from_; }
  // Forgets the current copying; versions continue from `version`.
  void GoBackTo(std::int64_t version);
  // The version is complete in the space. False: it is not the one being copied.
  bool OnDone(std::int64_t version, std::int64_t now_us);

  std::optional<std::int64_t> version() const { return version_; }  // being copied
  std::int64_t took_us() const { return took_us_; }                 // the last copying

 private:
  const std::int64_t steps_;
  std::optional<std::int64_t> version_;
  std::int64_t last_version_ = 0;
  std::int64_t stay_from_ = 0;  // the first step in which results may stay
  std::int64_t losses_ = 0;
  int lost_in_a_row_ = 0;  // losses without a version that became safe in between
  std::int64_t started_us_ = 0;
  std::int64_t begun_us_ = 0;  // when the last copying began; at first the start
  std::int64_t took_us_ = 0;
};

}  // namespace acan
