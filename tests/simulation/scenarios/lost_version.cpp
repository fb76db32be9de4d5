#include "scenarios/lost_version.h"

#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "acan/cpu/cpu_device.h"
#include "acan/handler/handler.h"
#include "acan/manager/manager.h"
#include "broker/broker_host.h"
#include "cluster/jobs.h"
#include "cluster/out_folder.h"
#include "fmt/format.h"
#include "own_memory_device.h"
#include "seed.h"
#include "world/cluster_network.h"

namespace acan::simulation {
namespace {

constexpr const char* kVersionEndpoint = "tcp://127.0.0.1:5555";
constexpr std::size_t kVersionJob = 5;  // many short steps
// Every third version is put into the space (tasks.resident_steps); this one is not.
constexpr std::int64_t kLostVersion = 4;
constexpr std::int64_t kMaxVersionUs = 300'000'000;

class LostVersion {
 public:
  LostVersion();
  ~LostVersion();
  std::string Run(const Outcome& expected);

 private:
  void HandlerBody(const Process& process);
  void ManagerBody();
  void OnStep(std::int64_t step);

  World world_{1};
  Network network_{world_};
  Results results_;
  BrokerHost broker_{world_, network_, results_};
  OutFolder folder_;
  Process lost_{world_, "lost", 1'000'000};
  Process next_{world_, "next", 2'000'000};
  Process manager_{world_, "manager", 3'000'000};
  bool is_lost_ = false;
  bool went_back_ = false;
  bool done_ = false;
};

LostVersion::LostVersion() {
  SetClusterNetwork(&network_);
  for (Process* process : {&lost_, &next_, &manager_}) {
    process->on_death.emplace_back([this, process] { network_.ProcessDied(*process); });
  }
}

LostVersion::~LostVersion() {
  for (Process* process : {&lost_, &next_, &manager_}) process->Kill();
  SetClusterNetwork(nullptr);
}

void LostVersion::HandlerBody(const Process& process) {
  HandlerOptions options;
  options.endpoint = kVersionEndpoint;
  options.name = process.name();
  options.bytes_travel = false;
  options.device = std::make_unique<test::OwnMemoryDevice>(
      MakeCpuDevice({.threads = 1, .memory_limit_bytes = 256 << 10, .isa = {}}));
  Handler(std::move(options)).Run();
}

void LostVersion::OnStep(std::int64_t step) {
  if (step != kLostVersion || std::exchange(is_lost_, true)) return;
  world_.After(1, [this] {
    lost_.Kill();
    next_.Start([this] { HandlerBody(next_); });
  });
}

void LostVersion::ManagerBody() {
  try {
    ManagerOptions options;
    options.endpoint = kVersionEndpoint;
    options.out_dir = folder_.path();
    options.source = "job";
    options.least_removed_bytes = 1;  // so that these small results stay on the device
    options.progress = [this](const Progress& progress) { OnStep(progress.step); };
    options.log = [this](const std::string& line) {
      const std::string back = fmt::format("going back from step {} to step 3", kLostVersion);
      went_back_ = went_back_ || line.find(back) != std::string::npos;
      world_.Note(line);
    };
    const SimulatedJob& job = Jobs()[kVersionJob];
    Manager(std::move(options), job.job, job.data).Run();
    done_ = true;
  } catch (const std::exception& error) {
    world_.Report(fmt::format("the manager gave up: {}", error.what()));
  }
}

std::string LostVersion::Run(const Outcome& expected) {
  try {
    broker_.Start();
    lost_.Start([this] { HandlerBody(lost_); });
    manager_.Start([this] { ManagerBody(); });
    world_.Run(kMaxVersionUs, [this] { return done_; });
    world_.Check();
    if (!done_) return "the job does not end";
    if (!went_back_) return "the scenario has not lost that version";
    broker_.CheckAll();
    world_.Check();
    const Outcome outcome = folder_.Read();
    if (outcome.weights_sha256 != expected.weights_sha256) return "the weights differ";
    if (outcome.metrics != expected.metrics) return "the metrics differ";
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

std::string RunLostVersion() {
  const Outcome& expected = ExpectOutcomeOf(kVersionJob);
  return LostVersion().Run(expected);
}

}  // namespace acan::simulation
