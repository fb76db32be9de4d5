// CoreDriver: the ManagerCore of a life, and the events queued for it. Events wait until no handler
// of the client is running, because the resulting actions may wait for the client. Events may
// arrive before the core begins. Owned by JobRun, for its thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "acan/manager/manager_core.h"

namespace acan {

class CoreDriver {
 public:
  void Begin(ManagerConfig config) { core_ = std::make_unique<ManagerCore>(std::move(config)); }
  const ManagerCore& core() const { return *core_; }  // REQUIRES: begun
  // Null: there are no audits, or the core has not begun.
  const Audits* audits() const { return core_ && core_->audits() ? &*core_->audits() : nullptr; }

  // Null: there is no plan yet, or the core has not begun.
  const Plan* plan() const { return core_ && core_->plan() ? &*core_->plan() : nullptr; }
  // As ManagerCore's; false: the core has not begun.
  bool MayTakeBackSpares() const { return core_ && core_->MayTakeBackSpares(); }
  // 0: the core has not begun.
  std::int64_t committed_steps() const { return core_ ? core_->committed_steps() : 0; }

  void Post(ManagerEvent event) { events_.push_back(std::move(event)); }
  template <class Event>
  bool Waits() const {
    return std::any_of(events_.begin(), events_.end(), [](const ManagerEvent& event) {
      return std::holds_alternative<Event>(event);
    });
  }

  // REQUIRES for all following functions: begun.
  void PostTickIfDue(std::int64_t now_us) {
    if (now_us >= core_->NextDeadlineUs()) Post(ClockTick{});
  }
  // The core's actions after the next event; nullopt: no event waits.
  std::optional<ManagerActions> Step(std::int64_t now_us) {
    if (events_.empty()) return std::nullopt;
    const ManagerEvent event = std::move(events_.front());
    events_.pop_front();
    return core_->Step(event, now_us);
  }

 private:
  std::unique_ptr<ManagerCore> core_;  // null until Begin
  std::deque<ManagerEvent> events_;
};

}  // namespace acan
