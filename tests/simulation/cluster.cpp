#include "cluster.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <memory>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/names.h"
#include "acan/cpu/cpu_device.h"
#include "acan/handler/handler.h"
#include "acan/manager/manager.h"
#include "broker_host.h"
#include "cluster_network.h"
#include "fmt/format.h"
#include "jobs.h"
#include "network.h"
#include "out_folder.h"
#include "tuplespace/client.h"
#include "world.h"

namespace acan::simulation {
namespace {

constexpr const char* kEndpoint = "tcp://127.0.0.1:5555";
constexpr std::int64_t kSecondUs = 1'000'000;
// When nothing goes wrong any more, a job must be done in this time.
constexpr std::int64_t kPatienceUs = 600 * kSecondUs;
// ZeroMQ's heartbeats end a connection over which nothing comes for so long.
constexpr std::int64_t kHeartbeatEndUs = 5 * kSecondUs;
constexpr int kMostHandlers = 5;

struct HandlerSlot {
  std::uint64_t memory_bytes = 0;
  double gflops = 1;
  std::int64_t task_us = 1000;
  bool wanted = true;
  Process* process = nullptr;
  Handler* running = nullptr;
};

struct ManagerSlot {
  Process* process = nullptr;
  bool resume = false;
  std::int64_t lead_lost_us = kNever;
};

class Cluster {
 public:
  Cluster(const SeedOptions& options, std::size_t job, bool disturbed);
  ~Cluster();

  SeedResult Run(const Outcome* expected);
  Outcome outcome() const { return folder_.Read(); }

 private:
  Random& random() { return world_.random(); }
  Process& NewProcess(const std::string& name);
  void KillProcess(Process*& process);
  void Begin();
  void AddHandler(bool large);
  void StartHandler(std::size_t slot);
  void HandlerBody(std::size_t slot);
  void StartManager(std::size_t slot, bool standby);
  void ManagerBody(std::size_t slot, bool standby);
  void OnManagerEnd(std::size_t slot, const std::string& error);
  void StartBroker();
  bool Expected(const std::string& error) const;
  std::string WithoutFolder(std::string text) const;

  void DrawFaults();
  void NextFault();
  bool Do(Fault fault);
  bool StopProcess(Process* process);
  bool StopBroker();
  bool BreakOne();
  bool StallOne();
  bool JumpOne();
  bool DamageSnapshot();
  HandlerSlot* AnyHandler();
  std::int64_t RestartDelayUs() { return random().Magnitude(1'000, 20 * kSecondUs); }
  void Heal();
  void CheckEnd(const Outcome* expected);

  World world_;
  Network network_;
  Results results_;
  const SimulatedJob& job_;
  const std::size_t job_index_;
  const bool disturbed_;
  OutFolder folder_;
  BrokerHost broker_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<HandlerSlot> handlers_;
  std::vector<ManagerSlot> managers_;
  std::vector<Fault> enabled_;
  std::int64_t mean_gap_us_ = kSecondUs;
  bool faulty_ = false;
  int failures_left_ = 0;
  bool damaged_ = false;
  bool finished_ = false;  // a manager has ended with a receipt
  std::array<std::uint64_t, kFaults> counts_{};
};

Cluster::Cluster(const SeedOptions& options, std::size_t job, bool disturbed)
    : world_(options.seed),
      network_(world_),
      job_(Jobs()[job]),
      job_index_(job),
      disturbed_(disturbed),
      broker_(world_, network_, results_) {
  SetClusterNetwork(&network_);
  handlers_.reserve(kMostHandlers);  // tasks refer to them
  if (options.trace) {
    world_.OnNote(
        [this, trace = options.trace](const std::string& line) { trace(world_.now_us(), line); });
  }
}

Cluster::~Cluster() {
  for (const auto& process : processes_) process->Kill();
  processes_.clear();
  SetClusterNetwork(nullptr);
}

// ---- roles
// ---------------------------------------------------------------------------------------

Process& Cluster::NewProcess(const std::string& name) {
  processes_.push_back(
      std::make_unique<Process>(world_, name, random().Magnitude(1, 1'000'000'000'000)));
  Process& process = *processes_.back();
  process.on_death.push_back([this, &process] { network_.ProcessDied(process); });
  return process;
}

void Cluster::KillProcess(Process*& process) {
  if (process == nullptr) return;
  world_.Note("killed: " + process->name());
  std::exchange(process, nullptr)->Kill();
}

void Cluster::StartBroker() {
  if (broker_.running()) return;
  world_.Note("a broker starts");
  broker_.Start();
}

void Cluster::AddHandler(bool large) {
  HandlerSlot slot;
  // Always one that can hold every task that another one could: a job that needs more than anybody
  // has would wait for ever, and rightly.
  slot.memory_bytes = large ? 256u << 10 : kLeastMemoryBytes << random().Below(4);
  slot.gflops = static_cast<double>(random().Magnitude(1, 64));
  slot.task_us = random().Magnitude(200, 20'000);
  if (random().OneIn(4)) slot.task_us *= 20;
  handlers_.push_back(slot);
  StartHandler(handlers_.size() - 1);
}

void Cluster::StartHandler(std::size_t slot) {
  HandlerSlot& handler = handlers_[slot];
  if (handler.process != nullptr || !handler.wanted) return;
  Process& process = NewProcess(fmt::format("handler {}", slot));
  process.gflops = handler.gflops;
  process.task_us = handler.task_us;
  handler.process = &process;
  world_.Note(fmt::format("handler {} starts, {} bytes", slot, handler.memory_bytes));
  process.Start([this, slot] { HandlerBody(slot); });
}

void Cluster::HandlerBody(std::size_t slot) {
  Process& process = *handlers_[slot].process;
  struct NoMoreRunning {
    HandlerSlot* slot;
    ~NoMoreRunning() { slot->running = nullptr; }
  };
  try {
    HandlerOptions options;
    options.endpoint = kEndpoint;
    options.name = process.name();
    options.device = MakeCpuDevice(
        {.threads = 1, .memory_limit_bytes = handlers_[slot].memory_bytes, .isa = {}});
    options.log = [this, slot](const std::string& line) {
      world_.Note(fmt::format("handler {}: {}", slot, line));
    };
    Handler handler(std::move(options));
    handlers_[slot].running = &handler;
    const NoMoreRunning guard{&handlers_[slot]};
    handler.Run();
  } catch (const DeviceLost&) {
    world_.Note(fmt::format("handler {} lost its device", slot));
  } catch (const std::exception& error) {
    world_.Report(fmt::format("handler {} failed: {}", slot, error.what()));
  }
  world_.After(RestartDelayUs(), [this, slot, process = &process] {
    if (handlers_[slot].process != process) return;
    handlers_[slot].process = nullptr;
    StartHandler(slot);
  });
}

void Cluster::StartManager(std::size_t slot, bool standby) {
  ManagerSlot& manager = managers_[slot];
  if (manager.process != nullptr || finished_) return;
  if (folder_.HasReceipt()) {
    // As `acan train --resume` says. Another manager may still be busy with what it left.
    finished_ = std::all_of(managers_.begin(), managers_.end(),
                            [](const ManagerSlot& each) { return each.process == nullptr; });
    return;
  }
  manager.process = &NewProcess(fmt::format("manager {}", slot));
  manager.lead_lost_us = kNever;
  world_.Note(fmt::format("manager {} starts{}{}", slot, manager.resume ? ", to resume" : "",
                          standby ? ", to stand by" : ""));
  manager.process->Start([this, slot, standby] { ManagerBody(slot, standby); });
}

void Cluster::ManagerBody(std::size_t slot, bool standby) {
  Process* const process = managers_[slot].process;
  std::string failure;
  try {
    ManagerOptions options;
    options.endpoint = kEndpoint;
    options.out_dir = folder_.path();
    options.expected_handlers = static_cast<int>(random().Below(handlers_.size() + 1));
    options.resume = managers_[slot].resume;
    options.standby = standby;
    options.source = "job";
    options.log = [this, slot](const std::string& line) {
      world_.Note(fmt::format("manager {}: {}", slot, WithoutFolder(line)));
    };
    options.progress = [this, slot, process](const Progress& progress) {
      world_.Note(fmt::format("manager {}: step {} loss {}", slot, progress.step, progress.loss));
      // Between two writes to its files.
      if (faulty_ && random().OneIn(64)) {
        ++counts_[static_cast<std::size_t>(Fault::kKillManager)];
        managers_[slot].process = nullptr;
        world_.Note("killed: " + process->name());
        world_.After(RestartDelayUs(), [this, slot] {
          managers_[slot].resume = true;
          StartManager(slot, false);
        });
        process->Kill();
        throw ProcessKilled{};
      }
    };
    Manager manager(std::move(options), job_.job, job_.data);
    const std::optional<Receipt> receipt = manager.Run();
    if (receipt) {
      world_.Note(fmt::format("manager {} is done: {}", slot, receipt->weights_sha256));
      finished_ = true;
    }
  } catch (const std::exception& error) {
    failure = error.what();
  }
  if (!failure.empty())
    world_.Note(fmt::format("manager {} gives up: {}", slot, WithoutFolder(failure)));
  if (!failure.empty() && !Expected(failure)) {
    world_.Report(fmt::format("manager {} gave up: {}", slot, WithoutFolder(failure)));
  }
  world_.After(RestartDelayUs(), [this, slot, process, failure] {
    if (managers_[slot].process != process) return;
    managers_[slot].process = nullptr;
    OnManagerEnd(slot, failure);
  });
}

// The folder has a random name, and a seed's history has none.
std::string Cluster::WithoutFolder(std::string text) const {
  const std::string path = folder_.path();
  for (std::size_t at; (at = text.find(path)) != std::string::npos;) {
    text.replace(at, path.size(), "OUT");
  }
  return text;
}

// What a manager may end with, given what was done to it.
bool Cluster::Expected(const std::string& error) const {
  const auto says = [&](const char* words) { return error.find(words) != std::string::npos; };
  return says("already has a manager") || says("lost the lead") ||
         (damaged_ && says("none of the snapshots"));
}

void Cluster::OnManagerEnd(std::size_t slot, const std::string& error) {
  // As whoever reads the message would do.
  managers_[slot].resume = error.find("none of the snapshots") == std::string::npos;
  StartManager(slot, false);
}

void Cluster::Begin() {
  const std::int64_t most_delay_us = random().Magnitude(200, 20'000);
  network_.conditions.least_delay_us = 50;
  network_.conditions.most_delay_us = most_delay_us;
  StartBroker();
  const std::size_t count = disturbed_ ? 1 + random().Below(4) : 1;
  AddHandler(true);
  while (handlers_.size() < count) AddHandler(false);
  managers_.resize(2);
  StartManager(0, false);
}

// ---- faults
// --------------------------------------------------------------------------------------

// Not all faults in all seeds: some defects show only while something else does not happen.
void Cluster::DrawFaults() {
  if (!disturbed_) return;
  while (enabled_.empty()) {
    for (std::size_t i = 0; i < kFaults; ++i) {
      if (random().OneIn(3)) enabled_.push_back(static_cast<Fault>(i));
    }
  }
  mean_gap_us_ = random().Magnitude(30'000, 4 * kSecondUs);
  failures_left_ = 2;  // of one task a third would end the job, rightly
  if (random().OneIn(3)) network_.conditions.one_late_in = 20 << random().Below(5);
  if (random().OneIn(2)) broker_.SetLiesOneIn(8);
  faulty_ = true;
  world_.At(world_.now_us() + random().Magnitude(4 * kSecondUs, 120 * kSecondUs),
            [this] { Heal(); });
  NextFault();
}

void Cluster::NextFault() {
  world_.After(random().Magnitude(mean_gap_us_ / 8 + 1, mean_gap_us_ * 2), [this] {
    if (!faulty_ || finished_) return;
    const Fault fault = enabled_[random().Below(enabled_.size())];
    if (Do(fault)) ++counts_[static_cast<std::size_t>(fault)];
    NextFault();
  });
}

HandlerSlot* Cluster::AnyHandler() {
  return handlers_.empty() ? nullptr : &handlers_[random().Below(handlers_.size())];
}

bool Cluster::Do(Fault fault) {
  const auto restart_handlers = [this] {
    for (std::size_t i = 0; i < handlers_.size(); ++i) StartHandler(i);
  };
  const auto restart_manager = [this] {
    managers_[0].resume = true;
    StartManager(0, false);
  };
  switch (fault) {
    case Fault::kKillHandler:
    case Fault::kHandlerLeaves: {
      HandlerSlot& handler = *AnyHandler();
      if (handler.process == nullptr) return false;
      if (fault == Fault::kHandlerLeaves && handler.running != nullptr &&
          !handler.process->stopped()) {
        world_.Note("leaves: " + handler.process->name());
        handler.running->Stop();  // it comes back after a while
        return true;
      }
      KillProcess(handler.process);
      world_.After(RestartDelayUs(), restart_handlers);
      return true;
    }
    case Fault::kKillManager: {
      ManagerSlot& manager = managers_[random().Below(managers_.size())];
      if (manager.process == nullptr) return false;
      KillProcess(manager.process);
      world_.After(RestartDelayUs(), restart_manager);
      return true;
    }
    case Fault::kKillBroker:
      if (!broker_.running()) return false;
      world_.Note("killed: the broker");
      broker_.Kill();
      world_.After(RestartDelayUs(), [this] { StartBroker(); });
      return true;
    case Fault::kKillAll:
      world_.Note("everything is killed at once");
      broker_.Kill();
      for (HandlerSlot& handler : handlers_) KillProcess(handler.process);
      for (ManagerSlot& manager : managers_) KillProcess(manager.process);
      world_.After(RestartDelayUs(), [this] { StartBroker(); });
      world_.After(RestartDelayUs(), restart_manager);
      world_.After(RestartDelayUs(), restart_handlers);
      return true;
    case Fault::kStopHandler:
      return StopProcess(AnyHandler()->process);
    case Fault::kStopManager:
      return StopProcess(managers_[random().Below(managers_.size())].process);
    case Fault::kStopBroker:
      return StopBroker();
    case Fault::kBreak:
      return BreakOne();
    case Fault::kStall:
      return StallOne();
    case Fault::kClockJump:
      return JumpOne();
    case Fault::kDamageSnapshot:
      return DamageSnapshot();
    case Fault::kDeviceFailure: {
      HandlerSlot& handler = *AnyHandler();
      if (handler.process == nullptr || failures_left_ == 0) return false;
      --failures_left_;
      ++handler.process->device_failures;
      return true;
    }
    case Fault::kDeviceLost: {
      HandlerSlot& handler = *AnyHandler();
      if (handler.process == nullptr) return false;
      handler.process->device_lost = true;
      return true;
    }
    case Fault::kHandlerJoins:
      if (handlers_.size() >= kMostHandlers) return false;
      AddHandler(false);
      return true;
    case Fault::kSecondManager:
      if (managers_[1].process != nullptr) return false;
      managers_[1].resume = true;
      StartManager(1, /*standby=*/random().OneIn(2));
      return true;
  }
  return false;
}

bool Cluster::StopProcess(Process* process) {
  if (process == nullptr || !process->alive() || process->stopped()) return false;
  const std::int64_t duration_us = random().Magnitude(10'000, 40 * kSecondUs);
  world_.Note(fmt::format("stopped for {} us: {}", duration_us, process->name()));
  process->Stop();
  world_.After(duration_us, [process] { process->Continue(); });
  if (duration_us < kHeartbeatEndUs) return true;
  for (const auto& connection : network_.Up()) {
    if (connection->process() != process) continue;
    network_.Break(connection, duration_us, kHeartbeatEndUs + random().Magnitude(1, kSecondUs));
  }
  return true;
}

bool Cluster::StopBroker() {
  if (!broker_.running() || broker_.stopped()) return false;
  const std::int64_t duration_us = random().Magnitude(10'000, 30 * kSecondUs);
  world_.Note(fmt::format("stopped for {} us: the broker", duration_us));
  broker_.Stop();
  world_.After(duration_us, [this, life = broker_.life()] {
    if (broker_.life() == life) broker_.Continue();
  });
  if (duration_us < kHeartbeatEndUs) return true;
  for (const auto& connection : network_.Up()) {
    network_.Break(connection, kHeartbeatEndUs + random().Magnitude(1, kSecondUs), duration_us);
  }
  return true;
}

bool Cluster::BreakOne() {
  const auto up = network_.Up();
  if (up.empty()) return false;
  const auto& connection = up[random().Below(up.size())];
  world_.Note("a connection ends: " + connection->process()->name());
  network_.Break(connection, random().Magnitude(100, 6 * kSecondUs),
                 random().Magnitude(100, 6 * kSecondUs));
  return true;
}

bool Cluster::StallOne() {
  const auto up = network_.Up();
  if (up.empty()) return false;
  const auto connection = up[random().Below(up.size())];
  const Network::Way way = random().OneIn(2) ? Network::Way::kToBroker : Network::Way::kToClient;
  const std::int64_t duration_us = random().Magnitude(10'000, 20 * kSecondUs);
  world_.Note(fmt::format("nothing gets {} for {} us: {}",
                          way == Network::Way::kToBroker ? "out" : "in", duration_us,
                          connection->process()->name()));
  network_.Stall(connection, way, duration_us);
  if (duration_us < kHeartbeatEndUs) return true;
  world_.After(kHeartbeatEndUs, [this, connection] {
    network_.Break(connection, random().Magnitude(100, kSecondUs),
                   random().Magnitude(100, kSecondUs));
  });
  return true;
}

bool Cluster::JumpOne() {
  const std::int64_t forward_us = random().Magnitude(1'000, 60 * kSecondUs);
  if (random().OneIn(4)) {
    if (!broker_.running()) return false;
    world_.Note(fmt::format("the broker's clock jumps by {} us", forward_us));
    broker_.JumpClock(forward_us);
    return true;
  }
  std::vector<Process*> alive;
  for (const auto& process : processes_) {
    if (process->alive() && !process->ended()) alive.push_back(process.get());
  }
  if (alive.empty()) return false;
  Process* const process = alive[random().Below(alive.size())];
  world_.Note(fmt::format("the clock jumps by {} us: {}", forward_us, process->name()));
  process->JumpClock(forward_us);
  return true;
}

// As a host that loses power: managers die, and what they wrote last is not what they wrote.
bool Cluster::DamageSnapshot() {
  for (ManagerSlot& manager : managers_) KillProcess(manager.process);
  world_.After(RestartDelayUs(), [this] {
    managers_[0].resume = true;
    StartManager(0, false);
  });
  if (!folder_.DamageSnapshot(random())) return true;
  world_.Note("a snapshot is damaged");
  damaged_ = true;
  return true;
}

void Cluster::Heal() {
  if (!faulty_) return;
  world_.Note("no more faults");
  faulty_ = false;
  broker_.SetLiesOneIn(0);
  network_.conditions.one_late_in = 0;
  for (const auto& process : processes_) process->Continue();
  broker_.Continue();
  StartBroker();
  for (std::size_t i = 0; i < handlers_.size(); ++i) StartHandler(i);
  managers_[0].resume = true;
  StartManager(0, false);
}

// ---- the end
// -------------------------------------------------------------------------------------

SeedResult Cluster::Run(const Outcome* expected) {
  SeedResult result;
  result.job = job_index_;
  try {
    Begin();
    DrawFaults();
    const std::int64_t end_us = world_.now_us() + 130 * kSecondUs + kPatienceUs;
    world_.Run(end_us, [this] { return finished_; });
    if (!finished_) {
      world_.Report(
          fmt::format("the job is not done after {} s, though nothing goes wrong any more",
                      end_us / kSecondUs));
      throw Violation("the job is not done though nothing goes wrong any more");
    }
    CheckEnd(expected);
  } catch (const Violation& violation) {
    result.violation = violation.what();
  }
  result.virtual_us = world_.now_us();
  result.events = world_.events();
  result.trace_hash = world_.trace_hash();
  result.requests = broker_.totals().requests;
  result.conflicts_made = broker_.totals().conflicts_made;
  result.faults = counts_;
  return result;
}

void Cluster::CheckEnd(const Outcome* expected) {
  faulty_ = false;
  // What is under way arrives, so that nothing is left to say.
  world_.Run(world_.now_us() + kSecondUs, [] { return false; });
  broker_.CheckAll();
  world_.Check();
  if (expected == nullptr) return;
  if (!folder_.HasReceipt()) throw Violation("a manager was done, but its receipt is gone");
  const Outcome outcome = folder_.Read();
  if (outcome.weights_sha256 != expected->weights_sha256) {
    throw Violation(fmt::format("the weights are {}, without faults they are {}",
                                outcome.weights_sha256, expected->weights_sha256));
  }
  if (outcome.metrics != expected->metrics) {
    for (const std::string& line : outcome.metrics) world_.Note("metrics: " + line);
    throw Violation(
        "metrics.jsonl has not each step and evaluation once, in order, as without faults");
  }
}

}  // namespace

const char* NameOf(Fault fault) {
  static constexpr std::array<const char*, kFaults> kNames = {
      "handler killed",  "manager killed",  "broker killed",    "all killed",
      "handler stopped", "manager stopped", "broker stopped",   "connection ended",
      "one way stalled", "clock jumped",    "snapshot damaged", "task failed on the device",
      "device lost",     "handler joined",  "handler left",     "second manager"};
  return kNames[static_cast<std::size_t>(fault)];
}

Outcome TrainUndisturbed(std::size_t job) {
  Cluster cluster({.seed = 1, .trace = {}}, job, /*disturbed=*/false);
  const SeedResult result = cluster.Run(nullptr);
  if (!result.violation.empty()) {
    throw Violation(fmt::format("job {}, without faults: {}", job, result.violation));
  }
  return cluster.outcome();
}

const Outcome& ExpectOutcomeOf(std::size_t job) {
  static std::map<std::size_t, Outcome> known;
  const auto it = known.find(job);
  if (it != known.end()) return it->second;
  return known.emplace(job, TrainUndisturbed(job)).first->second;
}

std::size_t JobCount() {
  return Jobs().size();
}

SeedResult RunSeed(const SeedOptions& options) {
  const std::size_t job = Random(options.seed ^ 0x5eed).Below(Jobs().size());
  const Outcome& expected = ExpectOutcomeOf(job);
  return Cluster(options, job, /*disturbed=*/true).Run(&expected);
}

}  // namespace acan::simulation
