#include "acan/manager/handler_pool.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "acan/core/task_limits.h"
#include "acan/core/text/size_text.h"
#include "acan/manager/job.h"
#include "acan/manager/planted.h"
#include "fmt/format.h"

namespace acan {
namespace {

constexpr std::int64_t kWaitForExpectedUs = 10'000'000;
constexpr std::int64_t kSayAfterUs = 2'000'000;  // no handler is there, or none is large enough
constexpr std::int64_t kSayLateUs = 5'000'000;   // expected handlers have not joined
constexpr std::int64_t kSayAgainUs = 30'000'000;
// What has been so for so long is said again, although it was otherwise for a while since.
constexpr std::int64_t kSayAnewUs = 10'000'000;

// Continues the advice to have more memory.
constexpr const char* kNothingFits =
    ", because acan finds no smaller train.block or train.batch that is enough";

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

bool HandlerPool::IsDeserted(std::int64_t now_us) const {
  return present().empty() && unfit_since_us_ && now_us - *unfit_since_us_ >= kSayAfterUs;
}

HandlerPool::Advice HandlerPool::Check(const Plan* plan, std::int64_t now_us, ManagerActions& out) {
  small_.SetTime(now_us);
  spares_.SetTime(now_us);
  if (plan != nullptr) {
    if (Advice advice = WatchSpares(*plan, out); advice.index() != 0) return advice;
    JudgeSpares(*plan, out);
    if (spares_.TakesTasksBack()) return PutAgain{};
  }
  if (plan != nullptr && IsThereFor(*plan)) {
    if (nobody_.is_said || too_small_.is_said)
      out.push_back(Say{"a handler has joined: continuing"});
    nobody_.is_said = too_small_.is_said = false;
    unfit_since_us_.reset();
    NameTooSmall(plan->largest_need_bytes, out);
    return {};
  }
  if (!unfit_since_us_) unfit_since_us_ = now_us;
  if (present().empty()) {
    if (now_us - *unfit_since_us_ >= kSayAfterUs) SayNobodyIsThere(now_us, out);
    return {};
  }
  // A lost handler may return soon, so this waits a moment before cutting anew. If all were lost,
  // the first one to return may be a small one.
  const std::int64_t since_us = std::max(*unfit_since_us_, present_.since_us());
  if (plan != nullptr && now_us - since_us < kSayAfterUs) return {};
  return TryToPlan(plan, now_us, out);
}

void HandlerPool::SayNobodyIsThere(std::int64_t now_us, ManagerActions& out) {
  if (!nobody_.IsDue(now_us, *unfit_since_us_)) return;
  out.push_back(
      Say{fmt::format("{}; waiting for one{}", present_.WhyNobody(),
                      config_.fixed_handlers ? "" : " (start: acan handler --connect ...)")});
}

void HandlerPool::SayAllAreTooSmall(std::int64_t now_us, ManagerActions& out) {
  const std::int64_t since_us = unfit_since_us_.value_or(now_us);
  if (now_us - since_us < kSayAfterUs || !too_small_.IsDue(now_us, since_us)) return;
  std::string awaited;
  if (config_.fixed_handlers) {
    awaited = HandlersText(Awaited());
  } else {
    const std::string& settings = search_.SettingsThatFit(present());
    const std::string again = fmt::format(" (or begin again with {})", settings);
    awaited = "a handler with more memory" + (settings.empty() ? kNothingFits : again);
  }
  const Capacity& largest = Largest();
  out.push_back(Say{fmt::format(
      "{} handlers are too small: the largest task needs {} at its smallest, and {} offers the "
      "most, {}; waiting for {}",
      config_.fixed_handlers ? "the other" : "all", SizeText(search_.smallest_need_bytes()),
      largest.name, SizeText(largest.memory_bytes), awaited)});
}

void HandlerPool::SayIfLate(std::int64_t now_us, ManagerActions& out) {
  if (present_.missing().empty() || now_us - started_us_ < kSayLateUs) return;
  if (!late_.IsDue(now_us, started_us_)) return;
  out.push_back(Say{fmt::format("waiting up to {} s for handlers that have not joined yet: {}",
                                kWaitForExpectedUs / 1'000'000, HandlersText(present_.missing()))});
}

std::string HandlerPool::MissingText() const {
  return present_.missing().empty() ? "" : "; not there: " + HandlersText(present_.missing());
}

std::vector<ExpectedHandler> HandlerPool::Awaited() const {
  std::vector<ExpectedHandler> awaited = present_.missing();
  std::erase_if(awaited, [this](const ExpectedHandler& handler) {
    return handler.limit_bytes < search_.smallest_need_bytes();
  });
  return awaited;
}

HandlerPool::Advice HandlerPool::LeaveOutIdle(const Plan& plan, bool workers_too,
                                              ManagerActions& out) {
  Handlers idle, others;
  for (const auto& handler : present()) {
    const bool could = handler.second.memory_bytes >= plan.largest_need_bytes &&
                       !spares_.ids().contains(handler.first);
    const bool waits = present_.idle().IsWorker(handler.first) &&
                       (!workers_too || IsPlanted(ManagerBug::kWaitsForIdleHandlers));
    const bool is_idle = could && !waits;
    (is_idle ? idle : others).insert(handler);
  }
  // Those that usually work do not, and tasks may exclude others that could do them all.
  if (idle.empty()) return CouldSparesRun(plan) ? TakeBackSpares(plan, out) : Advice{};
  IdleHandlers without = present_.idle();
  without.LeaveOut(idle);
  Handlers of_other_keys = others, all = others;
  std::erase_if(of_other_keys,
                [&](const auto& handler) { return without.IsLeftOut(handler.first); });
  all.insert(present_.left_out().begin(), present_.left_out().end());
  for (const Handlers* rest : {&of_other_keys, &others, &all}) {
    std::optional<Advice> advice = CutFor(*rest, plan, out);
    if (!advice) continue;
    for (const auto& [id, capacity] : idle) {
      out.push_back(
          Say{fmt::format("handler {} ({}) has memory for all tasks but takes none: it does not "
                          "count until it has done one",
                          capacity.name, id)});
    }
    if (rest != &of_other_keys) without.LetCount(*rest);
    present_.LeaveOut(std::move(idle), std::move(without));
    return std::move(*advice);
  }
  return {};
}

bool HandlerPool::CouldSparesRun(const Plan& plan) const {
  return std::ranges::any_of(present(), [&](const auto& handler) {
    return handler.second.memory_bytes >= plan.largest_need_bytes &&
           spares_.excluded().contains(handler.first);
  });
}

bool HandlerPool::ExcludesSome() const {
  return std::ranges::any_of(present(), [this](const auto& handler) {
    return spares_.excluded().contains(handler.first);
  });
}

HandlerPool::Advice HandlerPool::TakeBackSpares(const Plan& plan, ManagerActions& out) {
  if (!ExcludesSome()) return {};
  spares_.Recall();
  std::optional<Plan> next = FindAfter(&plan);
  if (!next) return {};
  return Adopt(std::move(*next), out);
}

// Those that were faster may return. Tasks that need no more than those of the plan before it
// (null: there was none) fit into their memory, too.
std::optional<Plan> HandlerPool::FindAfter(const Plan* plan) {
  if (plan != nullptr && CouldSparesRun(*plan)) {
    std::optional<Plan> next = search_.FindWithin(present(), plan->largest_need_bytes);
    if (next) return next;
  }
  return search_.Find(present());
}

HandlerPool::Advice HandlerPool::CutForVoter(std::uint64_t memory_bytes, ManagerActions& out) {
  std::optional<Plan> plan = search_.FindWithin(present(), memory_bytes);
  if (!plan) return {};
  return Adopt(std::move(*plan), out);
}

// Makes these the handlers that count. Does nothing and returns nullopt if `plan` does not suit
// them and no other one does.
std::optional<HandlerPool::Advice> HandlerPool::CutFor(const Handlers& handlers, const Plan& plan,
                                                       ManagerActions& out) {
  if (handlers.empty()) return std::nullopt;
  Handlers before = present();
  present_.LetCount(handlers);
  if (IsThereFor(plan)) return Advice{};
  if (std::optional<Plan> next = search_.Find(present())) return Adopt(std::move(*next), out);
  present_.LetCount(std::move(before));
  return std::nullopt;
}

const Capacity& HandlerPool::Largest() const {
  const auto largest =
      std::max_element(present().begin(), present().end(), [](const auto& left, const auto& right) {
        return left.second.memory_bytes < right.second.memory_bytes;
      });
  return largest->second;
}

bool HandlerPool::IsThereFor(const Plan& plan) const {
  return std::ranges::any_of(present(), [&](const auto& handler) {
    return handler.second.memory_bytes >= plan.largest_need_bytes &&
           !spares_.excluded().contains(handler.first);
  });
}

HandlerPool::Handlers HandlerPool::WithTasks() const {
  Handlers with_tasks = present();
  std::erase_if(with_tasks,
                [this](const auto& handler) { return spares().contains(handler.first); });
  return with_tasks;
}

void HandlerPool::JudgeSpares(const Plan& plan, ManagerActions& out) {
  if (!config_.limits.LeavesOutSlow()) return;
  const auto step_us = [&](const Handlers& handlers) { return search_.StepUsWith(plan, handlers); };
  for (std::string& line : spares_.Judge(present(), present_.idle().workers(), step_us)) {
    out.push_back(Say{std::move(line)});
  }
}

HandlerPool::Advice HandlerPool::WatchSpares(const Plan& plan, ManagerActions& out) {
  const double steps = static_cast<double>(std::exchange(tasks_done_, 0)) /
                       static_cast<double>(std::max<std::int64_t>(1, plan.tasks_per_step));
  const SpareHandlers::Missed missed = spares_.OnProgress(steps);
  const bool stuck = missed == SpareHandlers::Missed::kStuck;
  if (missed == SpareHandlers::Missed::kNot || (stuck && !ExcludesSome())) return {};
  out.push_back(
      Say{stuck ? "the handlers that get tasks do hardly any: slower ones get them again"
                : "the run is slower than the handlers that get no tasks would be: they get tasks "
                  "again"});
  if (stuck) return TakeBackSpares(plan, out);
  spares_.Recall();
  return {};
}

Plan HandlerPool::Adopt(Plan plan, ManagerActions& out) {
  NameTooSmall(plan.largest_need_bytes, out);
  unfit_since_us_.reset();
  nobody_.is_said = too_small_.is_said = false;
  spares_.OnNewPlan();
  JudgeSpares(plan, out);
  spares_.TakesTasksBack();  // none is put yet
  return plan;
}

HandlerPool::Advice HandlerPool::TryToPlan(const Plan* plan, std::int64_t now_us,
                                           ManagerActions& out) {
  const bool more_expected = static_cast<int>(present().size()) < config_.expected_handlers;
  if (plan == nullptr && more_expected && now_us - started_us_ < kWaitForExpectedUs) {
    SayIfLate(now_us, out);
    return {};
  }
  if (plan == nullptr && present_.MayOthersCome(now_us)) return {};
  if (std::optional<Plan> next = FindAfter(plan)) return Adopt(std::move(*next), out);
  if (search_.smallest_need_bytes() == UINT64_MAX)
    return GiveUp{WhyNoMemoryIsEnough(config_.model->training)};
  if (config_.fixed_handlers && Awaited().empty()) {
    const Capacity& largest = Largest();
    const std::string& settings = search_.SettingsThatFit(present());
    return GiveUp{fmt::format(
        "the largest task needs {} at its smallest, but handler {} offers {} and no other offers "
        "more: give the handlers more memory{}",
        SizeText(search_.smallest_need_bytes()), largest.name, SizeText(largest.memory_bytes),
        settings.empty() ? kNothingFits : ", or set " + settings)};
  }
  NameTooSmall(search_.smallest_need_bytes(), out);
  SayAllAreTooSmall(now_us, out);
  return {};
}

void HandlerPool::NameTooSmall(std::uint64_t need_bytes, ManagerActions& out) {
  for (std::string& line : small_.Name(WithTasks(), need_bytes))
    out.push_back(Say{std::move(line)});
}

}  // namespace acan
