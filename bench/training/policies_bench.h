// How well unequal handlers are used under each policy: a broker, a manager and handlers of one
// thread (processes), throttled to given speeds, train the same job under each. Throttled handlers
// sleep most of the time, so a machine with fewer cores than handlers measures the scheduling and
// not itself, as long as all speeds together are well below what it could compute.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace acan::bench {

struct PoliciesBenchOptions {
  std::vector<std::string> policies = {"auto", "factoring", "gss", "fixed", "paper"};
  std::vector<double> speeds = {1, 5, 5, 10};  // of the handlers, in units of
  double unit_gflops = 0.04;
  std::vector<std::int64_t> layers = {1024, 2048, 1024};
  std::int64_t batch = 128;
  int steps = 5;    // of one run
  int repeats = 3;  // rounds over all policies
};

// {job, speeds, unit_gflops, policies: {NAME: {share, idle, reissued, cpu_cores, timeout_ms,
// pouch}}, same_weights}, each a summary. `share`: operations of the job that were done in a
// second, over the sum of the handlers' speeds; what is done twice counts once. `idle`: the part of
// the time in which a handler computes nothing, on average. `cpu_cores`: what all processes used of
// the machine.
nlohmann::json RunPoliciesBench(const PoliciesBenchOptions& options);
// The same as a table for people.
std::string PoliciesTable(const nlohmann::json& result);

}  // namespace acan::bench
