// HandlerPool: which handlers are there, and how the steps are cut for them. Pure: no clock.
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

  // What should be done about the plan: nothing, take another one, or end the job.
  using Advice = std::variant<std::monostate, Plan, GiveUp>;

  void Start(std::int64_t now_us) { started_us_ = now_us; }
  void OnHandlers(const HandlersSeen& event, std::int64_t now_us);
  // Whether `plan` (null: there is none yet) suits those that are there. Several times a second;
  // what people should know is added to `out`.
  Advice Check(const Plan* plan, std::int64_t now_us, ManagerActions& out);
  // Tasks of `plan` wait for somebody who takes them. Who has room for the largest and never did
  // one may only say that it has: the others get tasks that fit them.
  Advice LeaveOutIdlers(const WorkersSeen& event, const Plan& plan, std::int64_t now_us,
                        ManagerActions& out);

  // By client id: those that can compute in the job's precision, are not quarantined, and are not
  // known to take no task.
  const std::map<std::string, Capacity>& handlers() const { return handlers_; }

 private:
  bool MayOthersCome(std::int64_t now_us) const;
  std::uint64_t LargestMemory() const;  // of a handler
  std::uint64_t PlanningCapacity() const;
  std::optional<Plan> PlanFor(std::uint64_t capacity_bytes);
  PlanRequest RequestFor(const Training& training, std::uint64_t capacity_bytes) const;
  std::string SettingsThatFit() const;  // in words that follow "give the handlers more memory, "
  Advice TryToPlan(const Plan* plan, std::int64_t now_us, ManagerActions& out);
  void SayNobodyIsThere(std::int64_t now_us, ManagerActions& out);
  void NameTooSmall(std::uint64_t need_bytes, ManagerActions& out);

  const ManagerConfig& config_;
  const PlannedModel& model_;
  std::int64_t started_us_ = 0;
  std::size_t most_handlers_ = 0;  // that were there at once
  std::int64_t grown_us_ = 0;      // since when
  std::map<std::string, Capacity> handlers_;
  std::set<tuplespace::ClientId> idlers_;  // could take tasks and never did: not planned with
  std::set<std::string> named_too_small_;
  std::uint64_t hopeless_bytes_ = 0;            // for a largest handler of so much there is no plan
  std::uint64_t smallest_need_bytes_ = 0;       // of the largest task, when that was tried
  std::optional<std::int64_t> unfit_since_us_;  // nobody present can hold the largest task
  std::optional<std::int64_t> said_nobody_at_us_;  // unset: not said since somebody was there
};

}  // namespace acan
