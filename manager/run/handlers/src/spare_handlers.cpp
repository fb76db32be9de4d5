#include "acan/manager/spare_handlers.h"

#include <algorithm>
#include <cmath>
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
constexpr std::int64_t kForgottenUs = 1'800'000'000;  // recalls before that do not count
constexpr std::int64_t kNamedAgainUs = 30'000'000;

std::set<ClientId> Slowest(const SpareHandlers::Handlers& present,
                           const SpareHandlers::Handlers& fast) {
  const std::map<std::string, double> speeds = PresentSpeeds(present);
  std::vector<std::pair<double, std::string>> slow;
  for (const auto& [id, capacity] : present) {
    if (!fast.contains(id)) slow.emplace_back(speeds.at(id), id);
  }
  std::sort(slow.begin(), slow.end());
  slow.resize(std::min(slow.size(), SpareHandlers::kMaxSpares));
  std::set<ClientId> slowest;
  for (auto& [gflops, id] : slow) slowest.insert(std::move(id));
  return slowest;
}

}  // namespace

void SpareHandlers::OnNewPlan() {
  judged_.clear();
  spares_.clear();
  excluded_.clear();
}

std::set<ClientId> SpareHandlers::Find(const Handlers& present,
                                       const std::set<std::string>& workers,
                                       const StepUs& step_us) const {
  const std::vector<Handlers> sets = SetsBySpeed(present);
  if (sets.size() == 1) return {};
  const Handlers& best = sets[BestSet(sets, [&](std::size_t i) { return step_us(sets[i]); })];
  std::set<ClientId> spares = Slowest(present, best);
  const bool proven = std::any_of(best.begin(), best.end(), [&](const auto& handler) {
    return workers.contains(handler.first);
  });
  if (!proven) std::erase_if(spares, [&](const ClientId& id) { return workers.contains(id); });
  return spares;
}

std::vector<std::string> SpareHandlers::Judge(const Handlers& present,
                                              const std::set<std::string>& workers,
                                              const StepUs& step_us) {
  if (present.empty() || now_us_ < recalled_until_us_) return {};
  std::map<std::string, Known> known;
  for (const auto& [id, gflops] : PresentSpeeds(present))
    known[id] = {gflops, workers.contains(id)};
  if (known == judged_) return {};
  judged_ = std::move(known);
  std::set<ClientId> spares = Find(present, workers, step_us);
  if (spares == spares_) return {};
  Handlers of_spares;
  std::map<ClientId, std::vector<ClientId>> by_owner;
  std::erase_if(named_until_us_, [&](const auto& one) { return one.second <= now_us_; });
  for (const ClientId& id : spares) {
    of_spares.insert(*present.find(id));
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
  spares_ = std::move(spares);
  excluded_.insert(spares_.begin(), spares_.end());
  spares_step_us_ = step_us(of_spares);
  WatchAnew();
  return lines;
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
  if (spares_.empty() || !std::isfinite(spares_step_us_)) return Missed::kNot;
  const bool paused = now_us_ - watched_us_ > kUnwatchedUs;
  watched_us_ = now_us_;
  steps_ += steps;
  const auto passed_us = static_cast<double>(now_us_ - watched_from_us_);
  const double watch_us = OthersWork() ? kWatchUs : kWatchFirstUs;
  if (!paused && passed_us < std::max(watch_us, kMissed * spares_step_us_)) return Missed::kNot;
  const double done = std::exchange(steps_, 0);
  watched_from_us_ = now_us_;
  if (paused || passed_us <= kMissed * spares_step_us_ * done) return Missed::kNot;
  return done > 0 ? Missed::kSlow : Missed::kStuck;
}

void SpareHandlers::Recall() {
  if (recall_for_us_ == 0 || now_us_ - recalled_us_ > kForgottenUs) {
    recall_for_us_ = kShortestRecallUs;
  }
  recalled_us_ = now_us_;
  recalled_until_us_ = now_us_ + recall_for_us_;
  recall_for_us_ = std::min(2 * recall_for_us_, kLongestRecallUs);
  spares_.clear();
  judged_.clear();
}

}  // namespace acan
