// ManagerCore: cuts the steps anew, and goes back.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "acan/manager/manager_core.h"
#include "acan/manager/planted.h"
#include "fmt/format.h"

namespace acan {
namespace {

constexpr std::int64_t kCheckEveryUs = 250'000;

}  // namespace

void ManagerCore::On(const HandlersSeen& event, std::int64_t now_us, ManagerActions& out) {
  pool_.OnHandlers(event, now_us);
  liveness_.OnHandlers(event.handlers);
  trust_.OnHandlers(pool_.present(), event);
  CheckHandlers(now_us, out);
}

void ManagerCore::On(const ClockTick&, std::int64_t now_us, ManagerActions& out) {
  CheckHandlers(now_us, out);
  CheckProgress(now_us, out);
}

void ManagerCore::On(const SpaceSeen& event, std::int64_t now_us, ManagerActions&) {
  policy_->OnSpace(event, now_us);
}

void ManagerCore::On(const RunTasksSeen& event, std::int64_t now_us, ManagerActions&) {
  liveness_.OnTasks(event, now_us);
}

void ManagerCore::CheckHandlers(std::int64_t now_us, ManagerActions& out) {
  deadline_us_ = now_us + kCheckEveryUs;
  const std::optional<Plan>& plan = cut_.plan();
  if (trust_.HasVotes()) pool_.OnWaitForVotes();
  if (MayPlan()) Follow(pool_.Check(plan ? &*plan : nullptr, now_us, out), out);
  trust_.SetSpares(pool_.spares());
  cut_.SetHandlers(pool_.WithTasks(), now_us);
  policy_->OnHandlers(static_cast<int>(cut_.handlers().size()));
}

void ManagerCore::Follow(HandlerPool::Advice advice, ManagerActions& out) {
  if (auto* plan = std::get_if<Plan>(&advice)) Replan(std::move(*plan), out);
  if (auto* give_up = std::get_if<GiveUp>(&advice)) End(std::move(*give_up), out);
  if (!std::holds_alternative<HandlerPool::PutAgain>(advice)) return;
  out.push_back(Say{fmt::format("the tasks are put again for the faster handlers, from step {} on",
                                versions_.safe)});
  cut_.BeginGeneration();
  GoBack(*cut_.plan(), out);
}

void ManagerCore::CheckProgress(std::int64_t now_us, ManagerActions& out) {
  const bool expects = cut_.plan() && phase_ == Phase::kWorking && !units_.empty();
  if (!expects) {
    liveness_.OnProgress(now_us);
  } else if (pool_.IsDeserted(now_us)) {
    liveness_.OnNobodyThere(now_us);
  }
  const std::string* undecided = trust_.Undecided();
  const Liveness::Advice advice = liveness_.OnTick(now_us, undecided != nullptr);
  if (advice == Liveness::Advice::kNone) return;
  const Unit& unit = units_.front();
  if (liveness_.IsToBeSaid()) {
    if (undecided != nullptr) {
      out.push_back(Say{*undecided + ": still waiting for one" + pool_.MissingText()});
    }
    out.push_back(Stalled{unit.step, liveness_.IdleSeconds(now_us), unit.in_flight,
                          liveness_.tasks(), liveness_.lost()});
  }
  if (advice == Liveness::Advice::kReplan) {
    LeaveOutIdle(now_us, out);
  } else if (advice == Liveness::Advice::kGoBack) {
    out.push_back(
        Say{fmt::format("no task can be taken, and step {} is not finished: going back "
                        "from step {} to step {}",
                        unit.step, versions_.committed, versions_.safe)});
    cut_.BeginGeneration();
    GoBack(*cut_.plan(), out);
  } else if (advice == Liveness::Advice::kGiveUp) {
    End(GiveUp{fmt::format(
            "step {} cannot be finished: {} of its tasks are not done, no task can be taken, and "
            "going back did not help: another client removes tuples of this run, or the broker "
            "lost them; start again with --resume",
            unit.step, unit.in_flight)},
        out);
  } else if (const std::uint64_t voter_bytes = trust_.MemoryOfNewVoters();
             voter_bytes > 0 && liveness_.tasks().leased == 0) {
    // The dispute is forgotten, but who lies again is found.
    Follow(pool_.CutForVoter(voter_bytes, out), out);
  }
}

// While votes are under way, they may be all that is ready, and handlers that may not take them are
// not idle.
void ManagerCore::LeaveOutIdle(std::int64_t now_us, ManagerActions& out) {
  const bool workers_too = liveness_.WaitedForWorkers(now_us);
  if (trust_.HasVotes()) return trust_.LeaveOutSilent(workers_too);
  Follow(pool_.LeaveOutIdle(*cut_.plan(), workers_too, out), out);
}

// The holder no longer has the results, and their successors cannot be computed again, because the
// tasks and inputs of earlier steps are gone. So the run goes back to a version that was on no
// device only.
void ManagerCore::On(const ResultsLost& event, std::int64_t, ManagerActions& out) {
  if (!cut_.plan() || phase_ == Phase::kFinished) return;
  out.push_back(Say{fmt::format("{}: going back from step {} to step {}", event.why,
                                versions_.committed, versions_.safe)});
  safe_.OnLost(versions_.safe);
  cut_.BeginGeneration();
  GoBack(*cut_.plan(), out);
}

void ManagerCore::On(const SparesWanted& event, std::int64_t, ManagerActions& out) {
  if (!cut_.plan() || !MayPlan()) return;
  out.push_back(Say{event.why + ": handlers that were too slow get tasks again"});
  Follow(pool_.TakeBackSpares(*cut_.plan(), out), out);
}

// Starts with the first plan, or goes back to the last safe version and starts from there.
void ManagerCore::Replan(Plan plan, ManagerActions& out) {
  cut_.BeginGeneration();
  const bool anew = cut_.plan().has_value();
  out.push_back(Say{
      fmt::format("{}: {}", anew ? "new plan for the present handlers" : "plan", plan.summary)});
  if (anew) {
    GoBack(std::move(plan), out);
  } else {
    cut_.Set(std::move(plan));
  }
}

void ManagerCore::GoBack(Plan plan, ManagerActions& out) {
  // The tiles of the current snapshot may be cut anew.
  if (snapshots_.Drop()) out.push_back(DropSnapshot{});
  MoveTiles move;
  move.generation = cut_.generation();
  // A handler may still complete a task that it took before. Its results, which have the same
  // names, may then exist before the new task of that name is taken, and that task needs its inputs
  // until then. The last such tasks may belong to an evaluation of the version with which the next
  // step begins.
  versions_.spent_from = std::max(versions_.spent_from, steps_.next + 1);
  if (!IsPlanted(ManagerBug::kGoesBackToUnsafeVersion)) versions_.committed = versions_.safe;
  safe_.GoBackTo(versions_.committed);
  move.version = versions_.committed;
  const bool has_weights = weights_ == Weights::kThere;
  if (has_weights) move.from = cut_.Tiles(move.version);
  cut_.Set(std::move(plan));
  if (has_weights) move.to = cut_.Tiles(move.version);
  units_.Clear();
  policy_->Forget();
  trust_.Forget();
  if (!has_weights) weights_ = Weights::kNone;
  steps_.next = versions_.committed + (IsPlanted(ManagerBug::kReplanSkipsAStep) ? 1 : 0);
  evaluation_.GoBackTo(versions_.committed);
  phase_ = Phase::kMoving;
  out.push_back(std::move(move));
}

void ManagerCore::On(const WeightsReady& event, std::int64_t, ManagerActions&) {
  if (!cut_.IsCurrent(event.generation)) return;
  if (phase_ == Phase::kMoving) {
    phase_ = Phase::kWorking;
  } else if (!units_.empty()) {
    units_.front().loads_weights = false;
  }
}

}  // namespace acan
