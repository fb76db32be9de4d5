// The policies behind MakeTaskPolicy, declared for it and for tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "acan/manager/task_policy.h"

namespace acan {

inline constexpr std::int64_t kFirstPouch = 4096;
inline constexpr std::int64_t kMinPouch = 4096;
inline constexpr std::int64_t kMaxPouch = 65'536;
inline constexpr std::int64_t kPaperPouch = 100;
inline constexpr std::int64_t kPaperFirstTimeoutUs = 1'000'000;
inline constexpr std::int64_t kFixedTimeoutUs = 10'000'000;

// Learns leases and the pouch. To keep every handler busy, the number of ready tasks in the space
// must be, by Little's law, the rate at which tasks complete times the time that a new task needs
// to reach a handler. Tasks that wait for inputs are in the pouch as well, in unknown number, so
// this policy controls the pouch by the number of tasks that the space reports as ready.
class AutoPolicy : public TaskPolicy {
 public:
  explicit AutoPolicy(const TaskLimits& limits);
  std::int64_t Room(std::int64_t waiting, std::int64_t now_us) override;
  std::int64_t LeaseUs(const Work& work) const override;
  bool timed() const override { return timeout_us_.has_value(); }
  void OnSpace(const SpaceSeen& seen, std::int64_t now_us) override;
  void Forget() override;
  std::int64_t pouch() const override { return fixed_pouch_.value_or(pouch_); }
  std::int64_t timeout_us() const override { return timeout_us_.value_or(last_lease_us_); }
  // The number of tasks that should be ready so that no handler waits.
  std::int64_t WantedReady() const;

 protected:
  void AfterDone(const std::vector<TaskDone>& done, std::int64_t now_us) override;

 private:
  const std::optional<std::int64_t> fixed_pouch_;
  const std::optional<std::int64_t> timeout_us_;
  ResponseTimes times_;
  std::int64_t pouch_ = kFirstPouch;
  std::int64_t waiting_ = 0;  // tasks that could not be put for lack of room, as of the last query
  mutable std::int64_t last_lease_us_ = kFirstLeaseUs;
  // Tasks completed per second, smoothed over the reports of the space.
  double rate_ = 0;
  std::int64_t done_ = 0, seen_done_ = 0, seen_us_ = -1;
};

// Chunks of decreasing size: puts everything at once and learns leases.
class ChunkPolicy final : public AutoPolicy {
 public:
  enum class Rule : std::uint8_t { kGuided, kFactoring };
  ChunkPolicy(const TaskLimits& limits, Rule rule);
  void MarkChunks(std::vector<PlannedTask>& tasks) const override;

 private:
  const Rule rule_;
};

// A fixed pouch and time-out.
class FixedPolicy final : public TaskPolicy {
 public:
  explicit FixedPolicy(const TaskLimits& limits);
  std::int64_t Room(std::int64_t waiting, std::int64_t now_us) override;
  std::int64_t LeaseUs(const Work&) const override { return timeout_us_; }
  bool timed() const override { return true; }
  std::int64_t pouch() const override { return pouch_; }
  std::int64_t timeout_us() const override { return timeout_us_; }

 private:
  const std::int64_t pouch_;
  const std::int64_t timeout_us_;
};

// The paper's policy: it puts a pouch. When all its tasks are done, or its time-out is over, it
// counts the completed ones, corrects the time-out unless the job fixes it, and begins the next
// pouch with the tasks that are left.
class PaperPolicy final : public TaskPolicy {
 public:
  explicit PaperPolicy(const TaskLimits& limits);
  std::int64_t Room(std::int64_t waiting, std::int64_t now_us) override;
  std::int64_t LeaseUs(const Work&) const override { return timeout_us_; }
  bool timed() const override { return true; }
  void OnTime(std::int64_t now_us) override;
  std::int64_t NextDeadlineUs() const override;
  void Forget() override;
  std::int64_t pouch() const override { return pouch_; }
  std::int64_t timeout_us() const override { return timeout_us_; }
  std::int64_t report_every() const override { return 1 + pouch_ / 128; }

 protected:
  void AfterPut(std::int64_t tasks, std::int64_t now_us) override;

 private:
  void BeginPouch(std::int64_t now_us);
  void LearnTimeout(std::int64_t now_us);  // at the end of a pouch

  const std::int64_t pouch_;
  const bool learns_timeout_;  // unless the job fixes it
  std::int64_t timeout_us_;
  std::int64_t begun_us_ = -1;  // when the current pouch began; -1: none
  std::int64_t size_ = 0;       // its tasks, including those left over from the pouch before
};

}  // namespace acan
