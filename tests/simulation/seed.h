// One seed: a cluster of a broker, managers and handlers trains a job while faults happen, and the
// run is checked.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace acan::simulation {

enum class Fault : std::uint8_t {
  kKillHandler,
  kKillManager,
  kKillBroker,
  kKillAll,
  kStopHandler,  // SIGSTOP, for up to several leases
  kStopManager,
  kStopBroker,
  kBreak,  // of a connection
  kStall,  // of one direction of a connection
  kClockJump,
  kDamageSnapshot,
  kDeviceFailure,
  kDeviceLost,
  kHandlerJoins,
  kHandlerLeaves,
  kSecondManager,
  kManagerLeaves,
};
inline constexpr std::size_t kFaults = 17;
const char* NameOf(Fault fault);
std::optional<Fault> FaultOf(std::string_view name);

// The outcome of a run, as far as it may depend only on the job.
struct Outcome {
  std::string weights_sha256;
  std::size_t quarantined = 0;       // handlers that were found to compute wrongly
  std::int64_t audits_skipped = 0;   // results that nobody could check
  std::vector<std::string> metrics;  // one line for each step and evaluation, in order
};

struct SeedOptions {
  std::uint64_t seed = 0;
  bool hostile = false;            // adds a hostile handler, even if the seed draws none
  std::vector<Fault> faults = {};  // that may happen; empty: the seed draws them
  // Gets a line for each event, with the virtual time in microseconds; may be null.
  std::function<void(std::int64_t now_us, const std::string& line)> trace;
  bool trace_messages = false;  // also a line for each message to and from the broker
};

// Payloads that moved between handlers, and runs that went back.
struct Moves {
  std::uint64_t fetched = 0;         // payloads, directly from their holders
  std::uint64_t failed_fetches = 0;  // failed fetches, whose payloads came through the broker
  std::uint64_t went_back = 0;       // runs, because results were lost with a handler
  std::uint64_t cut_anew = 0;        // steps that were cut anew for other handlers

  void Add(const Moves& other) {
    fetched += other.fetched;
    failed_fetches += other.failed_fetches;
    went_back += other.went_back;
    cut_anew += other.cut_anew;
  }
};

struct SeedResult {
  std::string violation;  // empty: none
  std::string options;    // what the seed drew before the start, one option a line
  std::size_t job = 0;
  std::int64_t virtual_us = 0;
  std::uint64_t events = 0;
  std::uint64_t trace_hash = 0;
  std::uint64_t requests = 0;
  std::uint64_t conflicts_made = 0;
  std::uint64_t hostile = 0;          // messages of a hostile handler; 0: none
  std::uint64_t hostile_manager = 0;  // messages of a hostile manager; 0: none
  std::size_t quarantined = 0;
  bool unaudited = false;  // the liar was alone at times, so weights were not compared
  std::array<std::uint64_t, kFaults> faults{};
  Moves moves;
};

// Trains a job without faults.
Outcome TrainUndisturbed(std::size_t job);
std::size_t JobCount();
// The same, cached: the outcome that every seed of this job must have.
const Outcome& ExpectOutcomeOf(std::size_t job);

SeedResult RunSeed(const SeedOptions& options);

}  // namespace acan::simulation
