#include "policies_bench.h"

#include <sys/resource.h>
#include <unistd.h>

#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "acan/cpu/cpu_device.h"
#include "acan/handler/handler.h"
#include "acan/manager/load_data.h"
#include "acan/manager/manager.h"
#include "children.h"
#include "clock.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "summary.h"
#include "temporary_folder.h"
#include "tuplespace/broker.h"

namespace acan::bench {
namespace {

constexpr std::uint64_t kHandlerBytes = 1ull << 30;
const std::vector<const char*> kColumns = {"share",     "idle",       "reissued",
                                           "cpu_cores", "timeout_ms", "pouch"};

double CpuSeconds() {
  double seconds = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    ::getrusage(who, &usage);
    for (const timeval& part : {usage.ru_utime, usage.ru_stime}) {
      seconds += static_cast<double>(part.tv_sec) + static_cast<double>(part.tv_usec) * 1e-6;
    }
  }
  return seconds;
}

struct Moment {
  double at_s = 0;
  Tuning tuning;
};

struct PolicyRun {
  std::map<std::string, double> values;
  std::string weights_sha256;
};

// From the moment the first tasks were put to the end of the last step.
std::map<std::string, double> Figures(double end_s, const std::vector<Moment>& moments,
                                      double speed_gflops, std::size_t handlers) {
  const Moment* first = nullptr;
  const Moment* last = nullptr;
  for (const Moment& moment : moments) {
    if (moment.tuning.in_flight == 0) continue;
    if (first == nullptr) first = &moment;
    last = &moment;
  }
  if (first == nullptr || first == last) throw std::runtime_error("the run was too short");
  // Handlers report twice a second.
  const double busy_s = last->tuning.busy_s - first->tuning.busy_s;
  const double handler_s = (last->at_s - first->at_s) * static_cast<double>(handlers);
  return {{"share", moments.back().tuning.gflop_done / (end_s - first->at_s) / speed_gflops},
          {"idle", std::max(0.0, 1 - busy_s / handler_s)},
          {"reissued", static_cast<double>(moments.back().tuning.reissued)},
          {"timeout_ms", static_cast<double>(last->tuning.timeout_us) * 1e-3},
          {"pouch", static_cast<double>(last->tuning.pouch)}};
}

PolicyRun RunPolicy(const PoliciesBenchOptions& options, const Job& job, const Data& data) {
  const TemporaryFolder folder;
  const std::string endpoint = folder.Endpoint("space");
  double end_s = 0;
  std::vector<Moment> moments;
  std::optional<Receipt> receipt;
  const double cpu_s = CpuSeconds(), begin_s = NowS();
  {
    Children children;
    children.Start([&] {
      tuplespace::BrokerOptions broker;
      broker.listen = {endpoint};
      tuplespace::Broker(std::move(broker)).Run();
    });
    for (const double speed : options.speeds) {
      children.Start([&] {
        HandlerOptions handler;
        handler.endpoint = endpoint;
        handler.name = "bench";
        handler.device =
            MakeCpuDevice({.threads = 1, .memory_limit_bytes = kHandlerBytes, .isa = {}});
        handler.throttle = Throttle({speed * options.unit_gflops}, 0);
        Handler(std::move(handler)).Run();
      });
    }
    ManagerOptions manager;
    manager.endpoint = endpoint;
    manager.expected_handlers = static_cast<int>(options.speeds.size());
    manager.source = "bench policies";
    manager.progress = [&](const Progress&) { end_s = NowS(); };
    manager.tuning = [&](const Tuning& tuning) { moments.push_back({NowS(), tuning}); };
    receipt = Manager(std::move(manager), job, data).Run();
  }
  const double cpu_cores = (CpuSeconds() - cpu_s) / (NowS() - begin_s);
  const double speed_gflops =
      options.unit_gflops * std::accumulate(options.speeds.begin(), options.speeds.end(), 0.0);
  PolicyRun run{Figures(end_s, moments, speed_gflops, options.speeds.size()),
                receipt->weights_sha256};
  run.values["cpu_cores"] = cpu_cores;
  return run;
}

Job JobOf(const PoliciesBenchOptions& options, const std::string& policy) {
  return ParseJob(
      fmt::format("[model]\nlayers = [{}]\nloss = \"mse\"\n[data]\ngenerated = \"regression\"\n"
                  "samples = {}\n[train]\nbatch = {}\nepochs = 1\nlearning_rate = 0.01\n"
                  "[tasks]\npolicy = \"{}\"\nleave_out_slow = false\n",
                  fmt::join(options.layers, ", "), options.batch * options.steps, options.batch,
                  policy),
      "bench policies", ".", {});
}

}  // namespace

nlohmann::json RunPoliciesBench(const PoliciesBenchOptions& options) {
  if (options.steps < 1 || options.repeats < 1 || options.speeds.empty() ||
      options.policies.empty()) {
    throw std::invalid_argument("needs a step, a repeat, a handler and a policy at least");
  }
  std::map<std::string, std::map<std::string, std::vector<double>>> values;
  std::string weights_sha256;
  bool same = true;
  Data data = LoadData(JobOf(options, "auto"));
  data.test = nullptr;
  for (int i = 0; i < options.repeats; ++i) {
    for (const std::string& policy : options.policies) {
      const PolicyRun run = RunPolicy(options, JobOf(options, policy), data);
      for (const auto& [name, value] : run.values) values[policy][name].push_back(value);
      if (weights_sha256.empty()) weights_sha256 = run.weights_sha256;
      same = same && run.weights_sha256 == weights_sha256;
    }
  }
  nlohmann::json result = {
      {"job", fmt::format("{}, batch {}", fmt::join(options.layers, "-"), options.batch)},
      {"speeds", options.speeds},
      {"unit_gflops", options.unit_gflops},
      {"steps", options.steps},
      {"same_weights", same}};
  for (const std::string& policy : options.policies) {
    for (const char* column : kColumns) {
      result["policies"][policy][column] = Summary(values.at(policy).at(column));
    }
  }
  return result;
}

std::string PoliciesTable(const nlohmann::json& result) {
  std::string text = fmt::format(
      "{}; handlers of {} times {} GFLOP/s; the same weights: {}\n\n{:<12}{:>22}{:>10}{:>12}{:>12}"
      "{:>12}{:>10}\n",
      result["job"].get<std::string>(), fmt::join(result["speeds"].get<std::vector<double>>(), ":"),
      result["unit_gflops"].get<double>(), result["same_weights"].get<bool>() ? "yes" : "NO",
      "policy", "share of all speed", "idle", "re-issued", "time-out", "pouch", "cores");
  for (const auto& [policy, values] : result["policies"].items()) {
    const auto median = [&columns = values](const char* column) {
      return columns[column]["median"].get<double>();
    };
    const nlohmann::json& share = values["share"];
    text += fmt::format(
        "{:<12}{:>7.1f} % ({:>4.1f}..{:>4.1f}){:>8.1f} %{:>12.0f}{:>9.0f} ms{:>12.0f}{:>10.2f}\n",
        policy, 100 * median("share"), 100 * share["min"].get<double>(),
        100 * share["max"].get<double>(), 100 * median("idle"), median("reissued"),
        median("timeout_ms"), median("pouch"), median("cpu_cores"));
  }
  return text;
}

}  // namespace acan::bench
