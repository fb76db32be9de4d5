#include "acan/manager/snapshot_timer.h"

#include <algorithm>
#include <utility>

#include "acan/manager/saving_interval.h"

namespace acan {
namespace {

constexpr std::int64_t kAssumedSnapshotUs = 50'000;  // until one is measured

}  // namespace

SnapshotTimer::SnapshotTimer(const std::optional<SnapshotPolicy>& policy)
    : policy_(policy), took_us_(kAssumedSnapshotUs) {
  if (policy_) saved_version_ = policy_->saved_version;
}

void SnapshotTimer::Expect(std::int64_t took_us) {
  if (!measured_) took_us_ = std::max(took_us_, took_us);
}

std::int64_t SnapshotTimer::IntervalUs(std::int64_t now_us) const {
  const double past_us = policy_->past_seconds * 1e6;
  return SavingIntervalUs({.took_us = took_us_,
                           .lived_us = past_us + static_cast<double>(now_us - started_us_),
                           .losses = policy_->losses,
                           .at_last_us = begun_us_ - started_us_});
}

bool SnapshotTimer::IsDue(std::int64_t version, std::int64_t now_us) const {
  if (!policy_ || version_) return false;
  const std::optional<std::int64_t>& every = policy_->every_steps;
  return every ? version % *every == 0 : now_us - begun_us_ >= IntervalUs(now_us);
}

bool SnapshotTimer::CouldSave(std::int64_t version) const {
  return policy_ && version > std::max(saved_version_, unsaved_version_);
}

void SnapshotTimer::Begin(std::int64_t version, std::int64_t now_us) {
  version_ = version;
  begun_us_ = now_us;
}

bool SnapshotTimer::Drop() {
  return std::exchange(version_, std::nullopt).has_value();
}

bool SnapshotTimer::OnDone(std::int64_t version, std::int64_t took_us, bool written) {
  if (version_ != version) return false;
  version_.reset();
  if (written) {
    took_us_ = took_us;
    measured_ = true;
  }
  (written ? saved_version_ : unsaved_version_) = version;
  return true;
}

}  // namespace acan
