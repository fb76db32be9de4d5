// SafeTimer: when the weights that stay with handlers are copied into the space whole, which
// version is under way, and in which steps results may stay at all. Versions are copied beside the
// steps, so that no step waits for them: a version is safe some steps after it was made. Pure: no
// clock.
#pragma once

#include <cstdint>
#include <optional>

namespace acan {

class SafeTimer {
 public:
  // Of every so many steps at most one version is copied.
  explicit SafeTimer(std::int64_t steps) : steps_(steps) {}

  // The run begins.
  void Start(std::int64_t now_us) { started_us_ = begun_us_ = now_us; }
  // Whether the copying of `version` should begin now: none is under way, and the last one is as
  // long ago as SavingIntervalUs says.
  bool IsDue(std::int64_t version, std::int64_t now_us) const;
  void Begin(std::int64_t version, std::int64_t now_us);
  // `version` got safe in another way. True: an older one was under way, which nobody needs now.
  bool Note(std::int64_t version);
  // What stayed is lost: the run goes back to `version`. If no version that stayed has got safe
  // since the last loss, nothing stays in the next steps: in twice as many each time.
  void OnLost(std::int64_t version);
  // Whether results of this step may stay with handlers.
  bool MayStay(std::int64_t step) const { return step >= stay_from_; }
  // Forgets the one under way; versions begin again at `version`.
  void GoBackTo(std::int64_t version);
  // The one under way is in the space whole. False: it is not the one under way.
  bool OnDone(std::int64_t version, std::int64_t now_us);

  std::optional<std::int64_t> version() const { return version_; }  // under way
  std::int64_t took_us() const { return took_us_; }                 // the last one

 private:
  const std::int64_t steps_;
  std::optional<std::int64_t> version_;
  std::int64_t last_version_ = 0;
  std::int64_t stay_from_ = 0;  // the step
  std::int64_t losses_ = 0;
  int lost_in_a_row_ = 0;  // without a version that stayed and got safe
  std::int64_t started_us_ = 0;
  std::int64_t begun_us_ = 0;  // the last one; at first the start
  std::int64_t took_us_ = 0;
};

}  // namespace acan
