// acan_simulate: runs seeds of the simulated cluster.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "flags.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "planted/planted_names.h"
#include "scenarios/scenarios.h"
#include "seed.h"

namespace acan::simulation {
namespace {

volatile std::sig_atomic_t stop_signal = 0;

struct Flags {
  std::uint64_t seed = 1;
  std::uint64_t count = 1;
  bool trace = false;
  bool messages = false;
  bool options = false;
  bool keep_going = false;
  bool hostile = false;
  double seconds = 0;
  std::string planted;
  std::vector<std::string> faults;
  std::string scenario;
  bool scenarios = false;
};

void ListScenarios() {
  for (const Scenario& each : kScenarios) {
    fmt::print("{:<34} {:>9}  {}\n", each.name, each.seed, each.found);
  }
}

// Throws if there is no scenario of this name.
const Scenario& ScenarioOf(const std::string& name) {
  for (const Scenario& each : kScenarios) {
    if (name == each.name) return each;
  }
  throw std::invalid_argument(
      fmt::format("--scenario {}: there is none of this name, see --scenarios", name));
}

// Throws if there is no fault of this name.
Fault KnownFault(const std::string& name) {
  if (const std::optional<Fault> fault = FaultOf(name)) return *fault;
  std::string names;
  for (std::size_t i = 0; i < kFaults; ++i) {
    names += fmt::format("{} {}", i == 0 ? "" : ",", NameOf(static_cast<Fault>(i)));
  }
  throw std::invalid_argument(fmt::format("--fault {}: must be one of{}", name, names));
}

// Throws if there is no bug of this name.
void Plant(const std::string& name) {
  for (std::size_t job = 0; job < JobCount(); ++job) ExpectOutcomeOf(job);  // before it is planted
  for (const PlantedName& each : kPlantedNames) {
    if (name == each.name) {
      Plant(each);
      return;
    }
  }
  std::string names;
  for (const PlantedName& each : kPlantedNames) names += fmt::format(" {}", each.name);
  throw std::invalid_argument(fmt::format("--plant {}: must be one of{}", name, names));
}

struct Totals {
  std::uint64_t seeds = 0, findings = 0, requests = 0, events = 0, conflicts = 0, quarantined = 0;
  std::uint64_t unaudited = 0, hostile = 0, hostile_managers = 0;  // seeds
  std::uint64_t hostile_messages = 0;
  double virtual_s = 0;
  Moves moves;
  std::array<std::uint64_t, kFaults> faults{};

  void Add(const SeedResult& result) {
    ++seeds;
    findings += result.violation.empty() ? 0 : 1;
    requests += result.requests;
    events += result.events;
    conflicts += result.conflicts_made;
    quarantined += result.quarantined;
    unaudited += result.unaudited ? 1 : 0;
    hostile += result.hostile > 0 ? 1 : 0;
    hostile_managers += result.hostile_manager > 0 ? 1 : 0;
    hostile_messages += result.hostile;
    virtual_s += static_cast<double>(result.virtual_us) * 1e-6;
    moves.Add(result.moves);
    for (std::size_t i = 0; i < kFaults; ++i) faults[i] += result.faults[i];
  }
};

nlohmann::json ToJson(const Totals& totals, std::uint64_t first, double wall_s) {
  nlohmann::json faults;
  for (std::size_t i = 0; i < kFaults; ++i)
    faults[NameOf(static_cast<Fault>(i))] = totals.faults[i];
  return {{"first_seed", first},
          {"seeds", totals.seeds},
          {"findings", totals.findings},
          {"simulated_s", totals.virtual_s},
          {"requests", totals.requests},
          {"events", totals.events},
          {"lies_told", totals.conflicts},
          {"quarantined", totals.quarantined},
          {"unaudited", totals.unaudited},
          {"hostile_seeds", totals.hostile},
          {"hostile_manager_seeds", totals.hostile_managers},
          {"hostile_messages", totals.hostile_messages},
          {"fetched", totals.moves.fetched},
          {"failed_fetches", totals.moves.failed_fetches},
          {"went_back", totals.moves.went_back},
          {"cut_anew", totals.moves.cut_anew},
          {"faults", faults},
          {"wall_s", wall_s}};
}

// The other flags on which a seed's history depends.
std::string Others(const Flags& flags) {
  std::string text = flags.planted.empty() ? "" : " --plant " + flags.planted;
  if (flags.hostile) text += " --hostile";
  for (const std::string& fault : flags.faults) text += fmt::format(" --fault '{}'", fault);
  return text;
}

int Simulate(const Flags& flags) {
  const auto begin = std::chrono::steady_clock::now();
  const auto wall_s = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  if (!flags.planted.empty()) Plant(flags.planted);
  std::vector<Fault> faults;
  for (const std::string& name : flags.faults) faults.push_back(KnownFault(name));
  Totals totals;
  for (std::uint64_t i = 0; i < flags.count; ++i) {
    if (flags.seconds > 0 && wall_s() > flags.seconds) break;
    if (stop_signal != 0) break;
    SeedOptions options{.seed = flags.seed + i, .trace = {}};
    options.hostile = flags.hostile;
    options.faults = faults;
    options.trace_messages = flags.messages;
    if (flags.trace || flags.messages) {
      options.trace = [](std::int64_t now_us, const std::string& line) {
        fmt::print("{:>12.6f} {}\n", static_cast<double>(now_us) * 1e-6, line);
      };
    }
    const SeedResult result = RunSeed(options);
    totals.Add(result);
    if (flags.options) fmt::print("{}", result.options);
    if (flags.trace) fmt::print("trace {:016x}\n", result.trace_hash);
    if (result.violation.empty()) continue;
    fmt::print("{}  found      {}\n  again      acan_simulate --seed {}{} --trace\n",
               result.options, result.violation, options.seed, Others(flags));
    std::fflush(stdout);
    if (!flags.keep_going) break;
  }
  fmt::print("{}\n", ToJson(totals, flags.seed, wall_s()).dump());
  if (stop_signal != 0) return 128 + stop_signal;
  return totals.findings == 0 ? 0 : 1;
}

}  // namespace
}  // namespace acan::simulation

int main(int argc, char** argv) {
  acan::simulation::Flags flags;
  acan::cli::CommandLine line(
      "Trains tiny jobs on simulated clusters in which everything goes wrong");
  acan::cli::Command& program = line.program();
  const acan::cli::Flag seed = program.AddOption("--seed", flags.seed, "the first seed");
  program.AddOption("--scenario", flags.scenario, "the seed of this scenario").Excludes(seed);
  program.AddFlag("--scenarios", flags.scenarios,
                  "list the scenarios: seeds that once found something");
  program.AddOption("--count", flags.count, "how many seeds");
  program
      .AddOption("--seconds", flags.seconds, "stop after so many seconds of real time; 0: do not")
      .Between(0.0, 1e9);
  program.AddOption("--plant", flags.planted, "with a bug of this name");
  program.AddFlag("--hostile", flags.hostile,
                  "with a hostile handler in every seed, not only in those that draw one");
  program.AddOption(
      "--fault", flags.faults,
      "only faults of this kind happen, not those that a seed draws; may be repeated");
  program.AddFlag("--trace", flags.trace, "print what happens, with the virtual time in seconds");
  program.AddFlag("--messages", flags.messages,
                  "the same, with each message to and from the broker");
  program.AddFlag("--options", flags.options, "print what each seed drew before its start");
  program.AddFlag("--keep-going", flags.keep_going, "do not stop at the first finding");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  // The current seed finishes, and the summary of the seeds so far is printed.
  for (const int each : {SIGINT, SIGTERM}) {
    std::signal(each, [](int signal) { acan::simulation::stop_signal = signal; });
  }
  try {
    if (flags.scenarios) {
      acan::simulation::ListScenarios();
      return 0;
    }
    if (!flags.scenario.empty()) {
      const acan::simulation::Scenario& scenario = acan::simulation::ScenarioOf(flags.scenario);
      flags.seed = scenario.seed;
      flags.hostile = flags.hostile || scenario.hostile;
    }
    return acan::simulation::Simulate(flags);
  } catch (const std::exception& error) {
    fmt::print(stderr, "acan_simulate: {}\n", error.what());
    return 1;
  }
}
