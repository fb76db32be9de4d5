// The tuples that managers and handlers agree on. A step's tuples are (job, step, what, ...), so
// that one retire watermark sweeps everything that a finished step leaves behind.
//
//   (job, step, "task", precision, kind, batch, layer, b0, b1, o0, o1, i0, i1)    a task
//   (job, step, "act" | "pre" | "delta" | "part" | "grad" | ..., ...)             what tasks make
//   (job, version, "tile", tensor, o0, o1, i0, i1)                                weights;
//   "state0", ...
//   ("handler", id)          a handler's capacity; there as long as the handler is connected
//   ("report", id, number)   a handler's counts so far
//   ("leader", job)          held under a lease by the job's manager
//   ("done", job)            the receipt of its last finished run, for managers that stand by
//   ("standby", job, id)     a manager that waits for the lead
//   ("metrics", job, run, step, steps)  lines of metrics.jsonl, for a manager of another host
//   ("quarantine", job, id)  a handler that computed a wrong result, and gets no task of this job
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "acan/core/device.h"
#include "tuplespace/key.h"

namespace acan {

// What a handler says of itself when it joins.
struct Capacity {
  std::string name;    // for people
  std::string device;  // "cpu:1"
  std::string description;
  std::uint64_t limit_bytes = 0;   // of the process
  std::uint64_t memory_bytes = 0;  // of it, what tasks may use: the device's scratch is taken off
  int threads = 1;
  double gflops = 0;   // measured, exact GEMM
  bool exact = false;  // the conformance run passed
  bool fast = false;
  bool own_memory = false;  // of the device: results may stay there
  std::string jobs = {};    // it gets tasks only of jobs whose ids begin so (its key says so)
  std::string conformance_hash;
};
std::string CapacityToJson(const Capacity& capacity);
// nullopt: malformed, or with numbers that no handler has (below 0, or beyond what can be counted).
// Of texts for people what fits into a line is kept: a handler may be anybody.
std::optional<Capacity> CapacityFromJson(const std::string& text);

// A handler's counts so far.
struct Report {
  std::uint64_t tasks = 0, failed = 0, tile_hits = 0, peak_bytes = 0;
  double busy_s = 0;
  double gflop = 0;  // 10^9 operations of completed tasks (core/task.h, Flops)
};
std::string ReportToJson(const Report& report);
std::optional<Report> ReportFromJson(const std::string& text);  // nullopt: as of a capacity

tuplespace::Key HandlerKey(const std::string& id);
tuplespace::Key ReportKey(const std::string& id, std::int64_t number);
tuplespace::Key LeaderKey(const std::string& job);
tuplespace::Key DoneKey(const std::string& job);
tuplespace::Key StandbyKey(const std::string& job, const std::string& id);
tuplespace::Pattern AllStandbys(const std::string& job);
tuplespace::Key QuarantineKey(const std::string& job, const std::string& id);
tuplespace::Pattern QuarantinedIn(const std::string& job);
tuplespace::Pattern AllHandlers();
tuplespace::Pattern AllReports();
tuplespace::Pattern ReportsBefore(const std::string& id, std::int64_t number);

// What a step's tuple is, apart from the step: equal for all versions of one tile.
std::string WithoutStep(const tuplespace::Key& key);
// Of a step's tuple, the run and the step: less than all keys of that step, greater than those of
// the run's earlier ones. None for other tuples.
std::optional<tuplespace::Key> StepOf(const tuplespace::Key& key);
// Less than all keys of the steps of that run.
tuplespace::Key RunOf(const tuplespace::Key& step);

const char* PrecisionName(Precision precision);

// The tasks of any job that a handler can run.
tuplespace::Pattern RunnableTasks(bool exact, bool fast);

}  // namespace acan
