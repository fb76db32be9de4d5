// What managers and handlers tell each other through the space, and the keys of it.
// acan/core/tuple_kinds.h has the layout of all keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "acan/core/device.h"
#include "tuplespace/key.h"

namespace acan {

// A handler to which inputs come over a link keeps those of so many bytes for its next tasks.
// Shorter ones are hardly longer than the messages that would say so.
inline constexpr std::uint64_t kLeastHeldBytes = 2 << 10;

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
  // No memory is shared with the broker: what leaves the handler crosses a link. So results may
  // stay.
  bool bytes_travel = false;
  // Where bytes travel: the address of the handler's host on the link; empty: not known. The cores
  // of that host, 0: not known. What a KiB takes to the broker, and a small message there and back;
  // 0: not measured.
  std::string host = {};
  int host_threads = 0;
  std::uint32_t link_ns_per_kib = 0;
  std::uint32_t link_round_trip_us = 0;
  // The machine that it runs on, whatever its addresses are there; empty: not known. `cpus`: those
  // of the machine's processors that it may use, none twice. `busy_cpus`: how many of them it keeps
  // busy while it computes: 0 where a device computes by itself, less than `threads` where the
  // handler is throttled.
  std::string machine = {};
  std::vector<int> cpus = {};
  double busy_cpus = 0;
  bool KeepsResults() const { return own_memory || bytes_travel; }
  std::string jobs = {};  // it gets tasks only of jobs whose ids begin so (its key says so)
  std::string conformance_hash;
  friend bool operator==(const Capacity&, const Capacity&) = default;
};
std::string CapacityToJson(const Capacity& capacity);
// nullopt: malformed, of more than 64 KiB, or with numbers that no handler has (below 0, or beyond
// what can be counted). Of texts for people what fits into a line is kept: a handler may be
// anybody.
std::optional<Capacity> CapacityFromJson(const std::string& text);

// A handler's counts so far.
struct Report {
  std::uint64_t tasks = 0, failed = 0, tile_hits = 0, peak_bytes = 0;
  double busy_s = 0;
  double gflop = 0;                 // 10^9 operations of completed tasks (core/task.h, Flops)
  std::uint64_t fetched_bytes = 0;  // of inputs that came from other handlers themselves
};
std::string ReportToJson(const Report& report);
std::optional<Report> ReportFromJson(const std::string& text);  // nullopt: as of a capacity

tuplespace::Key HandlerKey(const std::string& id);
tuplespace::Key ReportKey(const std::string& id, std::int64_t number);
tuplespace::Key LeaderKey(const std::string& job);
tuplespace::Key DoneKey(const std::string& job);
tuplespace::Key StandbyKey(const std::string& job, const std::string& id);
tuplespace::Pattern AllStandbys(const std::string& job);
tuplespace::Key RunKey(const std::string& job, const std::string& run);
tuplespace::Pattern AllRuns(const std::string& job);
tuplespace::Key QuarantineKey(const std::string& job, const std::string& id);
tuplespace::Pattern QuarantinedIn(const std::string& job);
tuplespace::Key ProbeKey(const std::string& id, std::int64_t number);
tuplespace::Pattern AllHandlers();
tuplespace::Pattern AllReports();
tuplespace::Pattern AllProbes();
tuplespace::Pattern ProbesOf(const std::string& id);
tuplespace::Pattern ReportsBefore(const std::string& id, std::int64_t number);

// What a step's tuple is, apart from the step: equal for all versions of one tile.
std::string WithoutStep(const tuplespace::Key& key);
// Of a step's tuple, the run and the step: less than all keys of that step, greater than those of
// the run's earlier ones. None for other tuples, nor for those of kFrozenVersion.
std::optional<tuplespace::Key> StepOf(const tuplespace::Key& key);
// The same tuple of the step after. REQUIRES: StepOf(key).
tuplespace::Key InNextStep(const tuplespace::Key& key);
// Less than all keys of the steps of that run.
tuplespace::Key RunOf(const tuplespace::Key& step);

const char* PrecisionName(Precision precision);

// The tasks of any job that a handler can run.
tuplespace::Pattern RunnableTasks(bool exact, bool fast);

}  // namespace acan
