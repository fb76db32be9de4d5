// RunStatistics: which handlers work for a run and how fast, from the reports of handlers and of
// the space; and what is displayed about the run. For one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "acan/manager/manager_events.h"
#include "acan/manager/progress.h"
#include "acan/manager/run_context.h"
#include "acan/manager/run_state.h"
#include "acan/manager/task_policy.h"
#include "acan/manager/tuning.h"
#include "handler_listing.h"
#include "handler_speeds.h"
#include "known_handlers.h"
#include "space_counts.h"
#include "time_left.h"

namespace acan {

class RunStatistics {
 public:
  // `post` queues events for the core. The context must outlive it.
  RunStatistics(RunContext& context, std::function<void(ManagerEvent)> post);

  // This manager leads.
  void Begin(std::int64_t now_us) { begin_us_ = now_us; }
  // Continues the counts of the run's earlier lives.
  void GoOnFrom(const RunState& past);
  double SecondsSinceBegin() const;

  // Queries the space if it is time; the answers arrive while the client polls.
  void LookIfDue();
  // Queries once more at the end. looking() says whether answers are missing.
  void Look();
  bool looking() const { return listing_.busy() || counts_.looking(); }
  LackOfRoom lack_of_room() const;

  void OnTaskDone(const std::string& handler, const Work& work);
  // The progress after a step, of `steps`.
  const Progress& OnStep(const StepCommitted& step, std::int64_t steps);
  const Progress& OnEvaluated(const Evaluated& evaluated);
  void OnNotFinite(std::int64_t step) { progress_.not_finite_step = step; }
  const Progress& progress() const { return progress_; }

  // The state of the policy, at each new pouch and as often as the handlers are queried; nullopt if
  // it is not time. `at_once`: it is time.
  std::optional<Tuning> Tune(const TaskPolicy& policy, std::int64_t step, bool at_once = false);

  const KnownHandlers& handlers() const { return known_; }
  std::int64_t tasks_duplicated() const { return duplicated_; }  // in all lives

 private:
  void OnHandlers(HandlersSeen&& seen);

  RunContext& context_;
  const std::function<void(ManagerEvent)> post_;
  std::int64_t begin_us_ = 0;
  std::int64_t next_list_us_ = 0;
  HandlerListing listing_;
  SpaceCounts counts_;
  KnownHandlers known_;
  HandlerSpeeds speeds_;
  std::deque<std::pair<std::int64_t, std::int64_t>> recent_;  // (time, samples)
  TimeLeft time_left_;
  Progress progress_;
  Tuning tuning_;
  bool tuning_due_ = false;
  std::int64_t duplicated_ = 0;
};

}  // namespace acan
