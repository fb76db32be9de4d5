#include "scenarios/late_supply.h"

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "acan/core/names.h"
#include "acan/cpu/cpu_device.h"
#include "acan/handler/handler.h"
#include "acan/manager/pass_tasks.h"
#include "broker/broker_host.h"
#include "cluster/jobs.h"
#include "own_memory_device.h"
#include "tuplespace/client.h"
#include "world/cluster_network.h"

namespace acan::simulation {
namespace {

using tuplespace::Client;
using tuplespace::FoundTuple;
using tuplespace::Key;
using tuplespace::Pattern;

constexpr const char* kSupplyEndpoint = "tcp://127.0.0.1:5555";
// The handler supplies a result unasked after 50 ms without work. The new result must not be under
// way when the stall ends.
constexpr std::int64_t kSupplyStallUs = 60'000;
constexpr std::int64_t kRetiredAfterUs = 20'000;
constexpr std::int64_t kMaxSupplyUs = 120'000'000;
constexpr std::int64_t kLeaseUs = 60'000'000;
constexpr std::chrono::seconds kWait{20};

// A task without inputs whose results may stay with the handler.
PlannedTask AnyTask() {
  const SimulatedJob& job = Jobs().front();
  const PlannedModel model = LowerModel(BuildModel(job.job));
  PlanRequest request{.model = model,
                      .training = job.job.training,
                      .capacity_bytes = 1 << 20,
                      .size_bytes = {},
                      .batch_rows = {}};
  std::uint64_t smallest = 0;
  const std::optional<Plan> plan = MakePlan(request, &smallest);
  if (!plan) throw std::logic_error("no plan");
  PlannedTask task = PassTasks(model, job.job.training, *plan).Initialize("run").front();
  for (Output& output : task.task.outputs) output.may_be_resident = output.keep = true;
  return task;
}

class LateSupply {
 public:
  LateSupply();
  ~LateSupply();
  std::string Run();

 private:
  void HandlerBody();
  void ManagerBody();
  void StallHandler();
  // Puts the task and waits until the handler has made the result, whose bytes stay with it.
  void AwaitResult(Client& client);
  std::string Bytes(Client& client);

  World world_{1};
  Network network_{world_};
  Results results_;
  BrokerHost broker_{world_, network_, results_};
  Process handler_{world_, "handler", 1'000'000};
  Process manager_{world_, "manager", 2'000'000};
  const PlannedTask task_ = AnyTask();
  const Key result_ = task_.task.outputs.front().key;
  bool done_ = false;
};

LateSupply::LateSupply() {
  SetClusterNetwork(&network_);
  for (Process* process : {&handler_, &manager_}) {
    process->on_death.emplace_back([this, process] { network_.ProcessDied(*process); });
  }
  network_.conditions.least_delay_us = 50;
  network_.conditions.most_delay_us = 200;
}

LateSupply::~LateSupply() {
  for (Process* process : {&handler_, &manager_}) process->Kill();
  SetClusterNetwork(nullptr);
}

void LateSupply::HandlerBody() {
  HandlerOptions options;
  options.endpoint = kSupplyEndpoint;
  options.name = handler_.name();
  options.bytes_travel = false;  // otherwise it waits longer than 50 ms before it supplies unasked
  options.device = std::make_unique<test::OwnMemoryDevice>(
      MakeCpuDevice({.threads = 1, .memory_limit_bytes = 1 << 20, .isa = {}}));
  Handler(std::move(options)).Run();
}

void LateSupply::StallHandler() {
  for (const auto& connection : network_.Up()) {
    if (connection->process() == &handler_) {
      return network_.Stall(connection, Network::Way::kToBroker, kSupplyStallUs);
    }
  }
  world_.Report("the handler is not connected");
}

void LateSupply::AwaitResult(Client& client) {
  client.Put({ToTuple(task_, kLeaseUs)});
  const auto found = client.ReadAll({Pattern::Of(result_)}, kWait, /*metadata_only=*/true);
  if (found.size() != 1 || !found.front().resident) {
    world_.Report("the result does not stay with the handler");
  }
}

std::string LateSupply::Bytes(Client& client) {
  const std::optional<FoundTuple> found = client.ReadOne(Pattern::Of(result_), kWait);
  if (!found) world_.Report("the result that was made anew is gone");
  return found ? std::string(found->payload.text()) : "";
}

void LateSupply::ManagerBody() {
  Client client({.endpoint = kSupplyEndpoint, .name = "manager", .id = {}});
  AwaitResult(client);
  StallHandler();  // while it waits for a task and is asked for the bytes of this result
  client.Submit(
      tuplespace::Read{.patterns = {Pattern::Of(result_)}, .wait_us = kRetiredAfterUs / 2},
      [](tuplespace::ReplyBody&&) {});
  client.Poll(std::chrono::microseconds(0));
  world_.Sleep(kRetiredAfterUs);  // until the handler has sent the bytes
  client.RetireAll(Pattern::Of(result_), /*watermark=*/false);
  client.RetireAll(Pattern::Of(task_.key), /*watermark=*/false);
  AwaitResult(client);
  if (Bytes(client).empty()) world_.Report("the result has no bytes");
  done_ = true;
}

std::string LateSupply::Run() {
  try {
    broker_.Start();
    handler_.Start([this] { HandlerBody(); });
    manager_.Start([this] { ManagerBody(); });
    world_.Run(kMaxSupplyUs, [this] { return done_; });
    if (!done_) return "the scenario does not end";
    broker_.CheckAll();
    world_.Check();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

std::string RunLateSupply() {
  return LateSupply().Run();
}

}  // namespace acan::simulation
