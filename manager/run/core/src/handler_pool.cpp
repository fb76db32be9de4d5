#include "acan/manager/handler_pool.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "acan/core/task_limits.h"
#include "acan/core/text/size_text.h"
#include "acan/manager/excluded.h"
#include "acan/manager/handler_network.h"
#include "acan/manager/job.h"
#include "acan/manager/memory_sizes.h"
#include "acan/manager/placement.h"
#include "acan/manager/planted.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace acan {
namespace {

constexpr std::int64_t kWaitForExpectedUs = 10'000'000;
constexpr std::int64_t kSettleUs = 500'000;
// The links of some 30 handlers at one broker are measured in this time. The others count as usual
// ones.
constexpr std::int64_t kMeasureUs = 3'000'000;
constexpr std::int64_t kSayAfterUs = 2'000'000;  // no handler is there, or none is large enough
constexpr std::int64_t kSayLateUs = 5'000'000;   // expected handlers have not joined
constexpr std::int64_t kSayAgainUs = 30'000'000;
// What has been so for so long is said again, although it was otherwise for a while since.
constexpr std::int64_t kSayAnewUs = 10'000'000;

// Continues the advice to have more memory.
constexpr const char* kNothingFits =
    ", because acan finds no smaller train.block or train.batch that is enough";

std::optional<Recompute> RecomputeOf(RecomputePolicy policy) {
  switch (policy) {
    case RecomputePolicy::kAuto:
      return std::nullopt;
    case RecomputePolicy::kNever:
      return Recompute::kNothing;
    case RecomputePolicy::kAlways:
      return Recompute::kBranches;
  }
  return std::nullopt;
}

// Why there is no plan although memory is not the problem.
std::string WhyNoMemoryIsEnough(const model::Graph& graph) {
  for (const model::Value& value : graph.values()) {
    const model::Shape& shape = value.shape;
    if (std::max(shape.rows, shape.features) <= kMaxMatrixAxis) continue;
    return fmt::format(
        "no memory is enough for this model: '{}' has {} rows{} and {} features, but an operator "
        "that needs all of them at once can have at most {} of each",
        value.name, shape.rows, shape.rows_of == model::RowsOf::kSample ? " for each sample" : "",
        shape.features, kMaxMatrixAxis);
  }
  return "no memory is enough for this model: its smallest tasks or tuples are larger than the "
         "space accepts";
}

}  // namespace

bool HandlerPool::Said::IsDue(std::int64_t now_us, std::int64_t since_us) {
  const bool anew = !is_said && now_us - since_us >= kSayAnewUs;
  if (said_us && now_us - *said_us <= kSayAgainUs && !anew) return false;
  said_us = now_us;
  is_said = true;
  return true;
}

void HandlerPool::OnHandlers(const HandlersSeen& event, std::int64_t now_us) {
  const bool was_empty = handlers_.empty();
  handlers_.clear();
  of_other_jobs_ = event.of_other_jobs;
  missing_ = event.missing;
  for (const auto& [id, capacity] : event.handlers) {
    const bool usable =
        config_.training.precision == Precision::kExact ? capacity.exact : capacity.fast;
    if (usable && !HasClient(config_.quarantined, id)) handlers_.emplace(id, capacity);
  }
  unusable_ = static_cast<int>(event.handlers.size() - handlers_.size());
  idle_.SetPresent(event.handlers);
  left_out_.clear();
  std::erase_if(handlers_, [this](const auto& handler) {
    const bool is_out = idle_.IsLeftOut(handler.first);
    if (is_out) left_out_.insert(handler);
    return is_out;
  });
  if (handlers_.empty()) handlers_.swap(left_out_);  // they are better than none
  if (was_empty && !handlers_.empty()) there_since_us_ = now_us;
  if (handlers_.size() > most_handlers_) {
    most_handlers_ = handlers_.size();
    grown_us_ = now_us;
  }
}

// A plan for the first handlers alone, or for links that are not measured yet, would stay in force.
bool HandlerPool::MayOthersCome(std::int64_t now_us) const {
  const std::int64_t settled_us = now_us - grown_us_;
  const bool waits = config_.knows_links && !config_.fixed_handlers;
  if (!waits || settled_us >= kMeasureUs) return false;
  return std::any_of(handlers_.begin(), handlers_.end(), [&](const auto& handler) {
    const Capacity& capacity = handler.second;
    return capacity.bytes_travel && (settled_us < kSettleUs || capacity.link_ns_per_kib == 0);
  });
}

bool HandlerPool::IsDeserted(std::int64_t now_us) const {
  return handlers_.empty() && unfit_since_us_ && now_us - *unfit_since_us_ >= kSayAfterUs;
}

HandlerPool::Advice HandlerPool::Check(const Plan* plan, std::int64_t now_us, ManagerActions& out) {
  small_.SetTime(now_us);
  if (plan != nullptr && plan->largest_need_bytes <= LargestMemory()) {
    if (nobody_.is_said || too_small_.is_said)
      out.push_back(Say{"a handler has joined: continuing"});
    nobody_.is_said = too_small_.is_said = false;
    unfit_since_us_.reset();
    NameTooSmall(plan->largest_need_bytes, out);
    return {};
  }
  if (!unfit_since_us_) unfit_since_us_ = now_us;
  if (handlers_.empty()) {
    if (now_us - *unfit_since_us_ >= kSayAfterUs) SayNobodyIsThere(now_us, out);
    return {};
  }
  // A lost handler may return soon, so this waits a moment before cutting anew. If all were lost,
  // the first one to return may be a small one.
  const std::int64_t since_us = std::max(*unfit_since_us_, there_since_us_);
  if (plan != nullptr && now_us - since_us < kSayAfterUs) return {};
  return TryToPlan(plan, now_us, out);
}

void HandlerPool::SayNobodyIsThere(std::int64_t now_us, ManagerActions& out) {
  if (!nobody_.IsDue(now_us, *unfit_since_us_)) return;
  std::vector<std::string> others;
  if (of_other_jobs_ > 0) {
    others.push_back(fmt::format("{} limited to other jobs by {}", of_other_jobs_,
                                 of_other_jobs_ == 1 ? "its key" : "their keys"));
  }
  if (unusable_ > 0) {
    others.push_back(fmt::format("{} not {}, or quarantined", unusable_,
                                 config_.training.precision == Precision::kExact
                                     ? "exact"
                                     : "able to compute in fast precision"));
  }
  const bool had_some = most_handlers_ > 0;
  std::string what = had_some ? "all handlers are gone" : "no handler has joined yet";
  if (!others.empty()) {
    what = fmt::format("no handler {} that can take tasks of this job (there are others: {})",
                       had_some ? "is left" : "has joined", fmt::join(others, "; "));
  }
  out.push_back(
      Say{fmt::format("{}; waiting for one{}", what,
                      config_.fixed_handlers ? "" : " (start: acan handler --connect ...)")});
}

void HandlerPool::SayAllAreTooSmall(std::int64_t now_us, ManagerActions& out) {
  const std::int64_t since_us = unfit_since_us_.value_or(now_us);
  if (now_us - since_us < kSayAfterUs || !too_small_.IsDue(now_us, since_us)) return;
  std::string awaited;
  if (config_.fixed_handlers) {
    awaited = HandlersText(Awaited());
  } else {
    if (!settings_that_fit_) settings_that_fit_ = SettingsThatFit();
    const std::string again = fmt::format(" (or begin again with {})", *settings_that_fit_);
    awaited = "a handler with more memory" + (settings_that_fit_->empty() ? kNothingFits : again);
  }
  const Capacity& largest = Largest();
  out.push_back(Say{fmt::format(
      "{} handlers are too small: the largest task needs {} at its smallest, and {} offers the "
      "most, {}; waiting for {}",
      config_.fixed_handlers ? "the other" : "all", SizeText(smallest_need_bytes_), largest.name,
      SizeText(largest.memory_bytes), awaited)});
}

void HandlerPool::SayIfLate(std::int64_t now_us, ManagerActions& out) {
  if (missing_.empty() || now_us - started_us_ < kSayLateUs) return;
  if (!late_.IsDue(now_us, started_us_)) return;
  out.push_back(Say{fmt::format("waiting up to {} s for handlers that have not joined yet: {}",
                                kWaitForExpectedUs / 1'000'000, HandlersText(missing_))});
}

std::string HandlerPool::MissingText() const {
  return missing_.empty() ? "" : "; not there: " + HandlersText(missing_);
}

std::vector<ExpectedHandler> HandlerPool::Awaited() const {
  std::vector<ExpectedHandler> awaited = missing_;
  std::erase_if(awaited, [this](const ExpectedHandler& handler) {
    return handler.limit_bytes < smallest_need_bytes_;
  });
  return awaited;
}

HandlerPool::Advice HandlerPool::LeaveOutIdle(const Plan& plan, bool workers_too,
                                              ManagerActions& out) {
  Handlers idle, others;
  for (const auto& handler : handlers_) {
    const bool could = handler.second.memory_bytes >= plan.largest_need_bytes;
    const bool waits = idle_.IsWorker(handler.first) &&
                       (!workers_too || IsPlanted(ManagerBug::kWaitsForIdleHandlers));
    const bool is_idle = could && !waits;
    (is_idle ? idle : others).insert(handler);
  }
  if (idle.empty()) return {};
  IdleHandlers without = idle_;
  without.LeaveOut(idle);
  Handlers of_other_keys = others, all = others;
  std::erase_if(of_other_keys,
                [&](const auto& handler) { return without.IsLeftOut(handler.first); });
  all.insert(left_out_.begin(), left_out_.end());
  for (const Handlers* rest : {&of_other_keys, &others, &all}) {
    std::optional<Advice> advice = CutFor(*rest, plan, out);
    if (!advice) continue;
    for (const auto& [id, capacity] : idle) {
      out.push_back(
          Say{fmt::format("handler {} ({}) has memory for all tasks but takes none: it does not "
                          "count until it has done one",
                          capacity.name, id)});
    }
    idle_ = std::move(without);
    if (rest != &of_other_keys) idle_.LetCount(*rest);
    left_out_.merge(idle);
    return std::move(*advice);
  }
  return {};
}

HandlerPool::Advice HandlerPool::CutForVoter(std::uint64_t memory_bytes, ManagerActions& out) {
  if (memory_bytes <= hopeless_voter_bytes_) return {};
  if (std::optional<Plan> plan = PlanFor(memory_bytes)) return Adopt(std::move(*plan), out);
  hopeless_voter_bytes_ = memory_bytes;
  return {};
}

// Makes these the handlers that count. Does nothing and returns nullopt if `plan` does not suit
// them and no other one does.
std::optional<HandlerPool::Advice> HandlerPool::CutFor(const Handlers& handlers, const Plan& plan,
                                                       ManagerActions& out) {
  if (handlers.empty()) return std::nullopt;
  Handlers before = std::exchange(handlers_, handlers);
  if (plan.largest_need_bytes <= LargestMemory()) return Advice{};
  if (std::optional<Plan> next = FindPlan()) return Adopt(std::move(*next), out);
  handlers_ = std::move(before);
  return std::nullopt;
}

const Capacity& HandlerPool::Largest() const {
  const auto largest =
      std::max_element(handlers_.begin(), handlers_.end(), [](const auto& left, const auto& right) {
        return left.second.memory_bytes < right.second.memory_bytes;
      });
  return largest->second;
}

std::uint64_t HandlerPool::LargestMemory() const {
  return handlers_.empty() ? 0 : Largest().memory_bytes;
}

std::optional<Plan> HandlerPool::PlanFor(std::uint64_t capacity_bytes) {
  const bool is_last = capacity_bytes == LargestMemory();
  return MakePlan(RequestFor(config_.training, capacity_bytes),
                  is_last ? &smallest_need_bytes_ : nullptr);
}

PlanRequest HandlerPool::RequestFor(const Training& training, std::uint64_t capacity_bytes) const {
  PlanRequest request;
  request.model = model_;
  request.training = training;
  request.training.batch = std::min(training.batch, config_.train_samples);
  request.capacity_bytes = capacity_bytes;
  request.size_bytes = config_.limits.size_bytes;
  request.batch_rows = config_.limits.batch_rows;
  request.recompute = RecomputeOf(config_.limits.recompute);
  const Handlers with_memory = WithMemory(handlers_, capacity_bytes);
  request.speed = SpeedOf(with_memory);
  request.speed.overhead_us = config_.overhead_us;
  const auto network_of = [this](const Handlers& handlers, std::size_t least_hosts) {
    return NetworkOf(handlers, config_.LeastResidentBytes(), config_.machine, least_hosts);
  };
  // The estimates for all sizes of memory count links, or none does.
  if (config_.knows_links && network_of(handlers_, 2)) request.network = network_of(with_memory, 1);
  request.go_on = config_.go_on;
  return request;
}

// The smallest need depends on both keys and on the model. If a tile with its optimizer state is
// the largest part, only a smaller block helps; if one sample is, neither helps.
std::string HandlerPool::SettingsThatFit() const {
  // It is only advice: the search may miss settings that would fit.
  const auto fits = [this](const Training& training) {
    PlanRequest request = RequestFor(training, LargestMemory());
    request.search_share = 0.125;
    request.network.reset();  // what fits does not depend on it
    return MakePlan(request, nullptr).has_value();
  };
  Training smaller = config_.training;
  while (smaller.block > kMinBlock) {
    smaller.block /= 2;
    if (fits(smaller)) return fmt::format("train.block = {}", smaller.block);
  }
  smaller.batch = 1;
  smaller.block = config_.training.block;
  if (fits(smaller)) return "a smaller train.batch, of which 1 fits";
  smaller.block = kMinBlock;
  if (fits(smaller)) return fmt::format("train.block = {} and train.batch = 1", kMinBlock);
  return "";
}

// The largest handlers alone may be faster than all handlers with smaller tasks, or slower. Another
// size than the usual one must be faster by more than the estimate's error.
std::optional<Plan> HandlerPool::BestPlan() {
  const std::vector<MemorySize> sizes = MemorySizes(handlers_);
  const std::size_t usual = UsualSize(sizes);
  std::optional<Plan> best = PlanFor(sizes[usual].bytes);
  double gflops_of_best = GflopsOf(sizes[usual].speed);
  // Returns false if there is no plan for the size.
  const auto attempt = [&](const MemorySize& size) {
    if (best && !BringsMore(LeastUs(size.speed, best->flops), best->step_us)) return true;
    std::optional<Plan> plan = PlanFor(size.bytes);
    if (!plan) return false;
    if (best && !BringsMore(plan->step_us, best->step_us)) return true;
    best = std::move(plan);
    gflops_of_best = GflopsOf(size.speed);
    return true;
  };
  // With less memory, a step is only shorter if handlers that are fast enough take part.
  bool may_fit = best.has_value();
  for (std::size_t i = usual + 1; may_fit && i < sizes.size(); ++i) {
    if (BringsMore(1 / GflopsOf(sizes[i].speed), 1 / gflops_of_best)) may_fit = attempt(sizes[i]);
  }
  for (std::size_t i = usual; i > 0; --i) attempt(sizes[i - 1]);
  const std::uint64_t largest = LargestMemory();
  if (!best && largest > sizes.front().bytes) best = PlanFor(largest);
  return best;
}

std::optional<Plan> HandlerPool::FindPlan() {
  // Memory that was too small for every plan remains too small, whichever handlers join.
  const std::uint64_t largest = LargestMemory();
  if (largest <= hopeless_bytes_) return std::nullopt;
  if (std::optional<Plan> next = BestPlan()) return next;
  hopeless_bytes_ = largest;
  settings_that_fit_.reset();
  return std::nullopt;
}

Plan HandlerPool::Adopt(Plan plan, ManagerActions& out) {
  NameTooSmall(plan.largest_need_bytes, out);
  unfit_since_us_.reset();
  nobody_.is_said = too_small_.is_said = false;
  return plan;
}

HandlerPool::Advice HandlerPool::TryToPlan(const Plan* plan, std::int64_t now_us,
                                           ManagerActions& out) {
  const bool more_expected = static_cast<int>(handlers_.size()) < config_.expected_handlers;
  if (plan == nullptr && more_expected && now_us - started_us_ < kWaitForExpectedUs) {
    SayIfLate(now_us, out);
    return {};
  }
  if (plan == nullptr && MayOthersCome(now_us)) return {};
  if (std::optional<Plan> next = FindPlan()) return Adopt(std::move(*next), out);
  if (smallest_need_bytes_ == UINT64_MAX)
    return GiveUp{WhyNoMemoryIsEnough(config_.model->training)};
  if (config_.fixed_handlers && Awaited().empty()) {
    const Capacity& largest = Largest();
    const std::string settings = SettingsThatFit();
    return GiveUp{fmt::format(
        "the largest task needs {} at its smallest, but handler {} offers {} and no other offers "
        "more: give the handlers more memory{}",
        SizeText(smallest_need_bytes_), largest.name, SizeText(largest.memory_bytes),
        settings.empty() ? kNothingFits : ", or set " + settings)};
  }
  NameTooSmall(smallest_need_bytes_, out);
  SayAllAreTooSmall(now_us, out);
  return {};
}

void HandlerPool::NameTooSmall(std::uint64_t need_bytes, ManagerActions& out) {
  for (std::string& line : small_.Name(handlers_, need_bytes)) out.push_back(Say{std::move(line)});
}

}  // namespace acan
