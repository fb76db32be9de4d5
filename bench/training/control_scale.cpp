// What the broker and the manager cost for each task, and how that grows with the number of
// handlers: a whole training in tiles of 64 x 64 with one sample a step. One thread serves many
// handlers in turn, because a thousand threads on a few cores would measure the scheduler. Handlers
// communicate through shared memory, or with --sockets as those on other hosts do. It measures the
// processor time of the broker's and the manager's process, from the end of the first step to that
// of the last. The handlers' load affects these two only by cache misses.
//
// The job has one layer of 4096 x 4096, or with --share 41 tiles for each handler, so that no
// handler gets fewer tasks in a message because there are other handlers.
//
// For comparison, it measures a process that only receives and answers as many messages through
// ZeroMQ, from as many peers: no broker that uses sockets can cost less for each message.
//
//   control_scale --help   shows the options; prints one JSON object
#include <sys/resource.h>
#include <unistd.h>

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
#include "acan/manager/load_data.h"
#include "acan/manager/manager.h"
#include "children.h"
#include "flags.h"
#include "fmt/format.h"
#include "summary.h"
#include "temporary_folder.h"
#include "tuplespace/broker.h"
#include "tuplespace/client.h"
#include "tuplespace/descriptors.h"

namespace acan::bench {
namespace {

constexpr std::int64_t kTileWidth = 64;
constexpr std::int64_t kSide = 64;   // of the layer, in tiles
constexpr double kSharedTiles = 41;  // for each handler; for 100 handlers the side is kSide
constexpr std::uint64_t kMiB = 1 << 20;
constexpr int kHandlersOfAProcess = 50;
constexpr int kSocketsOfAHandler = 4;
constexpr std::size_t kBareBytes = 300;  // approximately a grant without its inputs
constexpr std::chrono::seconds kBareWarmUp{1}, kBareTime{2};

struct Options {
  std::vector<int> handlers = {10, 1000};
  bool share = false;
  bool sockets = false;
  bool threads = false;
  std::uint64_t memory_mib = 1;
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

// The processor time of another process, in ticks of the system (usually 10 ms).
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

HandlerOptions OneHandler(const std::string& endpoint, const Options& given,
                          zmq::context_t& context) {
  HandlerOptions options;
  options.endpoint = endpoint;
  options.name = "bench";
  options.device =
      MakeCpuDevice({.threads = 1, .memory_limit_bytes = given.memory_mib * kMiB, .isa = {}});
  options.shared_memory = !given.sockets;
  options.context = &context;
  return options;
}

void ServeByThreads(const std::string& endpoint, int count, const Options& options) {
  zmq::context_t context;
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&] { Handler(OneHandler(endpoint, options, context)).Run(); });
  }
  for (std::thread& thread : threads) thread.join();
}

void ServeInTurn(const std::string& endpoint, int count, const Options& options) {
  zmq::context_t context;
  context.set(zmq::ctxopt::max_sockets, kSocketsOfAHandler * count + 1);
  std::vector<std::unique_ptr<Handler>> handlers;
  for (int i = 0; i < count; ++i) {
    handlers.push_back(std::make_unique<Handler>(OneHandler(endpoint, options, context)));
  }
  for (;;) {
    for (const auto& handler : handlers) handler->Turn(std::chrono::microseconds(0));
  }
}

struct Cost {
  double broker_us = 0, manager_us = 0, tasks_per_s = 0;
  double tasks_per_step = 0;
  double messages = 0, requests = 0;  // that the broker received, for each task
  double bare_us = 0;                 // of a ROUTER, for each message
};

std::int64_t SideFor(const Options& options, int handlers) {
  return options.share ? std::llround(std::sqrt(kSharedTiles * handlers)) : kSide;
}

Cost Train(const Options& options, int handlers) {
  const std::int64_t side = SideFor(options, handlers);
  // About the same number of tasks in total.
  const std::int64_t steps = std::max<std::int64_t>(3, options.steps * kSide * kSide / side / side);
  const Job job = ParseJob(
      fmt::format(
          "[model]\nlayers = [{0}, {0}]\nloss = \"mse\"\n[data]\ngenerated = \"regression\"\n"
          "samples = {1}\n[train]\nbatch = 1\nepochs = 1\nlearning_rate = 0.001\n"
          "[tasks]\nsize_bytes = 16384\n",
          side * kTileWidth, steps),
      "control_scale", ".", {});
  Data data = LoadData(job);
  data.test = nullptr;
  // The tasks that draw the initial weights, one for each tile; the others belong to steps.
  const std::int64_t tiles = side * side;
  const TemporaryFolder folder;
  const std::string endpoint = folder.Endpoint("space");
  Cost cost;
  {
    Children children;
    const pid_t broker_pid = children.Start([&] {
      tuplespace::BrokerOptions broker;
      broker.listen = {endpoint};
      tuplespace::Broker(std::move(broker)).Run();
    });
    if (!options.threads) {
      children.Start([&] { ServeInTurn(endpoint, handlers, options); });
    }
    for (int left = options.threads ? handlers : 0; left > 0; left -= kHandlersOfAProcess) {
      const int count = std::min(left, kHandlersOfAProcess);
      children.Start([&] { ServeByThreads(endpoint, count, options); });
    }
    using Clock = std::chrono::steady_clock;
    struct Moment {
      double broker_s, manager_s;
      Clock::time_point at;
      std::optional<tuplespace::Stats> stats;
    };
    tuplespace::Client observer({.endpoint = endpoint, .name = "control_scale", .id = {}});
    const auto now = [&] {
      return Moment{SecondsOf(broker_pid), SelfSeconds(), Clock::now(), observer.GetStatistics()};
    };
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
    const tuplespace::Counters &before = first->stats->counters, &after = last->stats->counters;
    cost.messages = static_cast<double>(after.messages - before.messages) / tasks;
    cost.requests = static_cast<double>(after.requests - before.requests) / tasks;
    cost.tasks_per_s = tasks / std::chrono::duration<double>(last->at - first->at).count();
  }
  return cost;
}

void Echo(const std::string& endpoint) {
  zmq::context_t context;
  zmq::socket_t router(context, zmq::socket_type::router);
  router.bind(endpoint);
  for (;;) {
    zmq::message_t from, message;
    if (!router.recv(from) || !router.recv(message)) continue;
    router.send(from, zmq::send_flags::sndmore);
    router.send(message, zmq::send_flags::none);
  }
}

// Each peer has one message in flight. Counts the answers.
void Ask(const std::string& endpoint, int peers, const std::function<bool(std::uint64_t)>& go_on) {
  zmq::context_t context;
  context.set(zmq::ctxopt::max_sockets, peers + 1);
  std::vector<zmq::socket_t> sockets;
  const std::string text(kBareBytes, 'x');
  for (int i = 0; i < peers; ++i) {
    sockets.emplace_back(context, zmq::socket_type::dealer);
    sockets.back().set(zmq::sockopt::linger, 0);
    sockets.back().connect(endpoint);
    sockets.back().send(zmq::buffer(text), zmq::send_flags::none);
  }
  for (std::uint64_t answers = 0; go_on(answers);) {
    for (zmq::socket_t& socket : sockets) {
      zmq::message_t message;
      if (!socket.recv(message, zmq::recv_flags::dontwait)) continue;
      ++answers;
      socket.send(zmq::buffer(text), zmq::send_flags::none);
    }
  }
}

// Processor time of a ROUTER for a message and its answer.
double BareUs(int peers) {
  const TemporaryFolder folder;
  const std::string endpoint = folder.Endpoint("bare");
  Children children;
  const pid_t router_pid = children.Start([&] { Echo(endpoint); });
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin_at = Clock::now() + kBareWarmUp, end_at = begin_at + kBareTime;
  double begin_s = 0, end_s = 0;
  std::uint64_t begin_answers = 0, end_answers = 0;
  Ask(endpoint, peers, [&](std::uint64_t answers) {
    const Clock::time_point now = Clock::now();
    if (begin_s == 0 && now >= begin_at) {
      begin_s = SecondsOf(router_pid);
      begin_answers = answers;
    }
    if (now < end_at) return true;
    end_s = SecondsOf(router_pid);
    end_answers = answers;
    return false;
  });
  return (end_s - begin_s) / static_cast<double>(end_answers - begin_answers) * 1e6;
}

nlohmann::json Measure(const Options& options) {
  if (options.steps < 2 || options.repeats < 1) {
    throw std::invalid_argument("needs two steps and a repeat at least");
  }
  std::map<int, std::vector<Cost>> costs;
  for (int i = 0; i < options.repeats; ++i) {
    for (const int handlers : options.handlers) {
      costs[handlers].push_back(Train(options, handlers));
      costs[handlers].back().bare_us = BareUs(handlers);
    }
  }
  nlohmann::json result = {{"benchmark", "control_scale"},
                           {"transport", options.sockets ? "sockets" : "shared memory"},
                           {"runs", nlohmann::json::array()}};
  const std::vector<Cost>& base = costs.at(options.handlers.front());
  for (const int handlers : options.handlers) {
    std::vector<double> broker, manager, both, growth, rate, messages, requests, bare;
    for (std::size_t i = 0; i < base.size(); ++i) {
      const Cost& cost = costs.at(handlers)[i];
      broker.push_back(cost.broker_us);
      manager.push_back(cost.manager_us);
      both.push_back(cost.broker_us + cost.manager_us);
      growth.push_back(both.back() / (base[i].broker_us + base[i].manager_us));
      rate.push_back(cost.tasks_per_s);
      messages.push_back(cost.messages);
      requests.push_back(cost.requests);
      bare.push_back(cost.bare_us);
    }
    result["runs"].push_back({{"handlers", handlers},
                              {"width", SideFor(options, handlers) * kTileWidth},
                              {"tasks_per_step", costs.at(handlers).front().tasks_per_step},
                              {"broker_us_per_task", Summary(broker)},
                              {"manager_us_per_task", Summary(manager)},
                              {"both_us_per_task", Summary(both)},
                              {"growth", Summary(growth)},
                              {"tasks_per_s", Summary(rate)},
                              {"messages_per_task", Summary(messages)},
                              {"requests_per_task", Summary(requests)},
                              {"bare_router_us_per_message", Summary(bare)}});
  }
  return result;
}

}  // namespace
}  // namespace acan::bench

int main(int argc, char** argv) {
  acan::bench::Options options;
  acan::cli::CommandLine line(
      "What broker and manager cost for each task, by the number of handlers");
  acan::cli::Command& program = line.program();
  program
      .AddOption("--handlers", options.handlers, "numbers of handlers, the first to compare with")
      .ShowDefault();
  program.AddFlag("--share", options.share,
                  "as many tasks for each handler, whatever their number");
  program.AddFlag("--sockets", options.sockets, "handlers share no memory with the broker");
  program.AddOption("--memory", options.memory_mib, "limit of each handler, in MiB").ShowDefault();
  program.AddFlag("--threads", options.threads, "a thread for each handler");
  program.AddOption("--steps", options.steps, "steps of one run").ShowDefault();
  program.AddOption("--repeats", options.repeats, "runs of each").ShowDefault();
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  tuplespace::RaiseDescriptorLimit();
  try {
    std::cout << acan::bench::Measure(options).dump(2) << "\n";
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "control_scale: %s\n", error.what());
    return 1;
  }
}
