#include "acan/handler/handler.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <unordered_map>

#include "acan/core/names.h"
#include "acan/core/task.h"
#include "acan/handler/conformance.h"
#include "acan/handler/handler_core.h"
#include "device_thread.h"
#include "fmt/format.h"
#include "release_queue.h"
#include "tuplespace/client.h"
#include "tuplespace/planted.h"

namespace acan {
namespace {

using tuplespace::IsPlanted;
using tuplespace::Key;
using tuplespace::Payload;
using tuplespace::Planted;
using tuplespace::ReplyBody;

// Reports come soon after the first tasks, so that short jobs are seen, and then ever less often.
constexpr std::int64_t kFirstReportUs = 10'000;
constexpr std::int64_t kReportEveryUs = 500'000;
// Of so few tasks only after this time: many handlers share a broker, and each has few then.
constexpr std::uint64_t kFewTasks = 16;
constexpr std::int64_t kReportOfFewUs = 4'000'000;

// A broker in this process has its results copied.
std::shared_ptr<tuplespace::SharedPool> PoolOf(const HandlerOptions& options) {
  const bool in_process = options.endpoint.starts_with("inproc://");
  return options.shared_memory && !in_process ? tuplespace::SharedPool::Make() : nullptr;
}

// A flight as the I/O thread knows it.
struct Flight {
  std::shared_ptr<const Task> task;
  std::vector<Key> input_keys;
  std::vector<TaskInput> inputs;
  std::optional<std::size_t> keep_input;
  DeviceOutcome outcome;
};

}  // namespace

struct Handler::Impl {
  explicit Impl(HandlerOptions given);
  // Requests that nobody answered keep results, whose release would wake a client that is gone.
  ~Impl() {
    if (!IsPlanted(Planted::kResultsWakeLostClient)) releases->Close();
  }

  void Begin();
  bool Turn(std::int64_t most_wait_us);
  HandlerReport Run();
  void Apply(std::vector<HandlerAction> actions);
  void Step(const HandlerEvent& event) { Apply(core.Step(event, NowUs())); }
  void OnGrants(tuplespace::RequestId get, ReplyBody&& reply);
  void OnGrant(tuplespace::Grant&& grant, bool current);
  void OnOutcome(DeviceOutcome&& outcome);
  void OnTaskFailed(FlightId id, const std::string& cause);
  void OnConnected();
  void PutReport(std::int64_t now_us);
  void Submit(tuplespace::RequestBody body) {
    client.Submit(std::move(body), [this](ReplyBody&& reply) {
      if (const auto* error = std::get_if<tuplespace::Error>(&reply)) {
        Log(fmt::format("the broker refused a request: {}", error->text));
      }
    });
  }
  void Log(const std::string& line) {
    if (options.log) options.log(line);
  }

  void Do(const AskForTask& action);
  void Do(const StopAsking& action);
  void Do(const FetchInputs& action);
  void Do(const RunTask& action);
  void Do(const ReportDone& action);
  void Do(const ReportFailed& action);
  void Do(const PutBack& action);
  void Do(const ExtendLease& action);
  void Do(const KeepInput& action);
  void Do(const DropCached& action);
  void Do(const AnnounceHeld& action);
  void Spoil(TaskResult& result);

  HandlerOptions options;
  std::unique_ptr<Device> device;
  std::shared_ptr<tuplespace::SharedPool> pool;  // of the device's results
  Capacity capacity;
  tuplespace::Client client;
  HandlerCore core;
  std::shared_ptr<ReleaseQueue> releases;
  std::unordered_map<FlightId, Flight> flights;
  std::unordered_map<Key, BufferPtr> cached;
  std::optional<Flight> arriving;  // granted; its number comes with the core's first action
  std::optional<tuplespace::RequestId> open_get;
  std::atomic<bool> stop{false};
  bool draining = false;
  std::optional<FaultInjector> injector;
  HandlerReport report;
  std::int64_t report_number = 0;
  std::int64_t next_report_us = 0;
  std::int64_t report_every_us = kFirstReportUs;
  std::uint64_t reported_tasks = UINT64_MAX;
  std::int64_t reported_at_us = 0;
  std::unique_ptr<DeviceThread> device_thread;  // last: it uses the others
};

Handler::Impl::Impl(HandlerOptions given)
    : options(std::move(given)),
      device(std::move(options.device)),
      pool(PoolOf(options)),
      client({.endpoint = options.endpoint,
              .name = options.name,
              .id = {},
              .access = options.access,
              .context = options.context,
              .shared_memory = options.shared_memory,
              .pool = pool}),
      core(device->budget().limit_bytes() - device->budget().used_bytes(), options.depth) {
  if (pool) device->UseResultPool(pool);
  const std::uint64_t scratch_bytes = device->budget().used_bytes();
  const ConformanceResult conformance = RunConformance(*device);
  const DeviceInfo& info = device->info();
  capacity = {.name = options.name,
              .device = info.name,
              .description = info.description,
              .limit_bytes = device->budget().limit_bytes(),
              .memory_bytes = device->budget().limit_bytes() - scratch_bytes,
              .threads = info.threads,
              .gflops = MeasureGflops(*device),
              .exact = info.exact && conformance.exact,
              .fast = info.fast,
              .conformance_hash = conformance.hash};
  if (!capacity.exact) {
    Log(fmt::format("{} is not used for exact jobs: operation '{}' differs", info.name,
                    conformance.first_difference));
  }
  if (options.throttle) {
    capacity.gflops = std::min(capacity.gflops, options.throttle->MeanGflops());
  }
  releases = std::make_shared<ReleaseQueue>([this] { client.Wake(); });
  if (options.faults) {
    injector.emplace(*options.faults);
    Log("this handler computes wrong on purpose (--inject)");
  }
}

void Handler::Impl::Begin() {
  device_thread = std::make_unique<DeviceThread>(
      *device, [this] { client.Wake(); }, options.throttle ? &*options.throttle : nullptr);
  client.OnConnection([this](bool connected, const std::string& why) {
    Log(connected ? fmt::format("joined {}", options.endpoint)
                  : fmt::format("lost {}: {}; waiting for it", options.endpoint, why));
    if (connected) OnConnected();
  });
  client.OnDamage([this](const std::string& text) { Log(text); });
  Apply(core.Start());
}

bool Handler::Impl::Turn(std::int64_t most_wait_us) {
  if (!device_thread) Begin();
  const bool more = device_thread->Go();
  for (DeviceOutcome& outcome : device_thread->TakeOutcomes()) OnOutcome(std::move(outcome));
  const std::int64_t now_us = NowUs();
  const std::int64_t due_us = more ? now_us : std::min(core.NextDeadlineUs(), next_report_us);
  const std::int64_t wait_us = std::clamp<std::int64_t>(due_us - now_us, 0, most_wait_us);
  client.Poll(std::chrono::microseconds(wait_us));
  for (const FlightId flight : releases->Take()) {
    flights.erase(flight);
    Step(Released{flight});
  }
  if (NowUs() >= core.NextDeadlineUs()) Step(TimePassed{});
  if (NowUs() >= next_report_us) PutReport(NowUs());
  if (stop && !draining) {
    draining = true;
    for (const FlightId flight : device_thread->TakeBack()) Step(GivenUp{flight});
    Step(Drain{});
    // Results can only leave if somebody takes them: without a broker there is nothing to wait
    // for.
  }
  return !core.drained() && !(draining && !client.connected());
}

HandlerReport Handler::Impl::Run() {
  while (Turn(1'000'000)) {
  }
  device_thread.reset();
  releases->Close();
  report.peak_bytes = std::max(report.peak_bytes, device->budget().peak_bytes());
  if (pool) report.copied_results = pool->counts().copied;
  return report;
}

void Handler::Impl::OnConnected() {
  tuplespace::Tuple tuple;
  tuple.key = HandlerKey(client.id());
  tuple.payload = Payload::Copy(CapacityToJson(capacity));
  tuple.ephemeral = true;
  std::vector<tuplespace::Tuple> tuples;
  tuples.push_back(std::move(tuple));
  Submit(tuplespace::Put{std::move(tuples)});
  Step(ConnectionLost{});
  reported_tasks = UINT64_MAX;
  reported_at_us = 0;
}

void Handler::Impl::PutReport(std::int64_t now_us) {
  report.peak_bytes = device_thread->peak_bytes();
  const std::uint64_t tasks = report.tasks + report.failed;
  const bool soon = now_us < reported_at_us + kReportOfFewUs;
  const bool few = report_every_us == kReportEveryUs && tasks - reported_tasks < kFewTasks;
  if (tasks == reported_tasks || (few && soon) || !client.connected()) {
    if (!soon) report_every_us = kFirstReportUs;
    next_report_us = now_us + kReportEveryUs;
    return;
  }
  next_report_us = now_us + report_every_us;
  report_every_us = std::min(2 * report_every_us, kReportEveryUs);
  reported_tasks = tasks;
  reported_at_us = now_us;
  tuplespace::Tuple tuple;
  tuple.key = ReportKey(client.id(), ++report_number);
  tuple.payload = Payload::Copy(ReportToJson({report.tasks, report.failed, report.tile_hits,
                                              report.peak_bytes, report.busy_s, report.gflop}));
  tuple.ephemeral = true;
  std::vector<tuplespace::Tuple> tuples;
  tuples.push_back(std::move(tuple));
  Submit(tuplespace::Put{std::move(tuples)});
  Submit(tuplespace::Retire{ReportsBefore(client.id(), report_number), false});
}

void Handler::Impl::Apply(std::vector<HandlerAction> actions) {
  for (const HandlerAction& action : actions) {
    std::visit([this](const auto& a) { Do(a); }, action);
  }
}

void Handler::Impl::OnGrants(tuplespace::RequestId get, ReplyBody&& reply) {
  const bool current = open_get == get;
  if (current) open_get.reset();
  if (const auto* error = std::get_if<tuplespace::Error>(&reply)) {
    throw tuplespace::SpaceError(error->code, error->text);
  }
  auto& grants = std::get<tuplespace::Grants>(reply);
  if (grants.grants.empty()) {
    if (current) Step(GetEnded{});
    return;
  }
  for (tuplespace::Grant& grant : grants.grants) {
    // The core asks again when it has seen the last.
    OnGrant(std::move(grant), current && &grant == &grants.grants.back());
  }
}

void Handler::Impl::OnGrant(tuplespace::Grant&& grant, bool current) {
  Flight flight;
  TaskGranted event;
  event.lease = {grant.key, grant.fence};
  event.lease_us = grant.lease_us;
  event.current = current;
  try {
    if (!grant.task) throw std::invalid_argument("the tuple is not a task");
    flight.task = std::make_shared<Task>(DecodeTask(grant.payload, grant.task->inputs.size()));
    if (NeedBytes(*flight.task) > grant.task->need_bytes) {
      throw std::invalid_argument(fmt::format("task: says it needs {} bytes, but takes {}",
                                              grant.task->need_bytes, NeedBytes(*flight.task)));
    }
  } catch (const std::exception& error) {
    ++report.failed;
    Log(fmt::format("cannot run {}: {}", grant.key.ToString(), error.what()));
    Submit(tuplespace::Fail{event.lease, error.what()});
    if (current) Step(GetEnded{});
    return;
  }
  event.timed = flight.task->timed;
  event.need_bytes = grant.task->need_bytes;
  event.flops = Flops(*flight.task);
  event.chunk = flight.task->chunk;
  event.inputs = grant.task->inputs;
  event.sent.assign(event.inputs.size(), false);
  event.input_bytes.assign(event.inputs.size(), 0);
  flight.inputs.resize(event.inputs.size());
  for (std::size_t i = 0; i < grant.inputs.size() && i < event.inputs.size(); ++i) {
    if (!grant.input_sent[i]) continue;
    event.sent[i] = true;
    event.input_bytes[i] = grant.inputs[i].payload.size();
    flight.inputs[i].payload = std::move(grant.inputs[i].payload);
  }
  for (const Piece& piece : flight.task->pieces) {
    if (static_cast<std::int32_t>(piece.input) == grant.task->affinity &&
        CoversBuffer(piece, *flight.task) && event.sent[piece.input]) {
      event.keep_input = flight.keep_input = piece.input;
    }
  }
  flight.input_keys = event.inputs;
  arriving = std::move(flight);
  std::vector<HandlerAction> actions = core.Step(event, NowUs());
  flights[core.last_flight()] = std::move(*arriving);
  arriving.reset();
  Apply(std::move(actions));
}

void Handler::Impl::OnOutcome(DeviceOutcome&& outcome) {
  next_report_us = std::min(next_report_us, NowUs() + report_every_us);
  report.busy_s += outcome.seconds;
  const FlightId id = outcome.flight;
  // Its leases end with the connection, so others take the tasks at once.
  if (outcome.lost) throw DeviceLost(outcome.cause);
  if (outcome.failed) {
    OnTaskFailed(id, outcome.cause);
    return;
  }
  ++report.tasks;
  TaskFinished event;
  event.flight = id;
  event.took_us = static_cast<std::int64_t>(outcome.seconds * 1e6);
  report.gflop += static_cast<double>(Flops(*flights.at(id).task)) * 1e-9;
  for (const TaskResult& result : outcome.results) {
    event.result_bytes += result.payload.size();
    if (result.kept) event.kept.push_back({result.key, result.payload.size()});
  }
  flights[id].outcome = std::move(outcome);
  Step(event);
}

void Handler::Impl::OnTaskFailed(FlightId id, const std::string& cause) {
  ++report.failed;
  Log(fmt::format("a {} task failed: {}", TaskKindName(flights.at(id).task->kind), cause));
  flights.erase(id);
  Step(TaskFailed{id, cause});
}

void Handler::Impl::Do(const AskForTask& action) {
  if (open_get) Submit(tuplespace::Cancel{*open_get});
  tuplespace::Get get;
  get.pattern = RunnableTasks(capacity.exact, capacity.fast);
  get.offer_bytes = action.offer_bytes;
  get.max_count = action.count;
  get.share = action.share;
  get.with_inputs = true;
  // The reply comes from Poll, so the id is known by then.
  auto id = std::make_shared<tuplespace::RequestId>(0);
  *id = client.Submit(std::move(get),
                      [this, id](ReplyBody&& reply) { OnGrants(*id, std::move(reply)); });
  open_get = *id;
}

void Handler::Impl::Do(const StopAsking&) {
  if (open_get) Submit(tuplespace::Cancel{*open_get});
}

void Handler::Impl::Do(const FetchInputs& action) {
  tuplespace::Read read;
  const Flight& flight = flights.at(action.flight);
  for (const std::size_t i : action.inputs) {
    read.patterns.push_back(tuplespace::Pattern::Of(flight.input_keys[i]));
  }
  client.Submit(std::move(read), [this, action](ReplyBody&& reply) {
    const auto it = flights.find(action.flight);
    auto* found = std::get_if<tuplespace::Found>(&reply);
    if (it == flights.end()) return;
    const auto* error = std::get_if<tuplespace::Error>(&reply);
    if (error != nullptr && error->code == tuplespace::ErrorCode::kDamaged) {
      // Given back it would come again; failed everywhere it is parked, and the manager told why.
      OnTaskFailed(action.flight, error->text);
      return;
    }
    if (found == nullptr || found->tuples.size() != action.inputs.size()) {
      Step(GivenUp{action.flight});
      return;
    }
    for (std::size_t i = 0; i < action.inputs.size(); ++i) {
      it->second.inputs[action.inputs[i]].payload = std::move(found->tuples[i].payload);
    }
    Step(InputsArrived{action.flight});
  });
}

void Handler::Impl::Do(const RunTask& action) {
  Flight& flight = flights.at(action.flight);
  DeviceJob job{action.flight, flight.task, std::move(flight.inputs), flight.keep_input, 0};
  std::vector<bool> whole(job.inputs.size(), false);
  for (const Piece& piece : job.task->pieces) whole[piece.input] = CoversBuffer(piece, *job.task);
  for (std::size_t i = 0; i < job.inputs.size(); ++i) {
    TaskInput& input = job.inputs[i];
    if (input.payload.empty()) {
      const auto it = cached.find(flight.input_keys[i]);
      if (it != cached.end()) {
        input.buffer = it->second;
        ++report.tile_hits;
      }
    } else if (whole[i]) {
      try {
        input.buffer = device->Upload(input.payload);
      } catch (const DeviceLost&) {
        throw;
      } catch (const std::exception& error) {
        OnTaskFailed(action.flight, error.what());
        return;
      }
      input.payload = {};
    } else {
      job.waiting_bytes += input.payload.size();
    }
  }
  device_thread->Add(std::move(job));
}

void Handler::Impl::Do(const ReportDone& action) {
  Flight& flight = flights.at(action.flight);
  auto token = std::make_shared<ReleaseToken>(releases, action.flight);
  const bool in_process = options.endpoint.starts_with("inproc://");
  tuplespace::Complete complete;
  complete.lease = action.lease;
  for (TaskResult& result : flight.outcome.results) {
    if (injector) Spoil(result);
    tuplespace::Tuple tuple;
    tuple.key = result.key;
    tuple.held = result.kept != nullptr;
    if (result.kept) cached[result.key] = std::move(result.kept);
    const std::byte* data = result.payload.data();
    const std::size_t size = result.payload.size();
    if (in_process) {
      // The broker would hold this very memory, and with it this handler's budget.
      tuple.payload = Payload::Copy(data, size);
      complete.results.push_back(std::move(tuple));
      continue;
    }
    auto owner = std::make_shared<TokenedBytes>(TokenedBytes{token, result.payload.owner()});
    if (result.payload.region() != nullptr) ++report.shared_results;
    tuple.payload = Payload(std::move(owner), data, size, result.payload.region());
    result.payload = {};
    complete.results.push_back(std::move(tuple));
  }
  flight.outcome = {};
  token.reset();
  Submit(std::move(complete));
}

// Takes memory beyond the limit: an experiment's price.
void Handler::Impl::Spoil(TaskResult& result) {
  const auto spoiled = injector->OfResult(result.payload);
  const auto kept = injector->OfWeights(result.payload);
  try {
    if (result.kept && (kept || spoiled)) result.kept = device->Upload(kept ? *kept : *spoiled);
  } catch (const OutOfMemory&) {
    // Then what is kept stays right.
  }
  if (spoiled) result.payload = *spoiled;
}

void Handler::Impl::Do(const ReportFailed& action) {
  if (IsPlanted(Planted::kFailedTaskIsCompleted)) {
    return Submit(tuplespace::Complete{action.lease, {}});
  }
  Submit(tuplespace::Fail{action.lease, action.cause});
}

void Handler::Impl::Do(const PutBack& action) {
  flights.erase(action.flight);
  Submit(tuplespace::Store{action.lease});
}

void Handler::Impl::Do(const ExtendLease& action) {
  Submit(tuplespace::Extend{action.lease, action.lease_us});
}

void Handler::Impl::Do(const KeepInput& action) {
  cached[action.key] = flights.at(action.flight).outcome.kept_input;
}

void Handler::Impl::Do(const DropCached& action) {
  cached.erase(action.key);
}

void Handler::Impl::Do(const AnnounceHeld& action) {
  Submit(tuplespace::Hold{action.held, action.dropped});
}

Handler::Handler(HandlerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Handler::~Handler() = default;
HandlerReport Handler::Run() {
  return impl_->Run();
}
bool Handler::Turn(std::chrono::microseconds most_wait) {
  return impl_->Turn(std::max<std::int64_t>(0, most_wait.count()));
}
void Handler::Stop() {
  impl_->stop = true;
  impl_->client.Wake();
}

}  // namespace acan
