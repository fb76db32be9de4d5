#include "train_bench.h"

#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "acan/core/schedule.h"
#include "acan/cpu/cpu_device.h"
#include "acan/handler/handler.h"
#include "acan/manager/load_data.h"
#include "acan/manager/manager.h"
#include "children.h"
#include "clock.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "plain_loop.h"
#include "temporary_folder.h"
#include "tuplespace/broker.h"

namespace acan::bench {
namespace {

constexpr std::uint64_t kMemoryBytes = 3ull << 30;
constexpr int kWarmUpSteps = 3;

std::unique_ptr<Device> MakeCpu(int threads) {
  return MakeCpuDevice({.threads = threads, .memory_limit_bytes = kMemoryBytes, .isa = {}});
}

struct Run {
  double samples_per_s = 0;
  std::string weights_sha256;
};

// Samples per second, from the times at which steps ended.
double Rate(const std::vector<double>& done_s, std::int64_t batch) {
  const std::size_t first = kWarmUpSteps - 1;
  return static_cast<double>(done_s.size() - 1 - first) * static_cast<double>(batch) /
         (done_s.back() - done_s[first]);
}

Run RunStack(const TrainBenchOptions& options, const Job& job, const Data& data) {
  const TemporaryFolder folder;
  const std::string endpoint = folder.Endpoint("space");
  Run run;
  {
    Children children;
    children.Start([&] {
      tuplespace::BrokerOptions broker;
      broker.listen = {endpoint};
      tuplespace::Broker(std::move(broker)).Run();
    });
    for (int i = 0; i < options.handlers; ++i) {
      children.Start([&] {
        HandlerOptions handler;
        handler.endpoint = endpoint;
        handler.name = "bench";
        handler.device = options.make_handler_device ? options.make_handler_device() : MakeCpu(1);
        Handler(std::move(handler)).Run();
      });
    }
    std::vector<double> done_s;
    ManagerOptions manager;
    manager.endpoint = endpoint;
    manager.expected_handlers = options.handlers;
    manager.source = "bench train";
    manager.progress = [&](const Progress& progress) {
      if (static_cast<std::size_t>(progress.step) > done_s.size()) done_s.push_back(NowS());
    };
    const std::optional<Receipt> receipt = Manager(std::move(manager), job, data).Run();
    run.weights_sha256 = receipt->weights_sha256;
    run.samples_per_s = Rate(done_s, options.batch);
  }
  return run;
}

void PlainLoopInto(int pipe, const TrainBenchOptions& options, const Job& job, const Data& data) {
  const std::unique_ptr<Device> device =
      options.make_device ? options.make_device() : MakeCpu(options.handlers);
  PlainLoop loop(*device, job, *data.train);
  std::vector<double> done_s;
  for (std::int64_t step = 0; step < loop.total_steps(); ++step) {
    loop.Step(step);
    done_s.push_back(NowS());
  }
  const std::string text = fmt::format("{} {}", Rate(done_s, options.batch), loop.WeightsSha256());
  if (::write(pipe, text.data(), text.size()) != static_cast<ssize_t>(text.size())) ::_exit(1);
}

// Runs in a separate process, as the handlers do.
Run RunPlain(const TrainBenchOptions& options, const Job& job, const Data& data) {
  int pipe[2];
  if (::pipe(pipe) != 0) throw std::runtime_error("cannot make a pipe");
  Children children;
  children.Start([&] { PlainLoopInto(pipe[1], options, job, data); }, 0);
  ::close(pipe[1]);
  std::string text;
  char part[256];
  for (ssize_t n = 0; (n = ::read(pipe[0], part, sizeof(part))) > 0;) {
    text.append(part, static_cast<std::size_t>(n));
  }
  ::close(pipe[0]);
  Run run;
  std::istringstream(text) >> run.samples_per_s >> run.weights_sha256;
  if (run.weights_sha256.empty()) throw std::runtime_error("the plain loop did not end");
  return run;
}

nlohmann::json Spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return {{"median", (values[(n - 1) / 2] + values[n / 2]) / 2},
          {"min", values.front()},
          {"max", values.back()},
          {"repeats", n}};
}

}  // namespace

nlohmann::json RunTrainBench(const TrainBenchOptions& options) {
  if (options.steps <= kWarmUpSteps || options.repeats < 1 || options.handlers < 1) {
    throw std::invalid_argument(
        fmt::format("needs more than {} steps, and a repeat and a handler at least", kWarmUpSteps));
  }
  const Job job = ParseJob(
      fmt::format("[model]\nlayers = [{}]\nloss = \"mse\"\n[data]\ngenerated = \"regression\"\n"
                  "samples = {}\n[train]\nbatch = {}\nepochs = 1\nlearning_rate = 0.01\n",
                  fmt::join(options.layers, ", "), options.batch * options.steps, options.batch),
      "bench train", ".", {});
  Data data = LoadData(job);
  data.test = nullptr;
  std::vector<double> stack, plain, ratios;
  bool same = true;
  for (int i = 0; i < options.repeats; ++i) {
    // The loop runs first, because it fails immediately if the device cannot be used.
    const Run b = RunPlain(options, job, data);
    const Run a = RunStack(options, job, data);
    stack.push_back(a.samples_per_s);
    plain.push_back(b.samples_per_s);
    ratios.push_back(a.samples_per_s / b.samples_per_s);
    same = same && a.weights_sha256 == b.weights_sha256;
  }
  return {{"job", fmt::format("{}, batch {}", fmt::join(options.layers, "-"), options.batch)},
          {"handlers", options.handlers},
          {"steps", options.steps},
          {"acan_samples_per_s", Spread(stack)},
          {"plain_samples_per_s", Spread(plain)},
          {"ratio", Spread(ratios)},
          {"same_weights", same}};
}

}  // namespace acan::bench
