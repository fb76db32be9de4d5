// acan plan: shows how the steps of a job would be cut for handlers, without training.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/core/text/size_text.h"
#include "acan/handler/conformance.h"
#include "acan/manager/load_data.h"
#include "acan/manager/manager.h"
#include "acan/manager/plan_forecast.h"
#include "acan/manager/trained_model.h"
#include "command.h"
#include "device_factory.h"
#include "fmt/format.h"
#include "handler_flags.h"
#include "job_flags.h"
#include "machine.h"
#include "nlohmann/json.hpp"
#include "process_setup.h"
#include "standard_output.h"

namespace acan::cli {
namespace {

struct PlanFlags {
  JobFlags job;
  ClusterFlags cluster;
  int hosts = 1;
  double link_mbit = 1000;
  double round_trip_us = 200;
  bool json = false;
};

constexpr std::size_t kMaxStages = 24;  // the most that are printed

constexpr const char* kPlanExample = R"(
Reads the job and the sizes of its data, measures the speed of the handlers' devices, and cuts a
step as acan train would with exactly these handlers. It trains and writes nothing. The time is an
estimate, for comparing lists of handlers; the exit code is 1 if the handlers have too little memory.
With --hosts the handlers are distributed round-robin over this many hosts, which share no memory:
the plan shows what crosses the link of each host, and whether one more host would help. Each host
has the processors of this machine, or more if its handlers have more threads; a handler is as fast
as this machine measures it. If the tasks cannot be placed on the hosts, it says why, and the
estimate is rough.

Examples:
  acan plan examples/gpt.toml --handlers 2xcpu:1@4MiB
  acan plan job.toml --handlers 4xcpu:2@4GiB --hosts 4 --link 100
  acan plan job.toml --handlers cuda:0,4xcpu:1 --json | jq '{tasks, moved_bytes, estimated_step_ms}')";

// The capacity that a handler on this device would advertise.
Capacity CapacityOf(const DeviceSpec& spec) try {
  const std::unique_ptr<Device> device = MakeDevice(spec, *spec.memory_bytes);
  // Takes seconds on an OpenCL device that compiles its kernels first, so only if it may fail.
  if (*spec.memory_bytes < kConformanceBytes) RunConformance(*device);
  const DeviceInfo& info = device->info();
  Capacity capacity;
  capacity.name = info.name;
  capacity.device = info.name;
  capacity.description = info.description;
  capacity.limit_bytes = device->budget().limit_bytes();
  capacity.memory_bytes = capacity.limit_bytes - device->budget().used_bytes();
  capacity.threads = info.threads;
  capacity.gflops = MeasureGflops(*device);
  capacity.exact = info.exact;
  capacity.fast = info.fast;
  capacity.own_memory = info.own_memory;
  Machine machine = ThisMachine();
  capacity.machine = std::move(machine.id);
  capacity.cpus = std::move(machine.cpus);
  capacity.busy_cpus = info.own_memory ? 0 : info.threads;
  return capacity;
} catch (const OutOfMemory& error) {
  throw FailureError(TooSmall(spec, *spec.memory_bytes, error).what());
}

// Measures handlers of one kind only once.
std::vector<Capacity> CapacitiesOf(const std::vector<DeviceSpec>& handlers) {
  std::vector<std::pair<DeviceSpec, Capacity>> known;
  std::vector<Capacity> capacities;
  for (const DeviceSpec& spec : handlers) {
    auto at = std::find_if(known.begin(), known.end(),
                           [&](const auto& each) { return each.first == spec; });
    if (at == known.end()) at = known.emplace(known.end(), spec, CapacityOf(spec));
    capacities.push_back(at->second);
  }
  return capacities;
}

// Distributes the handlers over several hosts. Each has as many processors as this one, or as many
// as its handlers keep busy if these are more: the list says which handlers those hosts have, and
// plans leave out handlers that get less than half of their processors.
void PutOnHosts(const PlanFlags& flags, std::vector<Capacity>* handlers) {
  if (flags.hosts < 2) return;
  constexpr double kNsOfKibAtOneMbit = 1024 * 8 * 1e3;
  std::vector<double> busy_cpus(static_cast<std::size_t>(flags.hosts));
  for (std::size_t i = 0; i < handlers->size(); ++i) {
    busy_cpus[i % busy_cpus.size()] += (*handlers)[i].busy_cpus;
  }
  for (std::size_t i = 0; i < handlers->size(); ++i) {
    Capacity& handler = (*handlers)[i];
    handler.bytes_travel = true;
    handler.host = fmt::format("host {}", i % static_cast<std::size_t>(flags.hosts) + 1);
    handler.machine = handler.host;
    const auto cpus = static_cast<std::size_t>(std::ceil(busy_cpus[i % busy_cpus.size()]));
    handler.cpus.resize(std::max(handler.cpus.size(), cpus));
    std::iota(handler.cpus.begin(), handler.cpus.end(), 0);
    handler.link_ns_per_kib = static_cast<std::uint32_t>(kNsOfKibAtOneMbit / flags.link_mbit);
    handler.link_round_trip_us = static_cast<std::uint32_t>(flags.round_trip_us);
  }
}

nlohmann::json ToJson(const PlanForecast& forecast) {
  nlohmann::json out = {{"plan", forecast.plan.summary},
                        {"tasks", forecast.tasks},
                        {"moved_bytes", forecast.moved_bytes},
                        {"least_moved_bytes", forecast.least_moved_bytes},
                        {"largest_need_bytes", forecast.plan.largest_need_bytes},
                        {"workers", forecast.workers},
                        {"estimated_step_ms", forecast.step_us * 1e-3},
                        {"stages", nlohmann::json::array()},
                        {"handlers", nlohmann::json::array()}};
  for (const StageForecast& stage : forecast.stages) {
    out["stages"].push_back({{"what", stage.what},
                             {"kind", stage.kind},
                             {"tasks", stage.tasks},
                             {"need_bytes", stage.need_bytes},
                             {"moved_bytes", stage.moved_bytes},
                             {"gflop", stage.gflop},
                             {"estimated_ms", stage.us * 1e-3}});
  }
  for (const auto& [handler, tasks, is_spare] : forecast.handlers) {
    out["handlers"].push_back({{"device", handler.device},
                               {"memory_bytes", handler.memory_bytes},
                               {"gflops", handler.gflops},
                               {"tasks_that_fit", tasks},
                               {"is_spare", is_spare}});
  }
  if (!forecast.unplaced.empty()) out["not_placed"] = forecast.unplaced;
  if (forecast.hosts.empty()) return out;
  out["hosts"] = nlohmann::json::array();
  for (const HostForecast& host : forecast.hosts) {
    out["hosts"].push_back({{"host", host.name},
                            {"tasks", host.tasks},
                            {"out_bytes", host.load.out_bytes},
                            {"in_bytes", host.load.in_bytes}});
  }
  out["manager_out_bytes"] = forecast.manager_bytes;
  out["broker_out_bytes"] = forecast.broker_bytes;
  if (forecast.handlers_to_place < forecast.handlers.size()) {
    out["handlers_to_place"] = forecast.handlers_to_place;
  }
  if (forecast.step_us_with_one_more > 0) {
    out["estimated_step_ms_with_one_more_host"] = forecast.step_us_with_one_more * 1e-3;
  }
  return out;
}

// A gain smaller than the estimate's error does not count.
constexpr double kGain = 0.98;

std::string HostText(const HostForecast& host, bool may_be_left_out) {
  const std::string name = host.name.empty() ? "the broker's host" : host.name;
  if (host.tasks == 0) {
    return name + (may_be_left_out ? " gets no tasks\n"
                                   : " would slow the step down, so it gets no tasks\n");
  }
  return fmt::format("{}: {} tasks; {:.2f} MB out and {:.2f} MB in over its link\n", name,
                     host.tasks, static_cast<double>(host.load.out_bytes) / 1e6,
                     static_cast<double>(host.load.in_bytes) / 1e6);
}

std::string OneMoreText(const PlanForecast& forecast) {
  if (forecast.step_us_with_one_more == 0) {
    return "with one more host, the tasks could not be placed\n";
  }
  if (forecast.step_us_with_one_more >= kGain * forecast.step_us) {
    return "one more host would not help\n";
  }
  return fmt::format("with one more host:  {:.1f} ms per step\n",
                     forecast.step_us_with_one_more * 1e-3);
}

std::string HostsText(const PlanForecast& forecast) {
  if (!forecast.unplaced.empty()) {
    return fmt::format(
        "The tasks cannot be placed on the hosts, because {}. The estimate is rough: it assumes "
        "that all inputs and results cross one link.\n",
        forecast.unplaced);
  }
  if (forecast.hosts.empty()) return {};
  std::string text;
  const bool leaves_out = forecast.handlers_to_place < forecast.handlers.size();
  if (leaves_out) {
    text = fmt::format(
        "Tasks are placed on at most {} of the handlers, because placing them on more would take "
        "too long.\n",
        forecast.handlers_to_place);
  }
  for (const HostForecast& host : forecast.hosts) text += HostText(host, leaves_out);
  text += fmt::format("the manager sends {:.2f} MB, and the broker {:.2f} MB\n",
                      static_cast<double>(forecast.manager_bytes) / 1e6,
                      static_cast<double>(forecast.broker_bytes) / 1e6);
  return text + OneMoreText(forecast);
}

std::string StageText(const StageForecast& stage) {
  return fmt::format("{:>9.2f} {:>7} {:>11} {:>10.1f}  {} {}\n", stage.us * 1e-3, stage.tasks,
                     RoundedSizeText(stage.need_bytes),
                     static_cast<double>(stage.moved_bytes) / 1e6, stage.kind, stage.what);
}

std::string ToText(const PlanForecast& forecast) {
  std::string text = fmt::format(
      "plan: {}\n"
      "tasks per step:      {}; {} at once would keep all handlers busy\n"
      "moved per step:      {:.1f} MB; {:.1f} MB with one handler that has memory for everything\n"
      "largest task:        {}\n"
      "estimated time:      {:.1f} ms per step\n\n",
      forecast.plan.summary, forecast.tasks, forecast.workers,
      static_cast<double>(forecast.moved_bytes) / 1e6,
      static_cast<double>(forecast.least_moved_bytes) / 1e6,
      RoundedSizeText(forecast.plan.largest_need_bytes), forecast.step_us * 1e-3);
  for (const auto& [handler, tasks, is_spare] : forecast.handlers) {
    const std::string fit = fmt::format("{} of the tasks fit into its memory",
                                        tasks == forecast.tasks ? "all" : fmt::to_string(tasks));
    text +=
        fmt::format("handler {}: {}, {:.1f} GFLOP/s; {}\n", handler.device,
                    RoundedSizeText(handler.memory_bytes), handler.gflops,
                    is_spare ? "far slower than others: it gets no tasks while they work" : fit);
  }
  text += HostsText(forecast);
  text += fmt::format("\n{:>9} {:>7} {:>11} {:>10}  what\n", "ms", "tasks", "largest", "MB");
  std::vector<StageForecast> stages = forecast.stages;
  if (stages.size() > kMaxStages) {
    std::stable_sort(stages.begin(), stages.end(),
                     [](const auto& a, const auto& b) { return a.us > b.us; });
    stages.resize(kMaxStages);
  }
  for (const StageForecast& stage : stages) text += StageText(stage);
  if (stages.size() < forecast.stages.size()) {
    text += fmt::format("Only the longest are shown; --json has all {}.\n", forecast.stages.size());
  }
  return text;
}

int RunPlan(const PlanFlags& flags) {
  RequireLimits("acan plan");
  const LocalClusterOptions cluster = ParseCluster(flags.cluster);
  const Job job = ReadJob(flags.job);
  ManagerConfig config;
  config.model = BuildModel(job);
  config.training = job.training;
  config.limits = job.tasks;
  config.train_samples = LoadData(job).train_samples();
  config.least_removed_bytes = ManagerOptions{}.least_removed_bytes;
  std::vector<Capacity> handlers = CapacitiesOf(cluster.handlers);
  PutOnHosts(flags, &handlers);
  const PlanForecast forecast = ForecastPlan(config, handlers);
  if (flags.json) {
    PrintLine(JsonText(ToJson(forecast)));
  } else {
    Print(ToText(forecast));
  }
  return 0;
}

}  // namespace

void AddPlan(Command& app, Chosen& chosen) {
  const auto flags = std::make_shared<PlanFlags>();
  Command command =
      app.AddCommand("plan", "Show how a job would be cut into tasks for given handlers");
  AddJobFlags(command, flags->job);
  AddClusterFlags(command, flags->cluster);
  Flag hosts = command
                   .AddOption("--hosts", flags->hosts,
                              "how many hosts the handlers are distributed over, round-robin")
                   .Between(1, 64)
                   .ShowDefault();
  command
      .AddOption("--link", flags->link_mbit,
                 "the bandwidth of each host's link in Mbit/s, with --hosts")
      .Between(0.1, 1e6)
      .ShowDefault()
      .Needs(hosts);
  command
      .AddOption("--round-trip", flags->round_trip_us,
                 "the round-trip time of the links in microseconds, with --hosts")
      .Between(0.0, 1e7)
      .ShowDefault()
      .Needs(hosts);
  command.AddFlag("--json", flags->json, "one line of JSON on stdout");
  command.Footer(kPlanExample);
  command.OnParsed([flags, &chosen] { chosen.run = [flags] { return RunPlan(*flags); }; });
}

}  // namespace acan::cli
