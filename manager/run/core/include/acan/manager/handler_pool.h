// HandlerPool: the handlers present, and the plan for them. Pure: no clock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "acan/manager/expected_handlers.h"
#include "acan/manager/manager_config.h"
#include "acan/manager/manager_events.h"
#include "acan/manager/plan.h"
#include "acan/manager/plan_search.h"
#include "acan/manager/present_handlers.h"
#include "acan/manager/small_handlers.h"
#include "acan/manager/spare_handlers.h"

namespace acan {

class HandlerPool {
 public:
  // `config` must outlive it.
  HandlerPool(const ManagerConfig& config, const PlannedModel& model)
      : config_(config), search_(config, model), present_(config) {}

  using Handlers = std::map<std::string, Capacity>;  // by client id
  // Keep the plan, but put all tasks again: handlers that are too slow hold those of some steps.
  struct PutAgain {};
  // The advice about the plan: keep it, take another one, or end the job.
  using Advice = std::variant<std::monostate, PutAgain, Plan, GiveUp>;

  void Start(std::int64_t now_us) { started_us_ = now_us; }
  void OnHandlers(const HandlersSeen& event, std::int64_t now_us) {
    present_.OnHandlers(event, now_us);
  }
  // Whether `plan` (null: there is none yet) suits the handlers present. Called several times a
  // second. Adds messages to the user to `out`.
  Advice Check(const Plan* plan, std::int64_t now_us, ManagerActions& out);
  // Whether no handler is there, and that is no short absence: Check has reported it.
  bool IsDeserted(std::int64_t now_us) const;
  // Called when the run makes no progress and tasks of `plan` are ready, or are taken and never
  // done. A handler that reports room for the largest task would take any of them, so it may report
  // wrongly: it is left out until it has completed a task, and so are its key's other clients. The
  // others get tasks that fit into their memory. If there is no plan for them, only the idle ones
  // are left out, and if that does not help, those that were left out before count again.
  // `workers_too`: handlers that have completed tasks may be idle, too.
  Advice LeaveOutIdle(const Plan& plan, bool workers_too, ManagerActions& out);
  // Whether tasks of the plan may exclude handlers that are present because they are too slow.
  bool ExcludesSome() const;
  // Cuts anew for all handlers, after `plan`: no task excludes a slow one any more, for a while.
  // Does nothing if none does.
  Advice TakeBackSpares(const Plan& plan, ManagerActions& out);
  // The run waits for another handler's vote, and the largest one that could vote has only so much
  // memory. A plan whose tasks need no more, if there is one.
  Advice CutForVoter(std::uint64_t memory_bytes, ManagerActions& out);

  // Those that count, as PresentHandlers::handlers.
  const Handlers& present() const { return present_.handlers(); }
  // Those of them that get tasks: all but the spares.
  Handlers WithTasks() const;
  // Those that get none: what TaskSpec::not_by has to name.
  const std::set<tuplespace::ClientId>& spares() const { return spares_.ids(); }
  // "; not there: ..." if HandlersSeen::missing named some, otherwise empty.
  std::string MissingText() const;
  // The client has completed a task or a vote.
  void OnResultOf(const tuplespace::ClientId& client) { present_.OnResultOf(client); }
  void OnTasksDone(std::size_t tasks) { tasks_done_ += tasks; }
  // The run waits for votes, for which handlers without tasks may be asked, too.
  void OnWaitForVotes() { spares_.WatchAnew(); }

 private:
  // A message about something that may last.
  struct Said {
    // Whether to say (again) now what has been so since `since_us`. If so, it counts as said.
    bool IsDue(std::int64_t now_us, std::int64_t since_us);

    std::optional<std::int64_t> said_us;  // the last time; unset: never
    bool is_said = false;                 // since it was last otherwise
  };

  // Those missing that may have memory for the smallest tasks. REQUIRES: the search has found none.
  std::vector<ExpectedHandler> Awaited() const;
  const Capacity& Largest() const;  // REQUIRES: a handler is there
  // Whether a handler has memory for the plan's largest task and may take all of its tasks.
  bool IsThereFor(const Plan& plan) const;
  // Whether a handler that the plan's tasks may exclude has memory for the largest of them.
  bool CouldSparesRun(const Plan& plan) const;
  std::optional<Plan> FindAfter(const Plan* plan);
  Plan Adopt(Plan plan, ManagerActions& out);
  void JudgeSpares(const Plan& plan, ManagerActions& out);
  Advice WatchSpares(const Plan& plan, ManagerActions& out);
  std::optional<Advice> CutFor(const Handlers& handlers, const Plan& plan, ManagerActions& out);
  Advice TryToPlan(const Plan* plan, std::int64_t now_us, ManagerActions& out);
  void SayNobodyIsThere(std::int64_t now_us, ManagerActions& out);
  void SayAllAreTooSmall(std::int64_t now_us, ManagerActions& out);
  void SayIfLate(std::int64_t now_us, ManagerActions& out);
  void NameTooSmall(std::uint64_t need_bytes, ManagerActions& out);

  const ManagerConfig& config_;
  PlanSearch search_;
  std::int64_t started_us_ = 0;
  PresentHandlers present_;
  SmallHandlers small_;
  SpareHandlers spares_;                        // of those present
  std::size_t tasks_done_ = 0;                  // since the spares were watched last
  std::optional<std::int64_t> unfit_since_us_;  // nobody is there for the plan
  Said nobody_;                                 // no handler is there
  Said too_small_;                              // no handler is large enough
  Said late_;                                   // expected ones have not joined yet
};

}  // namespace acan
