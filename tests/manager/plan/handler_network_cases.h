// Handlers on several hosts, and a model for them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "acan/manager/graph_planner.h"
#include "acan/manager/handler_network.h"
#include "acan/manager/pass_tasks.h"
#include "acan/manager/plan.h"

namespace acan {

inline constexpr std::uint32_t kGigabit = 8'192, kHundredMbit = 81'920;  // nanoseconds per KiB
inline constexpr std::uint64_t kMinKept = 256 << 10;

inline Capacity FarHandler(const std::string& host, std::uint32_t ns_per_kib, double gflops = 50) {
  Capacity capacity;
  capacity.memory_bytes = capacity.limit_bytes = 1ull << 30;
  capacity.gflops = gflops;
  capacity.bytes_travel = true;
  capacity.host = host;
  capacity.link_ns_per_kib = ns_per_kib;
  capacity.link_round_trip_us = 200;
  return capacity;
}

inline Capacity OnMachine(Capacity capacity, const std::string& machine, std::vector<int> cpus) {
  capacity.machine = machine;
  capacity.cpus = std::move(cpus);
  capacity.busy_cpus = capacity.threads;
  return capacity;
}

inline std::map<std::string, Capacity> OneOnEachHost(int hosts, std::uint32_t ns_per_kib) {
  std::map<std::string, Capacity> handlers;
  for (int i = 0; i < hosts; ++i) {
    handlers["id" + std::to_string(i)] = FarHandler("10.0.0." + std::to_string(i), ns_per_kib);
  }
  return handlers;
}

// A perceptron for handlers on several hosts.
struct Wide {
  explicit Wide(std::vector<std::int64_t> layers, std::int64_t batch) {
    model = LowerModel(
        BuildModel(Perceptron{.layers = std::move(layers), .loss = Loss::kMeanSquaredError}));
    training.batch = batch;
    training.optimizer = Optimizer::kMomentum;
  }
  Plan Make(const std::map<std::string, Capacity>& handlers) const {
    PlanRequest request;
    request.model = model;
    request.training = training;
    request.capacity_bytes = 1ull << 30;
    request.speed.workers = static_cast<int>(handlers.size());
    request.network = NetworkOf(handlers, kMinKept);
    return *MakePlan(request, nullptr);
  }
  std::vector<PlannedTask> TasksOf(const Plan& plan) const {
    Pass pass;
    pass.job = "run";
    pass.rows = training.batch;
    return PassTasks(model, training, plan).Tasks(pass);
  }
  Placement Place(const std::map<std::string, Capacity>& handlers) const {
    return PlaceOnBestPart(*NetworkOf(handlers, kMinKept), TasksOf(Make(handlers)));
  }
  PlannedModel model;
  Training training;
};

}  // namespace acan
