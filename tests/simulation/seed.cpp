#include "seed.h"

#include <map>

#include "cluster/cluster.h"
#include "cluster/jobs.h"
#include "fmt/format.h"
#include "world/random.h"

namespace acan::simulation {

const char* NameOf(Fault fault) {
  static constexpr std::array<const char*, kFaults> kNames = {
      "handler killed",  "manager killed",  "broker killed",    "all killed",
      "handler stopped", "manager stopped", "broker stopped",   "connection ended",
      "one way stalled", "clock jumped",    "snapshot damaged", "task failed on the device",
      "device lost",     "handler joined",  "handler left",     "second manager",
      "manager left"};
  return kNames[static_cast<std::size_t>(fault)];
}

std::optional<Fault> FaultOf(std::string_view name) {
  for (std::size_t i = 0; i < kFaults; ++i) {
    if (name == NameOf(static_cast<Fault>(i))) return static_cast<Fault>(i);
  }
  return std::nullopt;
}

Outcome TrainUndisturbed(std::size_t job) {
  Cluster cluster({.seed = 1, .trace = {}}, job, /*disturbed=*/false);
  const SeedResult result = cluster.Run(nullptr);
  if (!result.violation.empty()) {
    throw Violation(fmt::format("job {}, without faults: {}", job, result.violation));
  }
  return cluster.outcome();
}

const Outcome& ExpectOutcomeOf(std::size_t job) {
  static std::map<std::size_t, Outcome> known;
  const auto it = known.find(job);
  if (it != known.end()) return it->second;
  return known.emplace(job, TrainUndisturbed(job)).first->second;
}

std::size_t JobCount() {
  return Jobs().size();
}

SeedResult RunSeed(const SeedOptions& options) {
  // Fewer seeds have audits because these need many handlers.
  Random random(options.seed ^ 0x5eed);
  std::size_t job = random.Below(Jobs().size() - 1);
  if (random.OneIn(12)) job = Jobs().size() - 1;
  const Outcome& expected = ExpectOutcomeOf(job);
  return Cluster(options, job, /*disturbed=*/true).Run(&expected);
}

}  // namespace acan::simulation
