// One seed: a cluster of a broker, managers and handlers that trains a job while everything that
// may go wrong does, and what must hold all the same.
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
  kBreak,  // a connection ends
  kStall,  // one way of a connection
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

// What a run of a job came to, as far as it may not depend on anything but the job.
struct Outcome {
  std::string weights_sha256;
  std::size_t quarantined = 0;       // handlers that were found to be wrong
  std::int64_t audits_skipped = 0;   // results that nobody could check
  std::vector<std::string> metrics;  // of each step and evaluation, in order
};

struct SeedOptions {
  std::uint64_t seed = 0;
  bool hostile = false;            // with a hostile handler, also if the seed draws none
  std::vector<Fault> faults = {};  // that may happen; empty: those that the seed draws
  // Told of everything that happens, with the virtual time in microseconds; may be null.
  std::function<void(std::int64_t now_us, const std::string& line)> trace;
  bool trace_messages = false;  // also of each message to and from the broker
};

// What moved between handlers, and back in time.
struct Moves {
  std::uint64_t fetched = 0;         // payloads, from who held them
  std::uint64_t failed_fetches = 0;  // of these, that came through the broker after all
  std::uint64_t went_back = 0;       // runs, as results were lost with a handler
  std::uint64_t cut_anew = 0;        // steps, for other handlers

  void Add(const Moves& other) {
    fetched += other.fetched;
    failed_fetches += other.failed_fetches;
    went_back += other.went_back;
    cut_anew += other.cut_anew;
  }
};

struct SeedResult {
  std::string violation;  // empty: nothing was found
  std::string options;    // what the seed drew before the start, a line each
  std::size_t job = 0;
  std::int64_t virtual_us = 0;
  std::uint64_t events = 0;
  std::uint64_t trace_hash = 0;
  std::uint64_t requests = 0;
  std::uint64_t conflicts_made = 0;
  std::uint64_t hostile = 0;  // messages of a hostile handler; 0: there was none
  std::size_t quarantined = 0;
  bool unaudited = false;  // the liar was alone at times, so the weights were not compared
  std::array<std::uint64_t, kFaults> faults{};
  Moves moves;
};

// Trains a job without any fault.
Outcome TrainUndisturbed(std::size_t job);
std::size_t JobCount();
// The same, remembered: what every seed of this job has to come to.
const Outcome& ExpectOutcomeOf(std::size_t job);

SeedResult RunSeed(const SeedOptions& options);

}  // namespace acan::simulation
