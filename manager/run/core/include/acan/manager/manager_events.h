// The events and the actions of ManagerCore. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "acan/core/names.h"
#include "acan/manager/audits.h"
#include "acan/manager/expected_handlers.h"
#include "acan/manager/pass_tasks.h"
#include "acan/manager/task_policy.h"
#include "tuplespace/messages.h"

namespace acan {

using UnitId = std::int64_t;

// ---- events ------------------------------------------------------------------------------------

struct HandlersSeen {
  std::map<std::string, Capacity> handlers;  // by client id; all present that may get tasks
  int of_other_jobs = 0;                     // present, but their keys are limited to other jobs
  // With ManagerConfig::fixed_handlers: those that are not there now and will come, or come back.
  std::vector<ExpectedHandler> missing = {};
};
struct ChunkDone {
  UnitId unit = 0;
  std::uint64_t generation = 0;
  std::size_t first = 0;  // the index of its first task in the unit
  std::size_t tasks = 0;
  std::vector<TaskDone> done = {};             // what is known about the tasks
  std::set<tuplespace::ClientId> put_by = {};  // who computed the tasks
  // If tasks are audited: those in done_when, and all those of audited tasks.
  std::vector<SeenResult> results = {};
};
struct VoteDone {
  AuditId audit = 0;
  std::uint64_t generation = 0;
  std::vector<SeenResult> results;
};
// The sums of a unit's passes, in the order of PassTasks::Losses of each pass, followed by
// PassTasks::GradientNorm, if there is one.
struct LossesRead {
  UnitId unit = 0;
  std::uint64_t generation = 0;
  std::vector<std::vector<float>> sums;      // the loss and, for classes, right answers
  std::vector<tuplespace::ClientId> put_by;  // the maker of each
};
struct WeightsReady {
  std::uint64_t generation = 0;
};  // after LoadWeights or MoveTiles
// The requested snapshot is on disk, or could not be written.
struct SnapshotDone {
  std::int64_t version = 0;
  std::int64_t took_us = 0;
  bool written = true;
};
// All tiles of MakeSafe are in the space.
struct VersionSafe {
  std::uint64_t generation = 0;
  std::int64_t version = 0;
};
// A request to stop the run: begin nothing more, save the newest version, and then return
// ReadyToStop. A run whose tasks are all done finishes instead.
struct StopWanted {};
// Results that stayed on a device are lost.
struct ResultsLost {
  std::string why;
};
// A task failed too often on those that may take it, but ManagerCore::MayTakeBackSpares.
struct SparesWanted {
  std::string why;
};
// The tasks of this run that the space has, while none is completed.
struct RunTasksSeen {
  std::uint64_t ready = 0;  // not taken
  std::uint64_t leased = 0;
  std::uint64_t all = 0;  // including those that wait for inputs; fewer after each completion
  // Requests that put tasks, or data for them, and are not answered: they may wait for room.
  std::uint64_t puts_under_way = 0;
};
struct ClockTick {};
using ManagerEvent = std::variant<HandlersSeen, SpaceSeen, RunTasksSeen, ChunkDone, VoteDone,
                                  LossesRead, WeightsReady, SnapshotDone, VersionSafe, StopWanted,
                                  ResultsLost, SparesWanted, ClockTick>;

// ---- actions -----------------------------------------------------------------------------------

struct PutPassData {
  Pass pass;
  std::int64_t first_sample = 0;
  bool test = false;
  std::int64_t epoch = 0;
};
struct PutTasks {
  UnitId unit = 0;
  std::uint64_t generation = 0;
  std::size_t first = 0;  // the index in the unit of the first task; the others follow it
  std::vector<PlannedTask> tasks;
  std::vector<tuplespace::Key> done_when;  // one result of each task, which exists if it is done
  std::vector<std::vector<tuplespace::Key>> audited;  // by task: its results, if it is audited
  std::vector<Work> work;                             // by task
  std::vector<std::int64_t> lease_us;                 // by task
  // How many tasks, in this order, share a ChunkDone; an audited task has its own.
  std::size_t report_every = 1;

  void Reserve(std::size_t count) {
    tasks.reserve(count);
    done_when.reserve(count);
    audited.reserve(count);
    work.reserve(count);
    lease_us.reserve(count);
  }
};
// A task of an audit. VoteDone follows when all its results exist.
struct PutVote {
  std::uint64_t generation = 0;
  AuditVote vote;
  std::int64_t lease_us = 0;
};
// No handler is left that could take this vote: no VoteDone follows.
struct DropVote {
  AuditId audit = 0;
  tuplespace::Key task;
};
// These handlers computed wrong results. Nothing that may depend on their results may be used, so
// this life of the run is over.
struct Quarantine {
  AuditVerdict verdict;
};
struct ReadLosses {
  UnitId unit = 0;
  std::uint64_t generation = 0;
  std::vector<tuplespace::Key> keys;
};
struct LoadWeights {
  std::uint64_t generation = 0;
  std::int64_t version = 0;
  std::vector<TileCell> tiles;
};
// Removes results of a unit that is still in progress.
struct RemoveResults {
  std::vector<tuplespace::Key> keys;
};
// Removes the inputs and results of a step's tasks.
struct RemoveStep {
  std::int64_t step = 0;
  bool tiles = false;  // also the tiles of that version
};
struct RetireThrough {
  std::int64_t step = 0;
};
// The run goes back to `version`: removes all tasks and the results of later steps, forgets open
// requests, and puts the tiles `from` as `to` (if they differ).
struct MoveTiles {
  std::uint64_t generation = 0;
  std::int64_t version = 0;
  std::vector<TileCell> from, to;
};
// Copies into the space those tiles of a version that stay with handlers, a few at a time, in the
// background; VersionSafe follows. They are not removed until then, or until DropCopy.
struct MakeSafe {
  std::uint64_t generation = 0;
  std::int64_t version = 0;
  std::vector<TileCell> tiles;
};
// Cancels the current copying: no VersionSafe follows.
struct DropCopy {};
// Writes the tiles of a version to disk in the background; SnapshotDone follows. The tiles stay in
// the space until then.
struct TakeSnapshot {
  std::int64_t version = 0;
  std::vector<TileCell> tiles;
};
// Cancels the current snapshot: no SnapshotDone follows.
struct DropSnapshot {};
// Handlers that were there and are not any more.
struct LostHandlers {
  std::size_t count = 0;
  std::string last;  // its name and client id
};
// The run makes no progress: report what it waits for.
struct Stalled {
  std::int64_t step = 0;
  double seconds = 0;         // without progress
  std::size_t in_flight = 0;  // tasks of the oldest unit that are not done
  RunTasksSeen tasks;
  LostHandlers lost = {};  // since the last progress
};
// The requested stop: everything that could be saved is saved.
struct ReadyToStop {
  std::int64_t version = 0;        // steps done
  std::int64_t saved_version = 0;  // the newest snapshot's
};
struct StepCommitted {
  std::int64_t step = 0, epoch = 0, rows = 0;
  double loss = 0, learning_rate = 0;
  std::optional<double> gradient_norm;  // before clipping
};
struct Evaluated {
  std::int64_t step = 0, epoch = 0;
  double loss = 0;
  std::optional<double> accuracy;
};
struct Say {
  std::string text;
};
struct GiveUp {
  std::string text;
};  // the job cannot go on
struct AllDone {
  std::vector<TileCell> tiles;
};  // the final weights

// AuditConflict: add it to the receipt.
using ManagerAction =
    std::variant<PutPassData, PutTasks, PutVote, DropVote, Quarantine, AuditConflict, ReadLosses,
                 LoadWeights, RemoveResults, RemoveStep, RetireThrough, MoveTiles, MakeSafe,
                 DropCopy, TakeSnapshot, DropSnapshot, Stalled, ReadyToStop, StepCommitted,
                 Evaluated, Say, GiveUp, AllDone>;
using ManagerActions = std::vector<ManagerAction>;

}  // namespace acan
