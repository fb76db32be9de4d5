// What managers and handlers tell each other through the space, and the keys for it.
// acan/core/tuple_kinds.h has the layout of all keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "acan/core/device.h"
#include "tuplespace/key.h"

namespace acan {

// A handler whose inputs come over a link keeps those of at least this size for its next tasks.
// Shorter ones are hardly longer than the messages that would announce them.
inline constexpr std::uint64_t kMinHeldBytes = 2 << 10;

// The maximum lengths of the texts of a capacity and a report. A broker with keys refuses longer
// ones. Honest ones are far shorter: a capacity with the most processors takes half of this.
inline constexpr std::size_t kMaxCapacityBytes = 64 << 10;
inline constexpr std::size_t kMaxReportBytes = 4 << 10;

// The limits of Report::speed.
inline constexpr double kMinSpeed = 1.0 / 64, kMaxSpeed = 8;

// What a handler says about itself when it joins.
struct Capacity {
  std::string name;    // for people
  std::string device;  // "cpu:1"
  std::string description;
  std::uint64_t limit_bytes = 0;  // limit of the whole process
  std::uint64_t memory_bytes =
      0;  // the part of the limit that tasks may use: without the device's scratch memory
  int threads = 1;
  double gflops = 0;   // measured with an exact GEMM, when the handler started
  bool exact = false;  // the conformance run passed
  bool fast = false;
  bool own_memory = false;  // the device has its own memory, so results may stay there
  // The handler shares no memory with the broker, so what leaves it crosses a link and results may
  // stay with it.
  bool bytes_travel = false;
  // Only set if bytes_travel: the address of the handler's host on the link (empty: not known), the
  // number of the host's cores (0: not known), the time that a KiB takes to the broker, and the
  // round-trip time of a small message (0: not measured).
  std::string host = {};
  int host_threads = 0;
  std::uint32_t link_ns_per_kib = 0;
  std::uint32_t link_round_trip_us = 0;
  // The machine on which the handler runs, whatever addresses it has there; empty: not known.
  // `cpus` are the processors of the machine that the handler may use, each once. `busy_cpus` is
  // how many of them it keeps busy while it computes: 0 if the device computes by itself, fewer
  // than `threads` if the handler is throttled.
  std::string machine = {};
  std::vector<int> cpus = {};
  double busy_cpus = 0;
  std::string jobs = {};  // it gets only tasks of jobs whose ids have this prefix (set by its key)
  std::string conformance_hash;
  // Not in the text: how fast the device is now, as a multiple of `gflops`. Managers know it from
  // Report::speed.
  double speed = 1;

  bool KeepsResults() const { return own_memory || bytes_travel; }
  friend bool operator==(const Capacity&, const Capacity&) = default;
};
std::string CapacityToJson(const Capacity& capacity);
// nullopt: the text is malformed, longer than kMaxCapacityBytes, or has numbers that no handler can
// have (negative or too large to count). Texts for people are cut to one line, as the handler is
// not trusted.
std::optional<Capacity> CapacityFromJson(const std::string& text);

// A handler's counts so far.
struct Report {
  std::uint64_t tasks = 0;  // completed
  std::uint64_t failed = 0;
  std::uint64_t tile_hits = 0;      // inputs that were already on the device
  std::uint64_t peak_bytes = 0;     // maximum held at once: device memory and waiting inputs
  double busy_s = 0;                // time spent computing
  double gflop = 0;                 // 10^9 operations of completed tasks (core/task.h, Flops)
  std::uint64_t fetched_bytes = 0;  // of inputs that came directly from other handlers
  // How fast the device is now, as a multiple of Capacity::gflops. It changes only when the device
  // has become much slower or faster.
  double speed = 1;
};
std::string ReportToJson(const Report& report);
// nullopt: as CapacityFromJson; the maximum length is kMaxReportBytes.
std::optional<Report> ReportFromJson(const std::string& text);

tuplespace::Key HandlerKey(const std::string& id);
tuplespace::Key ReportKey(const std::string& id, std::int64_t number);
tuplespace::Key LeaderKey(const std::string& job);
tuplespace::Pattern AllLeaders();
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
// Held under a lease by the only handler that measures its link at the moment.
tuplespace::Key ProbeTurnKey();
// A handler must have measured within this time. A client with a handler's key that takes the turn
// and does not give it back keeps it no longer.
inline constexpr std::int64_t kProbeTurnUs = 5'000'000;
// What the space of a broker begins with.
std::vector<tuplespace::Key> FirstTuples();
tuplespace::Pattern ProbesOf(const std::string& id);
tuplespace::Pattern ReportsBefore(const std::string& id, std::int64_t number);

// The tuples of all steps: (run, step, what, ...). Keys of other tuples have a string as the second
// field.
tuplespace::Pattern AllOfSteps();
// Whether it matches the key.
bool IsOfStep(const tuplespace::Key& key);
// The key of a step's tuple without the step: equal for all versions of one tile.
std::string WithoutStep(const tuplespace::Key& key);
// For a step's tuple, the key (run, step): less than all keys of that step, greater than those of
// the run's earlier steps. nullopt for other tuples and for those of kFrozenVersion.
std::optional<tuplespace::Key> StepOf(const tuplespace::Key& key);
// Makes the key of a step's tuple that of the same tuple `steps` steps later. Leaves other keys as
// they are, and those of kFrozenVersion.
void MoveBySteps(std::int64_t steps, tuplespace::Key* key);
// Less than all keys of that run's steps.
tuplespace::Key RunOf(const tuplespace::Key& step);

const char* PrecisionName(Precision precision);

// The tasks of any job that a handler with these precisions can run.
tuplespace::Pattern RunnableTasks(bool exact, bool fast);

}  // namespace acan
