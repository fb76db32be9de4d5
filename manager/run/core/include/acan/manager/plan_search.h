// PlanSearch: seeks the plan with which the handlers present finish a step soonest. Pure: no clock.
// Owned by HandlerPool, for its thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "acan/manager/manager_config.h"
#include "acan/manager/plan.h"

namespace acan {

std::uint64_t LargestMemory(const std::map<std::string, Capacity>& handlers);  // 0 without any

class PlanSearch {
 public:
  using Handlers = std::map<std::string, Capacity>;  // by client id

  // `config` and `model` must outlive it.
  PlanSearch(const ManagerConfig& config, const PlannedModel& model)
      : config_(config), model_(model) {}

  // nullopt: no cuts fit. REQUIRES: `handlers` is not empty.
  std::optional<Plan> Find(const Handlers& handlers);
  // A plan whose tasks need no more than this. It is not sought again if there was none before.
  std::optional<Plan> FindWithin(const Handlers& handlers, std::uint64_t memory_bytes);
  // The estimated time of a step under the plan with these handlers alone; infinite if none of them
  // has memory for all tasks.
  double StepUsWith(const Plan& plan, const Handlers& handlers) const;
  // After Find has found nothing: what the largest task needs at its smallest (UINT64_MAX: more
  // than the space accepts), and the job's settings that fit, like "train.block = 32" (empty: none
  // known).
  std::uint64_t smallest_need_bytes() const { return smallest_need_bytes_; }
  const std::string& SettingsThatFit(const Handlers& handlers);

 private:
  // The handlers for which a plan is sought.
  struct Among {
    const Handlers& handlers;
    bool over_links = false;  // the estimates for all sets of handlers count links, or none does
    bool are_all = false;     // there are no others
  };
  std::optional<Plan> Best(const Among& among);
  std::optional<Plan> ForMemory(const Among& among, std::uint64_t capacity_bytes);
  bool CrossesLinks(const Handlers& handlers) const;
  PlanRequest RequestFor(const Among& among, const Training& training,
                         std::uint64_t capacity_bytes) const;
  std::string SeekSettings(const Handlers& handlers) const;

  const ManagerConfig& config_;
  const PlannedModel& model_;
  std::uint64_t hopeless_bytes_ = 0;         // no plan for so large a largest handler
  std::uint64_t hopeless_within_bytes_ = 0;  // FindWithin found none
  std::uint64_t smallest_need_bytes_ = 0;
  std::optional<std::string> settings_that_fit_;  // nullopt: not sought yet
};

}  // namespace acan
