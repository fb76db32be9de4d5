#include "acan/manager/snapshot_timer.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace acan {
namespace {

// Until one was taken.
constexpr std::int64_t kAssumedSnapshotUs = 50'000;
constexpr double kAssumedSecondsBetweenFailures = 3600;
// Whoever is lost young is often lost young: the first comes soon, the next ones later and later,
// up to what Young's rule says. None takes more than this share of the time.
constexpr std::int64_t kFirstSnapshotUs = 1'000'000;
constexpr std::int64_t kLeastIntervalsOfOne = 10;

}  // namespace

SnapshotTimer::SnapshotTimer(const std::optional<SnapshotPolicy>& policy)
    : policy_(policy), took_us_(kAssumedSnapshotUs) {
  if (policy_) saved_version_ = policy_->saved_version;
}

void SnapshotTimer::Expect(std::int64_t took_us) {
  if (!measured_) took_us_ = std::max(took_us_, took_us);
}

std::int64_t SnapshotTimer::IntervalUs(std::int64_t now_us) const {
  const double lived_s = policy_->past_seconds + static_cast<double>(now_us - started_us_) * 1e-6;
  const double between_failures_s =
      (kAssumedSecondsBetweenFailures + lived_s) / static_cast<double>(1 + policy_->failures);
  const double took_s = static_cast<double>(took_us_) * 1e-6;
  const auto young_us = static_cast<std::int64_t>(std::sqrt(2 * took_s * between_failures_s) * 1e6);
  const std::int64_t lived_at_last_us = begun_us_ - started_us_;
  return std::max(std::min(young_us, std::max(kFirstSnapshotUs, lived_at_last_us)),
                  kLeastIntervalsOfOne * took_us_);
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
  took_us_ = took_us;
  measured_ = true;
  (written ? saved_version_ : unsaved_version_) = version;
  return true;
}

}  // namespace acan
