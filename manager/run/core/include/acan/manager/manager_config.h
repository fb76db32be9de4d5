// ManagerConfig: the parameters of a ManagerCore for one life.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "acan/core/model.h"
#include "acan/manager/job.h"
#include "acan/manager/manager_events.h"
#include "acan/manager/trained_model.h"
#include "tuplespace/messages.h"

namespace acan {

// When the state of the run is written to disk.
struct SnapshotPolicy {
  // Steps between two snapshots; unset: as SavingIntervalUs says.
  std::optional<std::int64_t> every_steps;
  double past_seconds = 0;         // of the run's earlier lives
  std::int64_t losses = 0;         // in that time
  std::int64_t saved_version = 0;  // the newest version with a snapshot; 0 needs none
};

struct ManagerConfig {
  std::shared_ptr<const TrainedModel> model;  // REQUIRES: set
  Training training;
  TaskLimits limits;
  std::string run;  // the prefix of this run's keys
  std::int64_t train_samples = 0;
  std::int64_t test_samples = 0;
  // The number of rows of a pass whose label counts; -1: all. Unset: all rows of every pass.
  // REQUIRES: a pure function of the pass' samples.
  std::function<std::int64_t(const PutPassData&)> counted_rows = {};
  bool load_weights = false;                // the weights of first_version come from outside
  std::int64_t first_version = 0;           // steps done in earlier lives of the run
  std::optional<SnapshotPolicy> snapshots;  // unset: none
  bool knows_links = true;                  // plans consider links; tasks name handlers
  int expected_handlers = 0;                // wait for this many before planning, for a while
  bool fixed_handlers = false;              // none will come but those in HandlersSeen::missing
  std::string machine;                      // the manager's, as Capacity::machine
  double overhead_us = 0;                   // of a task, besides its computation; 0: not measured
  std::uint64_t audit_secret = 0;  // decides which tasks are audited (limits.audit of them)
  std::uint64_t least_removed_bytes = UINT64_MAX;  // spent results of this size or more are removed
  // Handlers that were wrong, and keys ("name/") with several of them: they get no tasks.
  std::set<tuplespace::ClientId> quarantined;
  std::int64_t kept_versions = 0;  // versions before the newest that stay complete in the space
  // Called often during a long step of the core, such as planning. It must not step the core. If it
  // throws, Step throws the same, and the core must not be stepped again.
  std::function<void()> go_on = {};

  // Results of this size or more may stay with handlers. None may if the job has audits, which
  // compare bytes.
  std::uint64_t LeastResidentBytes() const {
    const bool may = limits.audit == 0 && kept_versions == 0 && limits.resident_steps > 1;
    return may ? least_removed_bytes : UINT64_MAX;
  }
};

}  // namespace acan
