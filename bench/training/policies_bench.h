// How well each policy uses unequal handlers. A broker, a manager and handlers of one thread
// (processes), throttled to given speeds, train the same job under each policy. Throttled handlers
// sleep most of the time. So even a machine with fewer cores than handlers measures the scheduling
// and not itself, as long as all speeds together are well below what the machine could compute.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace acan::bench {

struct PoliciesBenchOptions {
  std::vector<std::string> policies = {"auto", "factoring", "gss", "fixed", "paper"};
  std::vector<double> speeds = {1, 5, 5, 10};  // of the handlers, in units of unit_gflops
  double unit_gflops = 0.04;
  std::vector<std::int64_t> layers = {1024, 2048, 1024};
  std::int64_t batch = 128;
  int steps = 5;    // of one run
  int repeats = 3;  // rounds over all policies
};

// {job, speeds, unit_gflops, policies: {NAME: {share, idle, reissued, cpu_cores, timeout_ms,
// pouch}}, same_weights}; each value is a summary. `share`: the job's operations per second,
// relative to the sum of the handlers' speeds; repeated work counts once. `idle`: the mean share of
// the time in which a handler computes nothing. `cpu_cores`: the cores that all processes together
// used.
nlohmann::json RunPoliciesBench(const PoliciesBenchOptions& options);
// The same as a text table.
std::string PoliciesTable(const nlohmann::json& result);

}  // namespace acan::bench
