// ManagerCore: which handlers are there, and how the steps are cut for them.
#include <algorithm>

#include "acan/core/size_text.h"
#include "acan/manager/manager_core.h"
#include "fmt/format.h"
#include "tuplespace/planted.h"

namespace acan {
namespace {

using tuplespace::IsPlanted;
using tuplespace::Planted;

constexpr std::int64_t kWaitForExpectedUs = 10'000'000;
constexpr std::int64_t kSayAfterUs = 2'000'000;  // nobody there, or nobody large enough
constexpr std::int64_t kSayAgainUs = 30'000'000;
constexpr std::int64_t kCheckEveryUs = 250'000;

}  // namespace

void ManagerCore::On(const HandlersSeen& event, std::int64_t now_us, Actions& out) {
  handlers_.clear();
  for (const auto& [id, capacity] : event.handlers) {
    const bool usable =
        config_.training.precision == Precision::kExact ? capacity.exact : capacity.fast;
    if (usable && config_.quarantined.count(id) == 0) handlers_.emplace(id, capacity);
  }
  // Better than nobody.
  const auto is_idler = [this](const auto& handler) { return idlers_.contains(handler.first); };
  if (!std::all_of(handlers_.begin(), handlers_.end(), is_idler)) {
    std::erase_if(handlers_, is_idler);
  }
  policy_->OnHandlers(static_cast<int>(handlers_.size()));
  if (audits_) audits_->OnHandlers(handlers_);
  CheckHandlers(now_us, out);
}

void ManagerCore::On(const ClockTick&, std::int64_t now_us, Actions& out) {
  CheckHandlers(now_us, out);
  CheckProgress(now_us, out);
}

void ManagerCore::On(const SpaceSeen& event, std::int64_t now_us, Actions&) {
  policy_->OnSpace(event, now_us);
  liveness_.OnSpace(event, now_us);
}

void ManagerCore::CheckProgress(std::int64_t now_us, Actions& out) {
  const bool expects = plan_ && !finished_ && !moving_ && !units_.empty() && !handlers_.empty();
  if (!expects) liveness_.OnProgress(now_us);
  const Liveness::Advice advice = liveness_.OnTick(now_us);
  if (advice == Liveness::Advice::kNone) return;
  const Unit& unit = units_.front();
  out.push_back(Stalled{unit.step, liveness_.IdleSeconds(now_us), unit.in_flight, liveness_.space(),
                        advice == Liveness::Advice::kReplan});
  if (advice == Liveness::Advice::kGoBack) {
    out.push_back(
        Say{fmt::format("no task can be taken, and step {} is not finished: going back "
                        "from step {} to step {}",
                        unit.step, committed_steps_, safe_version_)});
    ++generation_;
    GoBack(*plan_, out);
  } else if (advice == Liveness::Advice::kGiveUp) {
    finished_ = true;
    out.push_back(GiveUp{fmt::format(
        "step {} cannot be finished: {} of its tasks are not done, no task can be taken, and going "
        "back did not help: somebody removes tuples of this run, or the broker lost them; start "
        "again with --resume",
        unit.step, unit.in_flight)});
  }
}

// Tasks wait for somebody who takes them. Who has room for the largest and never did one may only
// say that it has: the others get tasks that fit them.
void ManagerCore::On(const WorkersSeen& event, std::int64_t now_us, Actions& out) {
  if (!plan_ || finished_ || moving_) return;
  std::set<tuplespace::ClientId> idle;
  for (const auto& [id, capacity] : handlers_) {
    const bool could = capacity.memory_bytes >= plan_->largest_need_bytes;
    if (could && !event.workers.contains(id)) idle.insert(id);
  }
  if (idle.empty() || idle.size() == handlers_.size()) return;
  for (const tuplespace::ClientId& id : idle) {
    out.push_back(
        Say{fmt::format("handler {} ({}) has room for all tasks, and has done none: the steps are "
                        "cut for the others",
                        handlers_.at(id).name, id)});
    handlers_.erase(id);
  }
  idlers_.merge(idle);
  hopeless_bytes_ = 0;
  TryToPlan(now_us, out);
}

void ManagerCore::CheckHandlers(std::int64_t now_us, Actions& out) {
  deadline_us_ = now_us + kCheckEveryUs;
  if (finished_ || moving_) return;
  const bool fits = plan_ && plan_->largest_need_bytes <= LargestMemory();
  if (fits) {
    if (said_waiting_) out.push_back(Say{"a handler is there: going on"});
    said_waiting_ = false;
    unfit_since_us_ = -1;
    NameTooSmall(plan_->largest_need_bytes, out);
    return;
  }
  if (unfit_since_us_ < 0) unfit_since_us_ = now_us;
  const bool patient = now_us - unfit_since_us_ < kSayAfterUs;
  if (handlers_.empty()) {
    if (!patient && (said_us_ < 0 || !said_waiting_ || now_us - said_us_ > kSayAgainUs)) {
      out.push_back(
          Say{"no handler is there yet; waiting for one (start: acan handler --connect ...)"});
      said_us_ = now_us;
      said_waiting_ = true;
    }
    return;
  }
  // A handler that was lost may come back at once: give it a moment before cutting anew.
  if (plan_ && patient) return;
  TryToPlan(now_us, out);
}

std::uint64_t ManagerCore::LargestMemory() const {
  std::uint64_t largest = 0;
  for (const auto& [id, capacity] : handlers_) largest = std::max(largest, capacity.memory_bytes);
  return largest;
}

// The smallest memory that a handler must have to take part in the large tasks: the smallest of the
// largest handlers that together do three quarters of the work. Smaller ones do the small tasks.
std::uint64_t ManagerCore::PlanningCapacity() const {
  std::vector<std::pair<std::uint64_t, double>> by_size;
  double total = 0;
  for (const auto& [id, capacity] : handlers_) {
    const double speed = std::max(capacity.gflops, 1e-3);
    by_size.emplace_back(capacity.memory_bytes, speed);
    total += speed;
  }
  std::sort(by_size.begin(), by_size.end(), std::greater<>());
  double sum = 0;
  for (const auto& [bytes, speed] : by_size) {
    sum += speed;
    if (sum >= 0.75 * total) return bytes;
  }
  return by_size.back().first;
}

std::optional<Plan> ManagerCore::PlanFor(std::uint64_t capacity_bytes,
                                         std::uint64_t* smallest) const {
  PlanRequest request;
  request.model = config_.model;
  request.training = config_.training;
  request.training.batch = std::min(config_.training.batch, config_.train_samples);
  request.capacity_bytes = capacity_bytes;
  request.size_bytes = config_.limits.size_bytes;
  request.batch_rows = config_.limits.batch_rows;
  std::vector<double> gflops;
  int threads = 0;
  for (const auto& [id, capacity] : handlers_) {
    gflops.push_back(capacity.gflops);
    threads += std::max(1, capacity.threads);
  }
  request.handlers = SharesOf(std::move(gflops), threads);
  request.overhead_us = config_.overhead_us;
  return MakePlan(request, smallest);
}

void ManagerCore::TryToPlan(std::int64_t now_us, Actions& out) {
  const bool more_expected = static_cast<int>(handlers_.size()) < config_.expected_handlers;
  if (!plan_ && more_expected && now_us - started_us_ < kWaitForExpectedUs) return;
  // What was too little is so whoever else has come.
  if (const std::uint64_t largest = LargestMemory(); largest > hopeless_bytes_) {
    std::optional<Plan> plan = PlanFor(PlanningCapacity(), &smallest_need_bytes_);
    if (!plan) plan = PlanFor(largest, &smallest_need_bytes_);
    if (plan) {
      NameTooSmall(plan->largest_need_bytes, out);
      Replan(std::move(*plan), out);
      return;
    }
    hopeless_bytes_ = largest;
  }
  if (config_.fixed_handlers) {
    const Capacity& first = handlers_.begin()->second;
    finished_ = true;
    out.push_back(GiveUp{fmt::format(
        "the largest task needs {} at its smallest, but handler {} offers {} and no other offers "
        "more: give the handlers more memory, or use a smaller batch or train.block",
        SizeText(smallest_need_bytes_), first.name, SizeText(first.memory_bytes))});
    return;
  }
  NameTooSmall(smallest_need_bytes_, out);
}

void ManagerCore::NameTooSmall(std::uint64_t need_bytes, Actions& out) {
  std::uint64_t smallest = need_bytes;
  for (const auto& [id, capacity] : handlers_) {
    if (capacity.memory_bytes >= smallest || named_too_small_[id]) continue;
    named_too_small_[id] = true;
    out.push_back(Say{
        fmt::format("the largest task needs {}, this handler offers {}: {} takes only smaller ones",
                    SizeText(smallest), SizeText(capacity.memory_bytes), capacity.name)});
  }
}

// Whoever lost them has them no more, and what was made of them cannot be made again: the tasks and
// inputs of earlier steps are gone. So the run goes back to where nothing was on a device only.
void ManagerCore::On(const ResultsLost& event, std::int64_t, Actions& out) {
  if (!plan_ || finished_) return;
  out.push_back(Say{fmt::format("{}: going back from step {} to step {}", event.why,
                                committed_steps_, safe_version_)});
  ++generation_;
  GoBack(*plan_, out);
}

// Starts under a first plan, or goes back to the last safe version and starts from there.
void ManagerCore::Replan(Plan plan, Actions& out) {
  ++generation_;
  unfit_since_us_ = -1;
  said_waiting_ = false;
  out.push_back(Say{fmt::format(
      "{}: {}", plan_ ? "cutting anew for the handlers that are there" : "plan", plan.Summary())});
  if (!plan_) {
    plan_ = std::move(plan);
    return;
  }
  GoBack(std::move(plan), out);
}

void ManagerCore::GoBack(Plan plan, Actions& out) {
  if (snapshot_version_) {  // its tiles may be cut anew
    snapshot_version_.reset();
    out.push_back(DropSnapshot{});
  }
  MoveTiles move;
  move.generation = generation_;
  // A handler may still finish a task that it took before, and what a task of the same name makes
  // now is there before that is taken: until then it needs its inputs. The last ones may have been
  // of an evaluation of the version with which the next step begins.
  spent_from_step_ = std::max(spent_from_step_, next_step_ + 1);
  if (!IsPlanted(Planted::kGoesBackToUnsafeVersion)) committed_steps_ = safe_version_;
  move.version = committed_steps_;
  if (initialized_) move.from = MakeGraph().Tiles(config_.run, move.version);
  plan_ = std::move(plan);
  if (initialized_) move.to = MakeGraph().Tiles(config_.run, move.version);
  units_.clear();
  policy_->Forget();
  if (audits_) audits_->Forget();
  initialize_opened_ = initialized_;
  next_step_ = committed_steps_ + (IsPlanted(Planted::kReplanSkipsAStep) ? 1 : 0);
  // An evaluation of this version that was not finished begins anew.
  evaluated_next_ = evaluated_version_ == committed_steps_;
  evaluate_next_ = 0;
  evaluation_loss_ = evaluation_right_ = 0;
  moving_ = true;
  out.push_back(std::move(move));
}

void ManagerCore::On(const WeightsReady& event, std::int64_t, Actions&) {
  if (event.generation != generation_) return;
  if (moving_) {
    moving_ = false;
  } else if (!units_.empty() && units_.front().weights_pending) {
    units_.front().weights_pending = false;
  }
}

}  // namespace acan
