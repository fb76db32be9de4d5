#include "acan/manager/task_policy.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>

#include "policies.h"
#include "tuplespace/messages.h"

namespace acan {
namespace {

constexpr double kTurnaroundS = 0.02;  // from a task's end until the manager has put the next one
constexpr double kMargin = 2;
constexpr double kRateGain = 0.5;
constexpr std::int64_t kMinTimeoutUs = 10'000;
constexpr std::int64_t kMaxTimeoutUs = 60'000'000;

// Puts in portions of half the pouch, so that a put is worth its message and there are always tasks
// to take.
std::int64_t Portion(std::int64_t room, std::int64_t waiting, std::int64_t pouch) {
  const std::int64_t portion = std::min(waiting, std::max<std::int64_t>(1, pouch / 2));
  return room < portion ? 0 : room;
}

std::optional<std::int64_t> TimeoutUs(const TaskLimits& limits) {
  if (!limits.timeout_ms) return std::nullopt;
  return *limits.timeout_ms * 1000;
}

}  // namespace

// ---- all policies ------------------------------------------------------------------------------

void TaskPolicy::MarkChunks(std::vector<PlannedTask>&) const {}
void TaskPolicy::OnSpace(const SpaceSeen&, std::int64_t) {}
void TaskPolicy::OnTime(std::int64_t) {}
void TaskPolicy::AfterPut(std::int64_t, std::int64_t) {}
void TaskPolicy::AfterDone(const std::vector<TaskDone>&, std::int64_t) {}

std::int64_t TaskPolicy::NextDeadlineUs() const {
  return tuplespace::kForeverUs;
}

std::int64_t TaskPolicy::report_every() const {
  return std::clamp<std::int64_t>(pouch() / 16, 1, 64);
}

void TaskPolicy::OnPut(std::int64_t tasks, std::int64_t now_us) {
  assert(tasks > 0);
  in_flight_ += tasks;
  AfterPut(tasks, now_us);
}

void TaskPolicy::OnDone(std::int64_t tasks, const std::vector<TaskDone>& done,
                        std::int64_t now_us) {
  assert(tasks <= in_flight_);
  in_flight_ -= tasks;
  AfterDone(done, now_us);
}

void TaskPolicy::Forget() {
  in_flight_ = 0;
}

std::unique_ptr<TaskPolicy> MakeTaskPolicy(const TaskLimits& limits) {
  switch (limits.policy) {
    case Policy::kAuto:
      return std::make_unique<AutoPolicy>(limits);
    case Policy::kPaper:
      return std::make_unique<PaperPolicy>(limits);
    case Policy::kGuided:
      return std::make_unique<ChunkPolicy>(limits, ChunkPolicy::Rule::kGuided);
    case Policy::kFactoring:
      return std::make_unique<ChunkPolicy>(limits, ChunkPolicy::Rule::kFactoring);
    case Policy::kFixed:
      return std::make_unique<FixedPolicy>(limits);
  }
  assert(false);
  return nullptr;
}

// ---- auto --------------------------------------------------------------------------------------

AutoPolicy::AutoPolicy(const TaskLimits& limits)
    : fixed_pouch_(limits.pouch), timeout_us_(TimeoutUs(limits)) {}

std::int64_t AutoPolicy::Room(std::int64_t waiting, std::int64_t) {
  const std::int64_t room = Portion(pouch() - in_flight_, waiting, pouch());
  waiting_ = waiting - std::min(waiting, room);
  return room;
}

std::int64_t AutoPolicy::LeaseUs(const Work& work) const {
  if (!timeout_us_) last_lease_us_ = times_.LeaseUs(work);
  return timeout_us_.value_or(last_lease_us_);
}

void AutoPolicy::AfterDone(const std::vector<TaskDone>& done, std::int64_t) {
  for (const TaskDone& task : done) times_.Note(task.work, task.took_us);
  done_ += static_cast<std::int64_t>(done.size());
}

std::int64_t AutoPolicy::WantedReady() const {
  const double in_hand = rate_ * (times_.MeanUs() * 1e-6 + kTurnaroundS);
  return static_cast<std::int64_t>(std::ceil(kMargin * in_hand)) + handlers_;
}

void AutoPolicy::OnSpace(const SpaceSeen& seen, std::int64_t now_us) {
  if (seen_us_ >= 0 && now_us > seen_us_) {
    const double rate =
        static_cast<double>(done_ - seen_done_) / (static_cast<double>(now_us - seen_us_) * 1e-6);
    rate_ += kRateGain * (rate - rate_);
  }
  seen_us_ = now_us;
  seen_done_ = done_;
  if (waiting_ == 0) return;  // every available task has been put
  const auto ready = static_cast<std::int64_t>(seen.tasks_ready);
  const std::int64_t wanted = WantedReady();
  if (ready == 0 && seen.open_gets > 0) {
    pouch_ *= 2;
  } else if (ready < wanted) {
    pouch_ += std::max(pouch_ / 4, wanted - ready);
  } else if (ready > 4 * wanted) {
    pouch_ -= pouch_ / 8;
  }
  pouch_ = std::clamp(pouch_, kMinPouch, kMaxPouch);
}

void AutoPolicy::Forget() {
  TaskPolicy::Forget();
  waiting_ = 0;
}

// ---- chunks ------------------------------------------------------------------------------------

ChunkPolicy::ChunkPolicy(const TaskLimits& limits, Rule rule)
    : AutoPolicy([&limits] {
        TaskLimits all = limits;
        if (!all.pouch) all.pouch = kMaxPouch;
        return all;
      }()),
      rule_(rule) {}

// What both rules call a loop is here a set of tasks that can run at the same time: those of one
// kind and segment.
void ChunkPolicy::MarkChunks(std::vector<PlannedTask>& tasks) const {
  std::map<std::pair<TaskKind, int>, std::vector<std::size_t>> loops;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    loops[{tasks[i].task.kind, tasks[i].segment}].push_back(i);
  }
  for (const auto& [which, places] : loops) {
    const auto count = static_cast<std::int64_t>(places.size());
    std::size_t next = 0;
    for (const std::int64_t chunk : rule_ == Rule::kGuided ? GuidedChunks(count, handlers_)
                                                           : FactoringChunks(count, handlers_)) {
      for (std::int64_t i = 0; i < chunk; ++i) {
        tasks[places[next++]].task.chunk = static_cast<std::int32_t>(chunk);
      }
    }
    assert(next == places.size());
  }
}

std::vector<std::int64_t> GuidedChunks(std::int64_t tasks, int handlers) {
  const std::int64_t takers = std::max(1, handlers);
  std::vector<std::int64_t> chunks;
  for (std::int64_t left = tasks; left > 0; left -= chunks.back()) {
    chunks.push_back((left + takers - 1) / takers);
  }
  return chunks;
}

std::vector<std::int64_t> FactoringChunks(std::int64_t tasks, int handlers) {
  const std::int64_t takers = std::max(1, handlers);
  std::vector<std::int64_t> chunks;
  for (std::int64_t left = tasks; left > 0;) {
    const std::int64_t size = (left + 2 * takers - 1) / (2 * takers);
    for (std::int64_t i = 0; i < takers && left > 0; ++i) {
      chunks.push_back(std::min(size, left));
      left -= chunks.back();
    }
  }
  return chunks;
}

// ---- fixed -------------------------------------------------------------------------------------

FixedPolicy::FixedPolicy(const TaskLimits& limits)
    : pouch_(limits.pouch.value_or(kPaperPouch)),
      timeout_us_(TimeoutUs(limits).value_or(kFixedTimeoutUs)) {}

std::int64_t FixedPolicy::Room(std::int64_t waiting, std::int64_t) {
  return Portion(pouch_ - in_flight_, waiting, pouch_);
}

// ---- the paper's -------------------------------------------------------------------------------

PaperPolicy::PaperPolicy(const TaskLimits& limits)
    : pouch_(limits.pouch.value_or(kPaperPouch)),
      learns_timeout_(!limits.timeout_ms),
      timeout_us_(TimeoutUs(limits).value_or(kPaperFirstTimeoutUs)) {}

std::int64_t PaperPolicy::NextDeadlineUs() const {
  return begun_us_ < 0 ? tuplespace::kForeverUs : begun_us_ + timeout_us_;
}

void PaperPolicy::BeginPouch(std::int64_t now_us) {
  ++pouches_;
  begun_us_ = now_us;
  // The tasks that are left over are in the space already, and can be taken again when their leases
  // end.
  size_ = in_flight_;
}

void PaperPolicy::OnTime(std::int64_t now_us) {
  if (begun_us_ < 0 || (in_flight_ > 0 && now_us < begun_us_ + timeout_us_)) return;
  if (learns_timeout_) LearnTimeout(now_us);
  begun_us_ = -1;
  if (in_flight_ > 0) BeginPouch(now_us);
}

std::int64_t PaperPolicy::Room(std::int64_t waiting, std::int64_t now_us) {
  OnTime(now_us);
  if (waiting == 0) return 0;
  if (begun_us_ < 0) BeginPouch(now_us);
  return pouch_ - size_;
}

void PaperPolicy::AfterPut(std::int64_t tasks, std::int64_t) {
  size_ += tasks;
  assert(size_ <= pouch_);
}

// If some tasks are missing, the next time-out is longer by their share. If all were done in time,
// the time-out loses half of what was not needed.
void PaperPolicy::LearnTimeout(std::int64_t now_us) {
  assert(size_ > 0);
  if (in_flight_ > 0) {
    const double missing = static_cast<double>(in_flight_) / static_cast<double>(size_);
    timeout_us_ += static_cast<std::int64_t>(static_cast<double>(timeout_us_) * missing);
  } else {
    const std::int64_t unused_us = std::max<std::int64_t>(0, begun_us_ + timeout_us_ - now_us);
    timeout_us_ -= unused_us / 2;
  }
  timeout_us_ = std::clamp(timeout_us_, kMinTimeoutUs, kMaxTimeoutUs);
}

void PaperPolicy::Forget() {
  TaskPolicy::Forget();
  begun_us_ = -1;
  size_ = 0;
}

}  // namespace acan
