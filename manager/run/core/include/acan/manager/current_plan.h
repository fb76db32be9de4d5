// CurrentPlan: how a job's steps are cut into tasks at present. Each cut has a generation; so has
// the same cut after the run went back. Answers about tasks of an older generation are ignored.
// Pure. Owned by ManagerCore, for its thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "acan/manager/manager_config.h"
#include "acan/manager/named_handlers.h"
#include "acan/manager/pass_tasks.h"
#include "acan/manager/plan.h"

namespace acan {

class CurrentPlan {
 public:
  // `config` must outlive it.
  explicit CurrentPlan(const ManagerConfig& config)
      : config_(config), model_(LowerModel(config.model)) {}
  CurrentPlan(const CurrentPlan&) = delete;
  CurrentPlan& operator=(const CurrentPlan&) = delete;

  const PlannedModel& model() const { return model_; }
  const std::optional<Plan>& plan() const { return plan_; }  // unset: there is no plan yet
  std::uint64_t generation() const { return generation_; }
  bool IsCurrent(std::uint64_t generation) const { return generation == generation_; }

  // From now on, answers about earlier tasks are ignored.
  void BeginGeneration() { ++generation_; }
  void Set(Plan plan) {
    plan_ = std::move(plan);
    named_.Clear();
    is_placed_ = false;
  }
  // Sets the handlers present, and forgets the placement if they have changed.
  void SetHandlers(const std::map<std::string, Capacity>& handlers) {
    if (handlers_ == handlers) return;
    handlers_ = handlers;
    is_placed_ = false;
  }

  // REQUIRES for both: plan().
  PassTasks Tasks() const { return {model_, config_.training, *plan_}; }
  std::vector<TileCell> Tiles(std::int64_t version) const {
    return Tasks().Tiles(config_.run, version);
  }
  // The handlers that should get each task. REQUIRES: plan().
  const NamedHandlers& named() {
    if (config_.knows_links && !is_placed_) {
      Pass pass;
      pass.job = config_.run;
      pass.rows = plan_->batch;
      named_.Find(handlers_, config_, Tasks().Tasks(pass));
      is_placed_ = true;
    }
    return named_;
  }
  std::optional<std::string> TakeNote() { return named_.TakeNote(); }

 private:
  const ManagerConfig& config_;
  const PlannedModel model_;
  std::optional<Plan> plan_;
  std::map<std::string, Capacity> handlers_;
  NamedHandlers named_;  // of handlers_ and plan_
  bool is_placed_ = false;
  std::uint64_t generation_ = 0;
};

}  // namespace acan
