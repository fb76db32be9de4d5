// HandlerPool: the handlers present, and the plan for them. Pure: no clock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>

#include "acan/manager/manager_config.h"
#include "acan/manager/manager_events.h"
#include "acan/manager/plan.h"

namespace acan {

class HandlerPool {
 public:
  // `config` must outlive it.
  HandlerPool(const ManagerConfig& config, const PlannedModel& model)
      : config_(config), model_(model) {}

  // The advice about the plan: keep it, take another one, or end the job.
  using Advice = std::variant<std::monostate, Plan, GiveUp>;

  void Start(std::int64_t now_us) { started_us_ = now_us; }
  void OnHandlers(const HandlersSeen& event, std::int64_t now_us);
  // Whether `plan` (null: there is none yet) suits the handlers present. Called several times a
  // second. Adds messages to the user to `out`.
  Advice Check(const Plan* plan, std::int64_t now_us, ManagerActions& out);
  // Called when tasks of `plan` wait and no handler takes them. A handler that reports room for the
  // largest task, but has never done a task, may report wrongly: it is left out, and the others get
  // tasks that fit into their memory.
  Advice LeaveOutIdlers(const WorkersSeen& event, const Plan& plan, std::int64_t now_us,
                        ManagerActions& out);

  // By client id: the handlers that can compute in the job's precision, are not quarantined, and
  // are not known to take no tasks.
  const std::map<std::string, Capacity>& handlers() const { return handlers_; }
  // One that was left out because it did no task does some now: the next listing has it.
  void OnResultOf(const tuplespace::ClientId& client) { idlers_.erase(client); }

 private:
  bool MayOthersCome(std::int64_t now_us) const;
  std::uint64_t LargestMemory() const;  // of a handler
  std::uint64_t PlanningCapacity() const;
  std::optional<Plan> PlanFor(std::uint64_t capacity_bytes);
  PlanRequest RequestFor(const Training& training, std::uint64_t capacity_bytes) const;
  std::string SettingsThatFit() const;  // continues "give the handlers more memory, "
  Advice TryToPlan(const Plan* plan, std::int64_t now_us, ManagerActions& out);
  void SayNobodyIsThere(std::int64_t now_us, ManagerActions& out);
  void SayAllAreTooSmall(std::int64_t now_us, ManagerActions& out);
  void NameTooSmall(std::uint64_t need_bytes, ManagerActions& out);

  const ManagerConfig& config_;
  const PlannedModel& model_;
  std::int64_t started_us_ = 0;
  std::size_t most_handlers_ = 0;  // maximum number present at once
  std::int64_t grown_us_ = 0;      // when it was reached
  std::map<std::string, Capacity> handlers_;
  std::set<tuplespace::ClientId> idlers_;  // could take tasks and never did: left out of plans
  int of_other_jobs_ = 0;                  // present, but they may not get tasks of this job
  int unusable_ = 0;  // present, but not exact enough for this job, or quarantined
  std::set<std::string> named_too_small_;
  std::uint64_t hopeless_bytes_ = 0;                  // no plan for so large a largest handler
  std::uint64_t smallest_need_bytes_ = 0;             // of the largest task, in that attempt
  std::string settings_that_fit_;                     // after that attempt; empty: not sought yet
  std::optional<std::int64_t> unfit_since_us_;        // nobody present can hold the largest task
  std::optional<std::int64_t> said_nobody_at_us_;     // unset: not said since a handler was there
  std::optional<std::int64_t> said_too_small_at_us_;  // unset: not said since one was large enough
};

}  // namespace acan
