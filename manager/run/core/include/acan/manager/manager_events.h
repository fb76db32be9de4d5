// What ManagerCore is told, and what it asks for. Plain values.
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
#include "acan/manager/pass_tasks.h"
#include "acan/manager/task_policy.h"
#include "tuplespace/messages.h"

namespace acan {

using UnitId = std::int64_t;

// ---- events ------------------------------------------------------------------------------------

struct HandlersSeen {
  std::map<std::string, Capacity> handlers;
};  // by client id; all present
struct ChunkDone {
  UnitId unit = 0;
  std::uint64_t generation = 0;
  std::size_t first = 0;  // its first task's place in the unit
  std::size_t tasks = 0;
  std::vector<TaskDone> done = {};       // what is known of them
  std::vector<SeenResult> results = {};  // of those of done_when and audited
};
struct VoteDone {
  AuditId audit = 0;
  std::uint64_t generation = 0;
  std::vector<SeenResult> results;
};
// Sums of a unit's passes, in the order of PassTasks::Losses of each pass; the last one is that of
// PassTasks::GradientNorm, if there is one.
struct LossesRead {
  UnitId unit = 0;
  std::uint64_t generation = 0;
  std::vector<std::vector<float>> sums;      // of a loss and, for classes, right answers
  std::vector<tuplespace::ClientId> put_by;  // of each
};
struct WeightsReady {
  std::uint64_t generation = 0;
};  // after LoadWeights or MoveTiles
// The snapshot that was asked for is on disk, or could not be written.
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
// Somebody wants the run to stop: nothing is begun any more, the newest version is saved, and then
// ReadyToStop comes. A run whose tasks are all done finishes instead.
struct StopWanted {};
// Results that stayed on a device are gone.
struct ResultsLost {
  std::string why;
};
// Answers Stalled: who has done a task since this manager leads.
struct WorkersSeen {
  std::set<tuplespace::ClientId> workers;
};
struct ClockTick {};
using ManagerEvent =
    std::variant<HandlersSeen, SpaceSeen, ChunkDone, VoteDone, LossesRead, WeightsReady,
                 SnapshotDone, VersionSafe, StopWanted, ResultsLost, WorkersSeen, ClockTick>;

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
  std::size_t first = 0;  // place in the unit of the first task; the others follow it
  std::vector<PlannedTask> tasks;
  std::vector<tuplespace::Key> done_when;  // one result of each task: those that are there are done
  std::vector<std::vector<tuplespace::Key>> audited;  // of each task: its results, if it is audited
  std::vector<Work> work;                             // of each task
  std::vector<std::int64_t> lease_us;                 // of each task
  // A ChunkDone for so many tasks, in this order; an audited one has a ChunkDone of its own.
  std::size_t report_every = 1;
};
// A task of an audit: when all its results are there, VoteDone.
struct PutVote {
  std::uint64_t generation = 0;
  AuditVote vote;
  std::int64_t lease_us = 0;
};
// Nobody is left who could take it: no VoteDone.
struct DropVote {
  AuditId audit = 0;
  tuplespace::Key task;
};
// These handlers computed wrong results. Whatever may be made of any result of theirs must not be
// used: this life of the run is over.
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
// Of a unit that goes on.
struct RemoveResults {
  std::vector<tuplespace::Key> keys;
};
// All that the tasks of a step made for each other, and what they were given.
struct RemoveStep {
  std::int64_t step = 0;
  bool tiles = false;  // the tiles of that version as well
};
struct RetireThrough {
  std::int64_t step = 0;
};
// The run goes back to `version`: tasks and all that was made of later steps is removed, open
// requests are forgotten, and the tiles `from` are put as `to` (if they differ).
struct MoveTiles {
  std::uint64_t generation = 0;
  std::int64_t version = 0;
  std::vector<TileCell> from, to;
};
// Has the tiles of a version copied into the space that stay with handlers, a few at a time, beside
// everything else; then VersionSafe. They are not removed until then, or until it is dropped.
struct MakeSafe {
  std::uint64_t generation = 0;
  std::int64_t version = 0;
  std::vector<TileCell> tiles;
};
// The copying under way is not wanted any more: no VersionSafe.
struct DropCopy {};
// Writes the tiles of a version to disk, beside everything else; then SnapshotDone. The tiles stay
// in the space until then.
struct TakeSnapshot {
  std::int64_t version = 0;
  std::vector<TileCell> tiles;
};
// The snapshot under way is not wanted any more: no SnapshotDone.
struct DropSnapshot {};
// The run makes no progress: somebody should hear what it waits for. Answered by WorkersSeen if
// `asks_who_works`.
struct Stalled {
  std::int64_t step = 0;
  double seconds = 0;         // without progress
  std::size_t in_flight = 0;  // tasks of the oldest unit that are not done
  SpaceSeen space;
  bool asks_who_works = false;
};
// What could be saved before the stop that was asked for is saved.
struct ReadyToStop {
  std::int64_t version = 0;        // the steps that are done
  std::int64_t saved_version = 0;  // those that the newest snapshot has
};
struct StepCommitted {
  std::int64_t step = 0, epoch = 0, rows = 0;
  double loss = 0, learning_rate = 0;
  std::optional<double> gradient_norm;  // before it was clipped
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

using ManagerAction = std::variant<PutPassData, PutTasks, PutVote, DropVote, Quarantine, ReadLosses,
                                   LoadWeights, RemoveResults, RemoveStep, RetireThrough, MoveTiles,
                                   MakeSafe, DropCopy, TakeSnapshot, DropSnapshot, Stalled,
                                   ReadyToStop, StepCommitted, Evaluated, Say, GiveUp, AllDone>;
using ManagerActions = std::vector<ManagerAction>;

}  // namespace acan
