// SnapshotTimer: when a run should write a snapshot, and which one is under way. Pure: no clock.
#pragma once

#include <cstdint>
#include <optional>

#include "acan/manager/manager_config.h"

namespace acan {

class SnapshotTimer {
 public:
  // Without a policy none is ever due.
  explicit SnapshotTimer(const std::optional<SnapshotPolicy>& policy);

  // The job says how many steps are between two.
  bool HasFixedSteps() const { return policy_ && policy_->every_steps; }
  // Before the first one was written: one takes this long at least.
  void Expect(std::int64_t took_us);

  // The life begins.
  void Start(std::int64_t now_us) { started_us_ = begun_us_ = now_us; }
  // Whether one of `version` should begin now: none is under way.
  bool IsDue(std::int64_t version, std::int64_t now_us) const;
  // Whether `version` has something that no snapshot has, and that could be written.
  bool CouldSave(std::int64_t version) const;

  void Begin(std::int64_t version, std::int64_t now_us);
  // Forgets the one under way; whether there was one.
  bool Drop();
  // The one under way ended. False: it is not the one under way.
  bool OnDone(std::int64_t version, std::int64_t took_us, bool written);

  std::optional<std::int64_t> version() const { return version_; }  // under way
  std::int64_t saved_version() const { return saved_version_; }     // the newest with a snapshot

 private:
  std::int64_t IntervalUs(std::int64_t now_us) const;

  const std::optional<SnapshotPolicy> policy_;
  std::int64_t started_us_ = 0;
  std::optional<std::int64_t> version_;
  std::int64_t begun_us_ = 0;  // the last one; at first the start
  std::int64_t took_us_;
  bool measured_ = false;  // took_us_ is of one that was taken
  std::int64_t saved_version_ = 0;
  std::int64_t unsaved_version_ = 0;  // the newest whose snapshot could not be written
};

}  // namespace acan
