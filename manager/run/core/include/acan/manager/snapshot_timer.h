// SnapshotTimer: decides when a run writes a snapshot, and tracks the current one. Pure: no clock.
#pragma once

#include <cstdint>
#include <optional>

#include "acan/manager/manager_config.h"

namespace acan {

class SnapshotTimer {
 public:
  // Without a policy no snapshot is ever due.
  explicit SnapshotTimer(const std::optional<SnapshotPolicy>& policy);

  // Whether the job fixes the number of steps between snapshots.
  bool HasFixedSteps() const { return policy_ && policy_->every_steps; }
  // A lower bound for the duration, used until the first snapshot is written.
  void Expect(std::int64_t took_us);

  // The life begins.
  void Start(std::int64_t now_us) { started_us_ = begun_us_ = now_us; }
  // Whether a snapshot of `version` should begin now and none is under way.
  bool IsDue(std::int64_t version, std::int64_t now_us) const;
  // Whether no snapshot has `version` yet, and writing one of it has not failed.
  bool CouldSave(std::int64_t version) const;

  void Begin(std::int64_t version, std::int64_t now_us);
  // Forgets the current snapshot. Returns whether there was one.
  bool Drop();
  // A snapshot ended. False: it is not the current one.
  bool OnDone(std::int64_t version, std::int64_t took_us, bool written);

  std::optional<std::int64_t> version() const { return version_; }  // of the current snapshot
  std::int64_t saved_version() const { return saved_version_; }     // the newest with a snapshot

 private:
  std::int64_t IntervalUs(std::int64_t now_us) const;

  const std::optional<SnapshotPolicy> policy_;
  std::int64_t started_us_ = 0;
  std::optional<std::int64_t> version_;
  std::int64_t begun_us_ = 0;  // when the last snapshot began; at first the start
  std::int64_t took_us_;
  bool measured_ = false;  // took_us_ was measured
  std::int64_t saved_version_ = 0;
  std::int64_t unsaved_version_ = 0;  // the newest version whose snapshot could not be written
};

}  // namespace acan
