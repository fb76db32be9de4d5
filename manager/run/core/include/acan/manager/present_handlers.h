// PresentHandlers: which handlers are there for a run, by the listings of the space. Pure: no
// clock. Owned by HandlerPool, for its thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "acan/manager/expected_handlers.h"
#include "acan/manager/idle_handlers.h"
#include "acan/manager/manager_config.h"
#include "acan/manager/manager_events.h"

namespace acan {

class PresentHandlers {
 public:
  using Handlers = std::map<std::string, Capacity>;  // by client id

  // `config` must outlive it.
  explicit PresentHandlers(const ManagerConfig& config) : config_(config) {}

  void OnHandlers(const HandlersSeen& event, std::int64_t now_us);
  // The client has completed a task or a vote. If it was left out, the next listing has it.
  void OnResultOf(const tuplespace::ClientId& client) { idle_.OnResultOf(client); }

  // Those that count: they can compute in the job's precision, and are neither quarantined nor left
  // out.
  const Handlers& handlers() const { return handlers_; }
  // Those that could count, but were left out because they were idle.
  const Handlers& left_out() const { return left_out_; }
  const IdleHandlers& idle() const { return idle_; }
  // Until the next listing, only these count.
  void LetCount(Handlers handlers) { handlers_ = std::move(handlers); }
  // These do not count until they have completed a task; `idle` knows that.
  void LeaveOut(Handlers handlers, IdleHandlers idle) {
    idle_ = std::move(idle);
    left_out_.merge(handlers);
  }

  // Since when at least one has been there.
  std::int64_t since_us() const { return since_us_; }
  // Whether more of them, or the measurements of their links, should be waited for: a plan for the
  // first ones alone would stay in force.
  bool MayOthersCome(std::int64_t now_us) const;
  const std::vector<ExpectedHandler>& missing() const { return missing_; }  // HandlersSeen::missing
  // "no handler has joined yet", or that all are gone, or which others are there.
  std::string WhyNobody() const;

 private:
  const ManagerConfig& config_;
  Handlers handlers_, left_out_;
  IdleHandlers idle_;
  std::int64_t since_us_ = 0;
  std::size_t most_ = 0;       // maximum number of handlers_
  std::int64_t grown_us_ = 0;  // when it was reached
  int of_other_jobs_ = 0;      // present, but they may not get tasks of this job
  int unusable_ = 0;           // present, but not exact enough for this job, or quarantined
  std::vector<ExpectedHandler> missing_;
};

}  // namespace acan
