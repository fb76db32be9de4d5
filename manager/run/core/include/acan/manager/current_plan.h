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

#include "acan/manager/handler_network.h"
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
    placed_.reset();
  }
  // Whether named() need not place the tasks first.
  bool is_placed() const { return placed_.has_value(); }
  // Sets the handlers present, and forgets the placement if it would have others.
  void SetHandlers(const std::map<std::string, Capacity>& handlers) {
    if (handlers_ == handlers) return;
    handlers_ = handlers;
    if (placed_ && *placed_ != ToPlace()) placed_.reset();
  }

  // REQUIRES for both: plan().
  PassTasks Tasks() const { return {model_, config_.training, *plan_}; }
  std::vector<TileCell> Tiles(std::int64_t version) const {
    return Tasks().Tiles(config_.run, version);
  }
  // The handlers that should get each task. REQUIRES: plan().
  const NamedHandlers& named() {
    if (config_.knows_links && !placed_) {
      placed_ = ToPlace();
      Pass pass;
      pass.job = config_.run;
      pass.rows = plan_->batch;
      named_.Find(*placed_, handlers_.size(), config_, Tasks().Tasks(pass));
    }
    return named_;
  }
  std::optional<std::string> TakeNote() { return named_.TakeNote(); }

 private:
  std::map<std::string, Capacity> ToPlace() const {
    return HandlersToPlace(handlers_, plan_->largest_need_bytes);
  }

  const ManagerConfig& config_;
  const PlannedModel model_;
  std::optional<Plan> plan_;
  std::map<std::string, Capacity> handlers_;
  std::optional<std::map<std::string, Capacity>> placed_;  // those of handlers_ that have tasks
  NamedHandlers named_;                                    // of placed_ and plan_
  std::uint64_t generation_ = 0;
};

}  // namespace acan
