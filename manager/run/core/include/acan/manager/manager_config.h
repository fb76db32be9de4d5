// ManagerConfig: what a ManagerCore is told when its life begins.
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
  // Steps between two; unset: as SavingIntervalUs says.
  std::optional<std::int64_t> every_steps;
  double past_seconds = 0;  // of the run's earlier lives
  std::int64_t failures = 0;
  std::int64_t saved_version = 0;  // the newest that has a snapshot; 0 needs none
};

struct ManagerConfig {
  std::shared_ptr<const TrainedModel> model;  // REQUIRES: set
  Training training;
  TaskLimits limits;
  std::string run;  // names this run's tuples
  std::int64_t train_samples = 0;
  std::int64_t test_samples = 0;
  // Of a pass, how many rows have a label that counts; -1: all. Unset: all of every pass.
  // REQUIRES: a pure function of the pass' samples.
  std::function<std::int64_t(const PutPassData&)> counted_rows = {};
  bool load_weights = false;                // the weights of first_version come from outside
  std::int64_t first_version = 0;           // steps that an earlier life of the run has done
  std::optional<SnapshotPolicy> snapshots;  // unset: none
  bool knows_links = true;                  // plans are for handlers' links; tasks name handlers
  int expected_handlers = 0;                // wait for so many before planning, for a while
  bool fixed_handlers = false;              // no others will come: do not wait for a larger one
  std::string machine;                      // on which the manager is, as Capacity::machine
  double overhead_us = 0;                   // of a task beside its computing; 0: not measured
  std::uint64_t audit_secret = 0;  // decides which tasks are audited (limits.audit of them)
  std::uint64_t least_removed_bytes = UINT64_MAX;  // of results that go when spent
  // Handlers that were wrong, and keys ("name/") of which many were: no task goes to them.
  std::set<tuplespace::ClientId> quarantined;
  std::int64_t kept_versions = 0;  // so many before the newest stay in the space, whole
  // Called often while a step of the core takes long, as it plans. It must not step the core. What
  // it throws leaves the core's Step, and the core must not be stepped again.
  std::function<void()> go_on = {};

  // Results of so many bytes may stay with handlers. An audit compares bytes, so then none may.
  std::uint64_t LeastResidentBytes() const {
    const bool may = limits.audit == 0 && kept_versions == 0 && limits.resident_steps > 1;
    return may ? least_removed_bytes : UINT64_MAX;
  }
};

}  // namespace acan
