#include "scenarios/idle_handler.h"

#include <chrono>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "acan/core/names.h"
#include "acan/core/task.h"
#include "acan/cpu/cpu_device.h"
#include "acan/handler/handler.h"
#include "acan/manager/manager.h"
#include "broker/broker_host.h"
#include "cluster/jobs.h"
#include "cluster/out_folder.h"
#include "device/executor.h"
#include "fmt/format.h"
#include "seed.h"
#include "tuplespace/client.h"
#include "world/cluster_network.h"

namespace acan::simulation {
namespace {

using tuplespace::Client;
using tuplespace::Grant;

constexpr const char* kIdleEndpoint = "tcp://127.0.0.1:5555";
constexpr std::size_t kJobOfTwoLayers = 0;  // which are not cut if there is memory for them
constexpr std::size_t kAuditedJob = 6;
constexpr std::uint64_t kClaimedBytes = 1ull << 40;
constexpr std::uint64_t kOfferedBytes = 1 << 20;  // enough for every task
constexpr std::int64_t kMaxIdleUs = 300'000'000;
constexpr std::chrono::seconds kPollFor{1};

class IdleHandler {
 public:
  // `tasks`: how many tasks the idle client computes. If there are any, the handler joins after
  // them, so that it does not compute them itself.
  IdleHandler(std::size_t job, int tasks);
  ~IdleHandler();
  std::string Run(const Outcome& expected);

 private:
  void StartHandler() {
    handler_.Start([this] { HandlerBody(); });
  }
  void HandlerBody();
  void IdleBody();
  void ComputeOne(Client& client);
  void ManagerBody();

  World world_{1};
  Network network_{world_};
  Results results_;
  BrokerHost broker_{world_, network_, results_};
  OutFolder folder_;
  Process handler_{world_, "handler", 1'000'000};
  Process idle_{world_, "idle", 2'000'000};
  Process manager_{world_, "manager", 3'000'000};
  const std::size_t job_;
  const int tasks_;
  bool was_idle_ = false;
  bool done_ = false;
};

IdleHandler::IdleHandler(std::size_t job, int tasks) : job_(job), tasks_(tasks) {
  SetClusterNetwork(&network_);
  for (Process* process : {&handler_, &idle_, &manager_}) {
    process->on_death.emplace_back([this, process] { network_.ProcessDied(*process); });
  }
}

IdleHandler::~IdleHandler() {
  for (Process* process : {&handler_, &idle_, &manager_}) process->Kill();
  SetClusterNetwork(nullptr);
}

void IdleHandler::HandlerBody() {
  HandlerOptions options;
  options.endpoint = kIdleEndpoint;
  options.name = handler_.name();
  options.bytes_travel = false;
  options.device = MakeCpuDevice({.threads = 1, .memory_limit_bytes = kMinMemoryBytes, .isa = {}});
  Handler(std::move(options)).Run();
}

void IdleHandler::IdleBody() {
  Client client({.endpoint = kIdleEndpoint, .name = idle_.name(), .id = {}});
  Capacity capacity;
  capacity.name = idle_.name();
  capacity.device = "cpu:1";
  capacity.limit_bytes = capacity.memory_bytes = kClaimedBytes;
  capacity.threads = 1;
  // The handler is no spare beside a client that is as fast.
  capacity.gflops = tasks_ == 0 ? handler_.gflops : 1e9;
  capacity.exact = true;
  tuplespace::Tuple tuple;
  tuple.key = HandlerKey(client.id());
  tuple.payload = tuplespace::Payload::Copy(CapacityToJson(capacity));
  tuple.ephemeral = true;
  client.Put({std::move(tuple)});
  for (int i = 0; i < tasks_; ++i) ComputeOne(client);
  if (tasks_ > 0) StartHandler();
  for (;;) client.Poll(kPollFor);
}

void IdleHandler::ComputeOne(Client& client) {
  tuplespace::Get get;
  get.pattern = RunnableTasks(/*exact=*/true, /*fast=*/false);
  get.offer_bytes = kOfferedBytes;
  const std::vector<Grant> grants = client.GetSome(get);
  const Grant& grant = grants.front();
  std::vector<tuplespace::Pattern> patterns;
  for (const tuplespace::Key& key : grant.task->inputs) {
    patterns.push_back(tuplespace::Pattern::Of(key));
  }
  std::vector<TaskInput> inputs;
  if (!patterns.empty()) {
    for (auto& found : client.ReadAll(patterns)) inputs.push_back({std::move(found.payload), {}});
  }
  const acan::Task task = DecodeTask(grant.payload, inputs.size());
  const auto device = MakeCpuDevice({.threads = 1, .memory_limit_bytes = kOfferedBytes, .isa = {}});
  std::vector<tuplespace::Tuple> results;
  for (TaskResult& result : RunTaskOn(*device, task, std::move(inputs))) {
    tuplespace::Tuple tuple;
    tuple.key = std::move(result.key);
    tuple.payload = std::move(result.payload);
    results.push_back(std::move(tuple));
  }
  client.CompleteTask({grant.key, grant.fence}, std::move(results));
}

void IdleHandler::ManagerBody() {
  try {
    ManagerOptions options;
    options.endpoint = kIdleEndpoint;
    options.out_dir = folder_.path();
    options.source = "job";
    options.expected_handlers = tasks_ == 0 ? 2 : 1;
    options.log = [this](const std::string& line) {
      was_idle_ = was_idle_ || line.find("takes none") != std::string::npos ||
                  line.find("nobody takes an audit") != std::string::npos;
      world_.Note(line);
    };
    const SimulatedJob& job = Jobs()[job_];
    Manager(std::move(options), job.job, job.data).Run();
    done_ = true;
  } catch (const std::exception& error) {
    world_.Report(fmt::format("the manager gave up: {}", error.what()));
  }
}

std::string IdleHandler::Run(const Outcome& expected) {
  try {
    broker_.Start();
    idle_.Start([this] { IdleBody(); });
    if (tasks_ == 0) StartHandler();
    manager_.Start([this] { ManagerBody(); });
    world_.Run(kMaxIdleUs, [this] { return done_; });
    world_.Check();
    if (!done_) return "the job does not end";
    if (!was_idle_) return "nobody has noticed that the client is idle";
    broker_.CheckAll();
    world_.Check();
    if (folder_.Read().weights_sha256 != expected.weights_sha256) return "the weights differ";
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

std::string RunIdleHandler() {
  const Outcome& expected = ExpectOutcomeOf(kJobOfTwoLayers);
  return IdleHandler(kJobOfTwoLayers, 1).Run(expected);
}

std::string RunSilentVoter() {
  const Outcome& expected = ExpectOutcomeOf(kAuditedJob);
  return IdleHandler(kAuditedJob, 0).Run(expected);
}

}  // namespace acan::simulation
