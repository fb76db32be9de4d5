#include "acan/manager/liveness.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"

namespace acan {
namespace {

constexpr std::int64_t kStallUs = 10'000'000;
constexpr std::int64_t kWaitForWorkersUs = 60'000'000;
constexpr std::int64_t kLongestTaskUs = 600'000'000;
constexpr std::int64_t kSayStallAgainUs = 30'000'000;
constexpr std::int64_t kPauseUs = 2'000'000;
constexpr int kMaxGoneBack = 2;

}  // namespace

void Liveness::OnProgress(std::int64_t now_us) {
  progress_us_ = say_us_ = unworked_us_ = undone_us_ = now_us;
  counted_ = false;
  lost_ = {};
}

void Liveness::OnHandlers(const std::map<std::string, Capacity>& handlers) {
  std::map<std::string, std::string> names;
  for (const auto& [id, capacity] : handlers) names.emplace(id, capacity.name);
  for (const auto& [id, name] : handlers_) {
    if (names.contains(id)) continue;
    ++lost_.count;
    lost_.last = fmt::format("{} ({})", name, id);
  }
  handlers_ = std::move(names);
}

// Handlers that come get the whole time to take tasks.
void Liveness::OnNobodyThere(std::int64_t now_us) {
  const std::int64_t passed_us = now_us - tick_us_;
  progress_us_ = std::min(now_us, progress_us_ + passed_us);
  say_us_ += passed_us;
  unworked_us_ = undone_us_ = now_us;
  counted_ = false;
}

void Liveness::OnTasks(const RunTasksSeen& seen, std::int64_t now_us) {
  const bool all_under_way = seen.ready == 0 && seen.leased == 0 && seen.puts_under_way > 0;
  if (!counted_ || seen.all != tasks_.all || all_under_way) undone_us_ = now_us;
  tasks_ = seen;
  counted_ = true;
  if (seen.leased > 0) {
    unworked_us_ = -1;
  } else if (unworked_us_ < 0) {
    unworked_us_ = now_us;
  }
}

Liveness::Advice Liveness::OnTick(std::int64_t now_us, bool needs_handler) {
  const bool paused = now_us - tick_us_ > kPauseUs;
  tick_us_ = now_us;
  if (paused) OnProgress(now_us);
  if (needs_handler && unworked_us_ >= 0) unworked_us_ = now_us;
  if (needs_handler) undone_us_ = now_us;
  says_ = false;
  if (now_us - progress_us_ < kStallUs) return Advice::kNone;
  says_ = now_us >= say_us_;
  if (says_) say_us_ = now_us + kSayStallAgainUs;
  if (counted_ && unworked_us_ >= 0 && now_us - unworked_us_ >= kStallUs) {
    unworked_us_ = now_us;  // gives the advice time to take effect
    if (tasks_.ready > 0) return Advice::kReplan;
    if (tasks_.puts_under_way > 0) return says_ ? Advice::kSay : Advice::kNone;
    says_ = true;
    return went_back_++ < kMaxGoneBack ? Advice::kGoBack : Advice::kGiveUp;
  }
  if (counted_ && now_us - undone_us_ >= kLongestTaskUs) {
    undone_us_ = now_us;
    return Advice::kReplan;
  }
  return says_ ? Advice::kSay : Advice::kNone;
}

bool Liveness::WaitedForWorkers(std::int64_t now_us) const {
  return now_us - progress_us_ >= kWaitForWorkersUs;
}

}  // namespace acan
