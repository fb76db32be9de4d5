#include "acan/manager/spare_handlers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "acan/manager/excluded.h"
#include "acan/manager/handler_network.h"
#include "acan/manager/speed_sets.h"
#include "fmt/format.h"

namespace acan {
namespace {

using tuplespace::ClientId;

// How long the run is compared with its spares, and a pause in which it was not, such as that of a
// stopped process.
constexpr double kWatchUs = 10e6;      // at least
constexpr double kWatchFirstUs = 2e6;  // until the others have done a task
constexpr std::int64_t kUnwatchedUs = 2'000'000;
constexpr double kMissed =
    2;  // the run is slower than the spares by more than the estimate's error
constexpr std::int64_t kShortestRecallUs = 10'000'000;
constexpr std::int64_t kLongestRecallUs = 3'600'000'000;
constexpr std::int64_t kForgottenUs = 1'800'000'000;  // recalls that ended before do not count
constexpr std::int64_t kNamedAgainUs = 30'000'000;
// Tasks are put again only for steps that take so long, and that would be so much shorter.
constexpr double kLongStepUs = 2e6;
constexpr double kFarLonger = 10;

std::set<ClientId> Slowest(const std::map<std::string, double>& speeds,
                           const SpareHandlers::Handlers& fast) {
  std::vector<std::pair<double, std::string>> slow;
  for (const auto& [id, gflops] : speeds) {
    if (!fast.contains(id)) slow.emplace_back(gflops, id);
  }
  std::sort(slow.begin(), slow.end());
  slow.resize(std::min(slow.size(), SpareHandlers::kMaxSpares));
  std::set<ClientId> slowest;
  for (auto& [gflops, id] : slow) slowest.insert(std::move(id));
  return slowest;
}

// Without the slowest ones if these would hold up the others.
double ShortestStepUs(const SpareHandlers::Handlers& handlers,
                      const SpareHandlers::StepUs& step_us) {
  double shortest = std::numeric_limits<double>::infinity();
  if (handlers.empty()) return shortest;
  for (const SpareHandlers::Handlers& set : SetsBySpeed(handlers)) {
    shortest = std::min(shortest, step_us(set));
  }
  return shortest;
}

}  // namespace

void SpareHandlers::OnNewPlan() {
  // Those for whom they were spares may come back again and again.
  if (!excluded_.empty()) Recall();
  judged_.clear();
  spares_.clear();
  excluded_.clear();
  spares_step_us_ = std::numeric_limits<double>::infinity();
  taking_back_ = TakingBack::kNot;
}

std::set<ClientId> SpareHandlers::Find(const Handlers& present,
                                       const std::map<std::string, double>& speeds,
                                       const StepUs& step_us) {
  const std::vector<Handlers> sets = SetsBySpeed(present, speeds);
  if (sets.size() == 1) return {};
  return Slowest(speeds, sets[BestSet(sets, [&](std::size_t i) { return step_us(sets[i]); })]);
}

std::vector<std::string> SpareHandlers::Judge(const Handlers& present,
                                              const std::set<std::string>& workers,
                                              const StepUs& step_us) {
  if (present.empty() || now_us_ < recalled_until_us_) return {};
  const std::map<std::string, double> speeds = PresentSpeeds(present);
  std::map<std::string, Known> known;
  for (const auto& [id, gflops] : speeds) known[id] = {gflops, workers.contains(id)};
  if (known == judged_) return {};
  judged_ = std::move(known);
  std::set<ClientId> spares = Find(present, speeds, step_us);
  if (spares == spares_) return {};
  std::vector<std::string> lines = NameNew(present, spares);
  spares_ = std::move(spares);
  excluded_.insert(spares_.begin(), spares_.end());
  Watch(present, step_us);
  return lines;
}

std::vector<std::string> SpareHandlers::NameNew(const Handlers& present,
                                                const std::set<ClientId>& spares) {
  std::map<ClientId, std::vector<ClientId>> by_owner;
  std::erase_if(named_until_us_, [&](const auto& one) { return one.second <= now_us_; });
  for (const ClientId& id : spares) {
    const bool is_new = !spares_.contains(id) && !named_until_us_.contains(OwnerOf(id));
    if (is_new) by_owner[OwnerOf(id)].push_back(id);
  }
  std::vector<std::string> lines;
  for (const auto& [owner, ids] : by_owner) {
    const Capacity& first = present.at(ids.front());
    lines.push_back(fmt::format(
        "{} is far slower than other handlers ({:.3g} GFLOP/s), and each step would wait for it: "
        "it gets no tasks while they work",
        first.name, judged_.at(ids.front()).gflops));
    if (ids.size() > 1) {
      lines.back() += fmt::format(" (like {} more of its key's handlers)", ids.size() - 1);
    }
    named_until_us_[owner] = now_us_ + kNamedAgainUs;
  }
  return lines;
}

// The spares have changed. Tasks may also exclude those that were spares before.
void SpareHandlers::Watch(const Handlers& present, const StepUs& step_us) {
  Handlers excluded, others;
  for (const auto& handler : present) {
    if (excluded_.contains(handler.first)) excluded.insert(handler);
    if (!spares_.contains(handler.first)) others.insert(handler);
  }
  // Whoever changes the spares again and again must not put off the comparison.
  const bool was_watched = std::isfinite(spares_step_us_);
  spares_step_us_ = ShortestStepUs(excluded, step_us);
  if (!was_watched) WatchAnew();
  const bool worked = std::any_of(spares_.begin(), spares_.end(),
                                  [this](const ClientId& id) { return judged_.at(id).works; });
  const bool wanted = worked && !OthersWork() && std::isfinite(spares_step_us_) &&
                      spares_step_us_ >= kLongStepUs &&
                      spares_step_us_ >= kFarLonger * step_us(others);
  if (taking_back_ != TakingBack::kDone) {
    taking_back_ = wanted ? TakingBack::kWanted : TakingBack::kNot;
  }
}

bool SpareHandlers::TakesTasksBack() {
  if (taking_back_ != TakingBack::kWanted) return false;
  taking_back_ = TakingBack::kDone;
  return true;
}

void SpareHandlers::WatchAnew() {
  watched_from_us_ = watched_us_ = now_us_;
  steps_ = 0;
}

bool SpareHandlers::OthersWork() const {
  return std::any_of(judged_.begin(), judged_.end(), [this](const auto& handler) {
    return handler.second.works && !spares_.contains(handler.first);
  });
}

SpareHandlers::Missed SpareHandlers::OnProgress(double steps) {
  if (!std::isfinite(spares_step_us_)) return Missed::kNot;
  const bool paused = now_us_ - watched_us_ > kUnwatchedUs;
  watched_us_ = now_us_;
  steps_ += steps;
  const auto passed_us = static_cast<double>(now_us_ - watched_from_us_);
  const double watch_us = spares_.empty() || OthersWork() ? kWatchUs : kWatchFirstUs;
  if (!paused && passed_us < std::max(watch_us, kMissed * spares_step_us_)) return Missed::kNot;
  const double done = std::exchange(steps_, 0);
  watched_from_us_ = now_us_;
  const bool missed = !paused && passed_us > kMissed * spares_step_us_ * done;
  const bool has_spares = !spares_.empty();
  // Without spares, this was for the tasks that were left.
  if (!has_spares) spares_step_us_ = std::numeric_limits<double>::infinity();
  if (!missed) return Missed::kNot;
  return has_spares && done > 0 ? Missed::kSlow : Missed::kStuck;
}

void SpareHandlers::Recall() {
  spares_.clear();
  judged_.clear();
  if (taking_back_ == TakingBack::kWanted) taking_back_ = TakingBack::kNot;
  if (now_us_ < recalled_until_us_) return;
  if (recall_for_us_ == 0 || now_us_ - recalled_until_us_ > kForgottenUs) {
    recall_for_us_ = kShortestRecallUs;
  }
  recalled_until_us_ = now_us_ + recall_for_us_;
  recall_for_us_ = std::min(2 * recall_for_us_, kLongestRecallUs);
}

}  // namespace acan
