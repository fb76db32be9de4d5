// What the broker and the manager cost for each task, and how that grows with the number of
// handlers: a whole training in tiles of 64 x 64 with one sample a step, handlers that are threads
// of some processes and talk through shared memory, or with --sockets as those on other hosts do.
// Measured is the processor time of the broker's process and of the manager's, from the end of the
// first step to that of the last: what the handlers take of the machine costs these two nothing but
// cache misses.
//
// One layer of 4096 x 4096, or with --share 41 tiles for each handler: then no handler gets fewer
// tasks with a message because others are there.
//
//   control_scale [--handlers N N ...] [--share] [--sockets] [--steps N] [--repeats N]   prints
//   one JSON object
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "acan/cpu/cpu_device.h"
#include "acan/handler/handler.h"
#include "acan/manager/manager.h"
#include "children.h"
#include "fmt/format.h"
#include "summary.h"
#include "temporary_folder.h"
#include "tuplespace/broker.h"

namespace acan::bench {
namespace {

constexpr std::int64_t kTileWidth = 64;
constexpr std::int64_t kSide = 64;   // of the layer, in tiles
constexpr double kSharedTiles = 41;  // of a handler; with 100 of them the side is the same
constexpr std::uint64_t kHandlerBytes = 1 << 20;
constexpr int kHandlersOfAProcess = 50;

struct Options {
  std::vector<int> handlers = {10, 1000};
  bool share = false;
  bool sockets = false;
  int steps = 8;
  int repeats = 3;
};

double SelfSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  double seconds = 0;
  for (const timeval& part : {usage.ru_utime, usage.ru_stime}) {
    seconds += static_cast<double>(part.tv_sec) + static_cast<double>(part.tv_usec) * 1e-6;
  }
  return seconds;
}

// Of another process, in ticks of the system (usually 10 ms).
double SecondsOf(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0, system = 0;
  if (!(fields >> user >> system)) throw std::runtime_error("the broker has ended");
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

void RaiseDescriptorLimit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void ServeHandlers(const std::string& endpoint, int count, bool sockets) {
  RaiseDescriptorLimit();
  zmq::context_t context;
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      HandlerOptions options;
      options.endpoint = endpoint;
      options.name = "bench";
      options.device =
          MakeCpuDevice({.threads = 1, .memory_limit_bytes = kHandlerBytes, .isa = {}});
      options.shared_memory = !sockets;
      options.context = &context;
      Handler(std::move(options)).Run();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

struct Cost {
  double broker_us = 0, manager_us = 0, tasks_per_s = 0;
  double tasks_per_step = 0;
};

std::int64_t SideFor(const Options& options, int handlers) {
  return options.share ? std::llround(std::sqrt(kSharedTiles * handlers)) : kSide;
}

Cost Train(const Options& options, int handlers) {
  const std::int64_t side = SideFor(options, handlers);
  // About as many tasks in all.
  const std::int64_t steps = std::max<std::int64_t>(3, options.steps * kSide * kSide / side / side);
  const Job job = ParseJob(
      fmt::format(
          "[model]\nlayers = [{0}, {0}]\nloss = \"mse\"\n[data]\ngenerated = \"regression\"\n"
          "samples = {1}\n[train]\nbatch = 1\nepochs = 1\nlearning_rate = 0.001\n"
          "[tasks]\nsize_bytes = 16384\n",
          side * kTileWidth, steps),
      "control_scale", ".", {});
  Data data = LoadData(job);
  data.test = {};
  // Tasks that draw the initial weights, one for each tile; the others are the steps'.
  const std::int64_t tiles = side * side;
  const TemporaryFolder folder;
  const std::string endpoint = folder.Endpoint("space");
  Cost cost;
  {
    Children children;
    const pid_t broker_pid = children.Start([&] {
      RaiseDescriptorLimit();
      tuplespace::BrokerOptions broker;
      broker.listen = {endpoint};
      tuplespace::Broker(std::move(broker)).Run();
    });
    for (int left = handlers; left > 0; left -= kHandlersOfAProcess) {
      children.Start(
          [&] { ServeHandlers(endpoint, std::min(left, kHandlersOfAProcess), options.sockets); });
    }
    using Clock = std::chrono::steady_clock;
    struct Moment {
      double broker_s, manager_s;
      Clock::time_point at;
    };
    const auto now = [&] { return Moment{SecondsOf(broker_pid), SelfSeconds(), Clock::now()}; };
    std::optional<Moment> first, last;
    ManagerOptions manager;
    manager.endpoint = endpoint;
    manager.expected_handlers = handlers;
    manager.source = "control_scale";
    manager.progress = [&](const Progress& progress) {
      if (progress.step >= 1 && !first) first = now();
      if (progress.step == steps && !last) last = now();
    };
    const std::optional<Receipt> receipt = Manager(std::move(manager), job, data).Run();
    if (!receipt || !first || !last) throw std::runtime_error("the training did not end");
    if ((receipt->tasks_done - tiles) % steps != 0) {
      throw std::runtime_error(fmt::format("{} tasks are not {} and as many for each of {} steps",
                                           receipt->tasks_done, tiles, steps));
    }
    const double tasks = static_cast<double>(receipt->tasks_done - tiles) *
                         static_cast<double>(steps - 1) / static_cast<double>(steps);
    cost.tasks_per_step = tasks / static_cast<double>(steps - 1);
    cost.broker_us = (last->broker_s - first->broker_s) / tasks * 1e6;
    cost.manager_us = (last->manager_s - first->manager_s) / tasks * 1e6;
    cost.tasks_per_s = tasks / std::chrono::duration<double>(last->at - first->at).count();
  }
  return cost;
}

nlohmann::json Measure(const Options& options) {
  if (options.steps < 2 || options.repeats < 1) {
    throw std::invalid_argument("needs two steps and a repeat at least");
  }
  std::map<int, std::vector<Cost>> costs;
  for (int i = 0; i < options.repeats; ++i) {
    for (const int handlers : options.handlers) {
      costs[handlers].push_back(Train(options, handlers));
    }
  }
  nlohmann::json result = {{"benchmark", "control_scale"},
                           {"transport", options.sockets ? "sockets" : "shared memory"},
                           {"runs", nlohmann::json::array()}};
  const std::vector<Cost>& base = costs.at(options.handlers.front());
  for (const int handlers : options.handlers) {
    std::vector<double> broker, manager, both, growth, rate;
    for (std::size_t i = 0; i < base.size(); ++i) {
      const Cost& cost = costs.at(handlers)[i];
      broker.push_back(cost.broker_us);
      manager.push_back(cost.manager_us);
      both.push_back(cost.broker_us + cost.manager_us);
      growth.push_back(both.back() / (base[i].broker_us + base[i].manager_us));
      rate.push_back(cost.tasks_per_s);
    }
    result["runs"].push_back({{"handlers", handlers},
                              {"width", SideFor(options, handlers) * kTileWidth},
                              {"tasks_per_step", costs.at(handlers).front().tasks_per_step},
                              {"broker_us_per_task", Summary(broker)},
                              {"manager_us_per_task", Summary(manager)},
                              {"both_us_per_task", Summary(both)},
                              {"growth", Summary(growth)},
                              {"tasks_per_s", Summary(rate)}});
  }
  return result;
}

}  // namespace
}  // namespace acan::bench

int main(int argc, char** argv) {
  acan::bench::Options options;
  CLI::App app("What broker and manager cost for each task, by the number of handlers");
  app.add_option("--handlers", options.handlers, "numbers of handlers, the first to compare with")
      ->capture_default_str();
  app.add_flag("--share", options.share, "as many tasks for each handler, whatever their number");
  app.add_flag("--sockets", options.sockets, "handlers share no memory with the broker");
  app.add_option("--steps", options.steps, "steps of one run")->capture_default_str();
  app.add_option("--repeats", options.repeats, "runs of each")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    std::cout << acan::bench::Measure(options).dump(2) << "\n";
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "control_scale: %s\n", error.what());
    return 1;
  }
}
