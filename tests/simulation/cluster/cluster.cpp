#include "cluster/cluster.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>

#include "acan/core/error.h"
#include "acan/cpu/cpu_device.h"
#include "acan/manager/manager.h"
#include "fmt/format.h"
#include "own_memory_device.h"
#include "tuplespace/client.h"
#include "world/cluster_network.h"

namespace acan::simulation {
namespace {

constexpr std::uint64_t kMinTaskBytes = 1024;  // one tile of weights
constexpr const char* kEndpoint = "tcp://127.0.0.1:5555";
// Without further faults a job must end within this time. A hostile handler continues, and may
// delay each step by holding a task for as long as a lease can be extended.
constexpr std::int64_t kPatienceUs = 600 * kSecondUs;
constexpr std::int64_t kHostilePatienceUs = 7200 * kSecondUs;
// The silence after which the brokers here lose a client.
const std::int64_t kSilenceUs = tuplespace::BrokerCoreOptions().client_silence_us;

}  // namespace

Cluster::Cluster(const SeedOptions& options, std::size_t job, bool disturbed)
    : world_(options.seed),
      network_(world_),
      job_(Jobs()[job]),
      job_index_(job),
      disturbed_(disturbed),
      broker_(world_, network_, results_) {
  drawn_.seed = options.seed;
  drawn_.job = job_.name;
  drawn_.adds_hostile = options.hostile;
  if (disturbed) drawn_.faults = options.faults;
  drawn_.faults_are_given = !options.faults.empty();
  // Does not draw from world_'s random numbers, so that the histories of other seeds do not change.
  drawn_.own_folders = disturbed && Random(options.seed ^ 0xf01de5).OneIn(3);
  DrawCuts();
  SetClusterNetwork(&network_);
  handlers_.reserve(kMaxHandlers);  // tasks refer to its elements
  if (options.trace_messages) broker_.TraceMessages();
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

// ---- roles --------------------------------------------------------------------------------------

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
  tidied_up_ = false;
  std::exchange(process, nullptr)->Kill();
}

void Cluster::StartBroker() {
  if (broker_.running()) return;
  world_.Note("a broker starts");
  broker_.Start();
}

// Draws what decides how many tasks there are and what moves between handlers. Uses its own random
// numbers, as own_folders does.
void Cluster::DrawCuts() {
  Random random(drawn_.seed ^ 0x114b5);
  drawn_.knows_links = random.OneIn(2);
  drawn_.many_links = random.OneIn(2);
  if (random.OneIn(4)) network_.conditions.unreachable_one_in = 1;
  if (!disturbed_ || random.OneIn(3)) return;
  drawn_.task_bytes = kMinTaskBytes << random.Below(2);
  if (random.OneIn(2)) drawn_.task_rows = job_.job.training.block;
  job_.job.tasks.size_bytes = drawn_.task_bytes;
  if (drawn_.task_rows > 0) job_.job.tasks.batch_rows = drawn_.task_rows;
}

HandlerTraits Cluster::DrawHandler(bool large) {
  HandlerTraits traits;
  // One handler must be able to hold every task that another one can hold. Otherwise a job might
  // rightly wait forever for memory that no handler has.
  traits.memory_bytes = large ? kLargeMemoryBytes : kMinMemoryBytes << random().Below(4);
  traits.gflops = static_cast<double>(random().Magnitude(1, 64));
  traits.task_us = random().Magnitude(200, 20'000);
  if (random().OneIn(4)) traits.task_us *= 20;
  traits.own_memory = random().OneIn(2);
  return traits;
}

void Cluster::AddHandler(const HandlerTraits& traits) {
  handlers_.push_back({traits, nullptr, nullptr, 0});
  // Does not draw from world_'s random numbers, so that the histories of other seeds do not change.
  Random random(drawn_.seed ^ 0x11b7a3 * handlers_.size());
  handlers_.back().traits.over_link = drawn_.many_links ? !random.OneIn(4) : random.OneIn(3);
  StartHandler(handlers_.size() - 1);
}

void Cluster::StartHandler(std::size_t slot) {
  HandlerSlot& handler = handlers_[slot];
  if (handler.process != nullptr || world_.now_us() < handler.away_until_us) return;
  Process& process = NewProcess(fmt::format("handler {}", slot));
  process.gflops = handler.traits.gflops;
  process.task_us = handler.traits.task_us;
  handler.process = &process;
  world_.Note(fmt::format("handler {} starts, {} bytes", slot, handler.traits.memory_bytes));
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
        {.threads = 1, .memory_limit_bytes = handlers_[slot].traits.memory_bytes, .isa = {}});
    if (handlers_[slot].traits.own_memory) {
      options.device = std::make_unique<test::OwnMemoryDevice>(std::move(options.device));
    }
    options.bytes_travel = handlers_[slot].traits.over_link;
    options.holds_from_bytes = 1;
    options.log = [this, slot](const std::string& line) {
      world_.Note(fmt::format("handler {}: {}", slot, line));
    };
    if (const double rate = handlers_[slot].traits.wrong_results; rate > 0) {
      options.faults = FaultPlan{.results = rate, .seed = random().Next()};
    }
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
  if (FolderOf(slot).HasReceipt()) {
    // `acan train --resume` reports this, too. Another manager may still be working on the rest.
    finished_ = !AnyManager();
    return;
  }
  manager.process = &NewProcess(fmt::format("manager {}", slot));
  world_.Note(fmt::format("manager {} starts{}{}", slot, manager.resume ? ", to resume" : "",
                          standby ? ", to stand by" : ""));
  manager.process->Start([this, slot, standby] { ManagerBody(slot, standby); });
}

bool Cluster::AnyManager() const {
  return std::any_of(managers_.begin(), managers_.end(),
                     [](const ManagerSlot& each) { return each.process != nullptr; });
}

void Cluster::ManagerBody(std::size_t slot, bool standby) {
  Process* const process = managers_[slot].process;
  std::string failure;
  try {
    ManagerOptions options;
    options.endpoint = kEndpoint;
    options.out_dir = FolderOf(slot).path();
    // Some jobs keep all results of a step until the step is done; others only those still needed.
    options.least_removed_bytes = random().OneIn(4) ? UINT64_MAX : 1;
    options.knows_links = drawn_.knows_links;
    options.expected_handlers = static_cast<int>(random().Below(handlers_.size() + 1));
    options.resume = managers_[slot].resume;
    options.standby = standby;
    options.source = "job";
    options.log = [this, slot](const std::string& line) {
      if (line.find("going back from step") != std::string::npos) ++faults_.went_back;
      if (line.starts_with("new plan for the present handlers")) ++faults_.cut_anew;
      world_.Note(fmt::format("manager {}: {}", slot, Reproducible(line)));
    };
    options.progress = [this, slot, process](const Progress& progress) {
      world_.Note(fmt::format("manager {}: step {} loss {}", slot, progress.step, progress.loss));
      if (!process->leads) {
        world_.Report(fmt::format(
            "manager {} commits a step, and was not told that it leads since it joined", slot));
      }
      if (KillsBetweenWrites()) {
        ++faults_.counts[static_cast<std::size_t>(Fault::kKillManager)];
        managers_[slot].process = nullptr;
        managers_[slot].running = nullptr;
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
    struct NoMoreRunning {
      ManagerSlot* slot;
      ~NoMoreRunning() { slot->running = nullptr; }
    } const guard{&managers_[slot]};
    managers_[slot].running = &manager;
    const std::optional<Receipt> receipt = manager.Run();
    if (receipt) {
      world_.Note(fmt::format("manager {} is done: {}", slot, receipt->weights_sha256));
      finished_ = true;
      tidied_up_ = true;
    }
  } catch (const std::exception& error) {
    failure = error.what();
  }
  if (!failure.empty())
    world_.Note(fmt::format("manager {} gives up: {}", slot, Reproducible(failure)));
  // Another manager leads, and may be stopped. This one is started again later.
  const bool refused = failure.find("already has a manager") != std::string::npos ||
                       failure.find(" is in use by pid ") != std::string::npos;
  if (!failure.empty() && !refused) {
    world_.Report(fmt::format("manager {} gave up: {}", slot, Reproducible(failure)));
  }
  world_.After(RestartDelayUs(), [this, slot, process] {
    if (managers_[slot].process != process) return;
    managers_[slot].process = nullptr;
    managers_[slot].resume = true;
    StartManager(slot, false);
  });
}

// Replaces what differs between processes, so that a seed's history is the same in each: the random
// name of the folder, and who has locked it ("by pid 17 on host h since 2026-01-01 12:00:00 UTC").
std::string Cluster::Reproducible(std::string text) const {
  for (const OutFolder& folder : folders_) {
    const std::string path = folder.path();
    for (std::size_t at; (at = text.find(path)) != std::string::npos;) {
      text.replace(at, path.size(), "OUT");
    }
  }
  static constexpr std::string_view kOwner = " by pid ";
  static constexpr std::string_view kEnd = " UTC";
  const std::size_t from = text.find(kOwner);
  const std::size_t to = from == std::string::npos ? from : text.find(kEnd, from);
  if (to != std::string::npos) text.replace(from, to + kEnd.size() - from, " by a manager");
  return text;
}

void Cluster::Begin() {
  const std::int64_t most_delay_us = random().Magnitude(200, 20'000);
  network_.conditions.least_delay_us = 50;
  network_.conditions.most_delay_us = most_delay_us;
  StartBroker();
  const std::size_t count = disturbed_ ? 1 + random().Below(4) : 1;
  AddHandler(DrawHandler(true));
  if (Audited()) {  // so many that most compute correctly and they can check each other
    HandlerTraits liar = DrawHandler(true);
    const double wrong_results = static_cast<double>(random().Magnitude(1, 500)) * 1e-3;
    if (!hostile()) liar.wrong_results = wrong_results;  // a hostile handler does the lying itself
    AddHandler(liar);
    while (handlers_.size() < 4) AddHandler(DrawHandler(true));
    results_.may_differ = true;
  }
  while (handlers_.size() < count) AddHandler(DrawHandler(false));
  managers_.resize(2);
  StartManager(0, false);
}

// ---- the end ------------------------------------------------------------------------------------

SeedResult Cluster::Run(const Outcome* expected) {
  SeedResult result;
  result.job = job_index_;
  try {
    DrawHostile();
    DrawHostileManager();
    Begin();
    DrawFaults();
    result.options = DescribeDrawn();
    for (std::size_t at = 0, end; (end = result.options.find('\n', at)) != std::string::npos;) {
      world_.Remark(result.options.substr(at, end - at));
      at = end + 1;
    }
    const bool is_slowed = hostile() || !drawn_.hostile_manager.empty();
    const std::int64_t patience_us = is_slowed ? kHostilePatienceUs : kPatienceUs;
    const std::int64_t end_us = world_.now_us() + 130 * kSecondUs + patience_us;
    // Other managers end, too, without changing anything.
    const auto done = [this] { return finished_ && !AnyManager(); };
    world_.Run(end_us, done);
    if (!done()) throw Violation("the job is not done though nothing goes wrong any more");
    CheckEnd(expected, &result);
  } catch (const std::exception& error) {  // including errors of reading the managers' files
    result.violation = error.what();
  }
  result.virtual_us = world_.now_us();
  result.events = world_.events();
  result.trace_hash = world_.trace_hash();
  result.requests = broker_.totals().requests;
  result.conflicts_made = broker_.totals().conflicts_made;
  result.hostile = broker_.totals().hostile;
  result.hostile_manager = broker_.totals().hostile_manager;
  result.faults = faults_.counts;
  result.moves = {.fetched = network_.direct().fetched,
                  .failed_fetches = network_.direct().failed,
                  .went_back = faults_.went_back,
                  .cut_anew = faults_.cut_anew};
  return result;
}

std::string Cluster::DescribeDrawn() {
  for (const HandlerSlot& handler : handlers_) drawn_.handlers.push_back(handler.traits);
  drawn_.network = network_.conditions;
  return Describe(drawn_);
}

// Only these may remain: what the space begins with, what connected handlers put about themselves,
// their probes of links, and the marks that the job is done and that a manager wanted to lead it,
// since that manager may have been killed. After a restart, a broker may also get results of a run
// that it does not know. A hostile manager may leave whatever it likes for its own jobs.
void Cluster::CheckNothingIsLeft() {
  if (broker_.life() > 1 || !tidied_up_) return;
  for (const tuplespace::Key& key : broker_.Keys()) {
    if (key == ProbeTurnKey() || HostileManager::Owns(key)) continue;
    const std::vector<tuplespace::Field> fields = key.Fields();
    const auto* kind = std::get_if<std::string>(&fields.front());
    if (kind != nullptr && (*kind == "done" || *kind == "leader")) continue;
    if (kind != nullptr && (*kind == "handler" || *kind == "report" || *kind == "probe")) {
      const auto* of = fields.size() > 1 ? std::get_if<std::string>(&fields[1]) : nullptr;
      if (of != nullptr && broker_.Knows(*of)) continue;
    }
    world_.Report(fmt::format("{} is left in the space", key.ToString()));
  }
}

void Cluster::CheckEnd(const Outcome* expected, SeedResult* result) {
  Heal();
  // Lets messages arrive, and lets the broker lose clients that are gone. That takes a while: it
  // may take seconds until the end of a connection is noticed, and a client whose goodbye was lost
  // is only found by its silence.
  world_.Run(world_.now_us() + kSilenceUs + kSilenceUs / 4, [] { return false; });
  broker_.CheckAll();
  CheckNothingIsLeft();
  world_.Check();
  if (expected == nullptr) return;
  std::size_t receipts = 0;
  for (const OutFolder& folder : folders_) {
    if (!folder.HasReceipt()) continue;
    ++receipts;
    CheckOutcome(folder.Read(), *expected, result);
  }
  if (receipts == 0) throw Violation("a manager was done, but its receipt is gone");
}

void Cluster::CheckOutcome(const Outcome& outcome, const Outcome& expected, SeedResult* result) {
  result->quarantined += outcome.quarantined;
  // The liar was believed while it was the only handler; the receipt says so.
  if (outcome.audits_skipped > 0) {
    result->unaudited = true;
    return;
  }
  if (outcome.weights_sha256 != expected.weights_sha256) {
    throw Violation(fmt::format("the weights are {}, without faults they are {}",
                                outcome.weights_sha256, expected.weights_sha256));
  }
  if (outcome.metrics != expected.metrics) {
    for (const std::string& line : outcome.metrics) world_.Note("metrics: " + line);
    throw Violation(
        "metrics.jsonl has not each step and evaluation once, in order, as without faults");
  }
}

}  // namespace acan::simulation
