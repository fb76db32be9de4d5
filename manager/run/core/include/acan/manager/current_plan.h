// CurrentPlan: how a job's steps are cut into tasks at present. Each cut has a generation; so has
// the same cut after the run went back. Answers about tasks of an older generation are ignored.
// Pure. Owned by ManagerCore, for its thread.
#pragma once

#include <algorithm>
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
#include "acan/manager/step_tasks.h"

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
    step_tasks_.Forget();
    named_.Clear();
    Forget();
  }
  // Whether named() need not place the tasks first.
  bool is_placed() const { return placed_.has_value(); }
  // Those that get tasks.
  const std::map<std::string, Capacity>& handlers() const { return handlers_; }
  // Sets the handlers that get tasks, and forgets the placement if it would be another one for
  // them. To be called repeatedly: a change may count only after a while.
  void SetHandlers(const std::map<std::string, Capacity>& handlers, std::int64_t now_us) {
    if (handlers_ != handlers) {
      handlers_ = handlers;
      is_outdated_ = placed_ && *placed_ != ToPlace();
    }
    // Placing the tasks takes time, and a handler may change what it says about itself again and
    // again.
    if (!is_outdated_ || next_us_ - now_us > (kForgottenAtOnce - 1) * kForgottenEveryUs) return;
    next_us_ = std::max(next_us_, now_us) + kForgottenEveryUs;
    Forget();
  }

  // REQUIRES for these: plan().
  PassTasks Tasks() const { return {model_, config_.training, *plan_}; }
  std::vector<PlannedTask> TasksOfStep(const Pass& pass) { return step_tasks_.Make(Tasks(), pass); }
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
  // After some changes in quick succession, the placement is forgotten once in this time.
  static constexpr std::int64_t kForgottenAtOnce = 8;
  static constexpr std::int64_t kForgottenEveryUs = 20'000'000;

  void Forget() {
    placed_.reset();
    is_outdated_ = false;
  }
  // Without that on which no placement depends.
  std::map<std::string, Capacity> ToPlace() const {
    std::map<std::string, Capacity> to_place =
        HandlersToPlace(handlers_, plan_->largest_need_bytes);
    for (auto& [id, capacity] : to_place) {
      for (std::string* text :
           {&capacity.name, &capacity.description, &capacity.jobs, &capacity.conformance_hash}) {
        text->clear();
      }
      capacity.limit_bytes = 0;
    }
    return to_place;
  }

  const ManagerConfig& config_;
  const PlannedModel model_;
  std::optional<Plan> plan_;
  StepTasks step_tasks_;  // of plan_
  std::map<std::string, Capacity> handlers_;
  std::optional<std::map<std::string, Capacity>> placed_;  // those of handlers_ that have tasks
  bool is_outdated_ = false;                               // it would have others by now
  std::int64_t next_us_ = 0;                               // later by each forgetting
  NamedHandlers named_;                                    // of placed_ and plan_
  std::uint64_t generation_ = 0;
};

}  // namespace acan
