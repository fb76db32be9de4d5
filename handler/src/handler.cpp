#include "acan/handler/handler.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <unordered_map>

#include "acan/core/names.h"
#include "acan/core/task.h"
#include "acan/handler/conformance.h"
#include "acan/handler/handler_core.h"
#include "executor.h"
#include "fmt/format.h"
#include "tuplespace/client.h"

namespace acan {
namespace {

using tuplespace::Key;
using tuplespace::Payload;
using tuplespace::ReplyBody;

constexpr std::int64_t kReportEveryUs = 500'000;

std::int64_t NowUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A task on its way to the device.
struct Job {
  FlightId flight = 0;
  std::shared_ptr<const Task> task;
  std::vector<TaskInput> inputs;
  std::optional<std::size_t> keep_input;
  std::uint64_t waiting_bytes = 0;  // payloads that are not in the device's budget
};

// What came of it.
struct Outcome {
  FlightId flight = 0;
  bool failed = false;
  std::string cause;
  std::vector<TaskResult> results;
  BufferPtr kept_input;
  double seconds = 0;
};

// The device's thread: runs jobs in order. Outcomes are fetched by the I/O thread.
class DeviceThread {
 public:
  DeviceThread(Device& device, std::function<void()> wake)
      : device_(device), wake_(std::move(wake)), thread_([this] { Loop(); }) {}
  ~DeviceThread() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    ready_.notify_one();
    thread_.join();
  }

  void Add(Job job) {
    waiting_bytes_.fetch_add(job.waiting_bytes, std::memory_order_relaxed);
    NotePeak();
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    ready_.notify_one();
  }
  std::deque<Outcome> TakeOutcomes() {
    const std::lock_guard lock(mutex_);
    return std::exchange(outcomes_, {});
  }
  // Jobs that have not begun; they will not run.
  std::vector<FlightId> TakeBack() {
    const std::lock_guard lock(mutex_);
    std::vector<FlightId> flights;
    for (const Job& job : jobs_) {
      flights.push_back(job.flight);
      waiting_bytes_.fetch_sub(job.waiting_bytes, std::memory_order_relaxed);
    }
    jobs_.clear();
    return flights;
  }
  // Most bytes held at once: the device's, and inputs that wait to be copied to it.
  std::uint64_t peak_bytes() const {
    return std::max(peak_bytes_.load(std::memory_order_relaxed), device_.budget().peak_bytes());
  }

 private:
  void Loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ready_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
      if (stop_) return;
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      Outcome outcome = Run(std::move(job));
      lock.lock();
      outcomes_.push_back(std::move(outcome));
      lock.unlock();
      wake_();
      lock.lock();
    }
  }

  Outcome Run(Job job) {
    Outcome outcome;
    outcome.flight = job.flight;
    const std::int64_t begin_us = NowUs();
    try {
      outcome.results = RunTaskOn(device_, *job.task, job.inputs);
      if (job.keep_input) outcome.kept_input = job.inputs[*job.keep_input].buffer;
      NotePeak();
    } catch (const std::exception& error) {
      outcome.failed = true;
      outcome.cause = error.what();
      outcome.results.clear();
    }
    outcome.seconds = static_cast<double>(NowUs() - begin_us) * 1e-6;
    waiting_bytes_.fetch_sub(job.waiting_bytes, std::memory_order_relaxed);
    return outcome;  // the inputs go here, before anybody hears of the outcome
  }

  void NotePeak() {
    const std::uint64_t held =
        device_.budget().used_bytes() + waiting_bytes_.load(std::memory_order_relaxed);
    std::uint64_t peak = peak_bytes_.load(std::memory_order_relaxed);
    while (peak < held && !peak_bytes_.compare_exchange_weak(peak, held)) {
    }
  }

  Device& device_;
  std::function<void()> wake_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Job> jobs_;
  std::deque<Outcome> outcomes_;
  bool stop_ = false;
  std::atomic<std::uint64_t> waiting_bytes_{0};
  std::atomic<std::uint64_t> peak_bytes_{0};
  std::thread thread_;
};

// Flights whose result bytes have left this process: told by the destructor of the last payload,
// which may run on one of ZeroMQ's threads.
class ReleaseQueue {
 public:
  explicit ReleaseQueue(std::function<void()> wake) : wake_(std::move(wake)) {}

  void Add(FlightId flight) {
    const std::lock_guard lock(mutex_);
    flights_.push_back(flight);
    if (wake_) wake_();
  }
  std::vector<FlightId> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(flights_, {});
  }
  void Close() {  // the client goes away: nobody is to be woken any more
    const std::lock_guard lock(mutex_);
    wake_ = nullptr;
  }

 private:
  std::mutex mutex_;
  std::function<void()> wake_;
  std::vector<FlightId> flights_;
};

struct ReleaseToken {
  ReleaseToken(std::shared_ptr<ReleaseQueue> q, FlightId f) : queue(std::move(q)), flight(f) {}
  ReleaseToken(const ReleaseToken&) = delete;
  ReleaseToken& operator=(const ReleaseToken&) = delete;
  ~ReleaseToken() { queue->Add(flight); }
  std::shared_ptr<ReleaseQueue> queue;
  FlightId flight;
};

// Declared so that the bytes go before the token tells of it.
struct TokenedBytes {
  std::shared_ptr<ReleaseToken> token;
  std::shared_ptr<const void> bytes;
};

// A flight as the I/O thread knows it.
struct Flight {
  std::shared_ptr<const Task> task;
  std::vector<Key> input_keys;
  std::vector<TaskInput> inputs;
  std::optional<std::size_t> keep_input;
  Outcome outcome;
};

}  // namespace

struct Handler::Impl {
  explicit Impl(HandlerOptions given);

  HandlerReport Run();
  void Apply(std::vector<HandlerAction> actions);
  void Step(const HandlerEvent& event) { Apply(core.Step(event, NowUs())); }
  void OnGrants(tuplespace::RequestId get, ReplyBody&& reply);
  void OnGrant(tuplespace::Grant&& grant, bool current);
  void OnOutcome(Outcome&& outcome);
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

  HandlerOptions options;
  std::unique_ptr<Device> device;
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
  HandlerReport report;
  std::int64_t report_number = 0;
  std::int64_t next_report_us = 0;
  std::uint64_t reported_tasks = UINT64_MAX;
  std::unique_ptr<DeviceThread> device_thread;  // last: it uses the others
};

Handler::Impl::Impl(HandlerOptions given)
    : options(std::move(given)),
      device(std::move(options.device)),
      client({.endpoint = options.endpoint, .name = options.name, .id = {},
              .context = options.context}),
      core(device->budget().limit_bytes() - device->budget().used_bytes(), options.depth) {
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
  releases = std::make_shared<ReleaseQueue>([this] { client.Wake(); });
}

HandlerReport Handler::Impl::Run() {
  device_thread = std::make_unique<DeviceThread>(*device, [this] { client.Wake(); });
  client.OnConnection([this](bool connected, const std::string& why) {
    Log(connected ? fmt::format("joined {}", options.endpoint)
                  : fmt::format("lost {}: {}; waiting for it", options.endpoint, why));
    if (connected) OnConnected();
  });
  Apply(core.Start());
  while (!core.drained()) {
    const std::int64_t now_us = NowUs();
    const std::int64_t due_us = std::min(core.NextDeadlineUs(), next_report_us);
    const std::int64_t wait_us = std::clamp<std::int64_t>(due_us - now_us, 0, 1'000'000);
    client.Poll(std::chrono::microseconds(wait_us));
    for (Outcome& outcome : device_thread->TakeOutcomes()) OnOutcome(std::move(outcome));
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
      // Results can only leave if somebody takes them: without a broker there is nothing to wait for.
    }
    if (draining && !client.connected()) break;
  }
  device_thread.reset();
  releases->Close();
  report.peak_bytes = std::max(report.peak_bytes, device->budget().peak_bytes());
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
}

void Handler::Impl::PutReport(std::int64_t now_us) {
  next_report_us = now_us + kReportEveryUs;
  report.peak_bytes = device_thread->peak_bytes();
  if (report.tasks + report.failed == reported_tasks || !client.connected()) return;
  reported_tasks = report.tasks + report.failed;
  tuplespace::Tuple tuple;
  tuple.key = ReportKey(client.id(), ++report_number);
  tuple.payload = Payload::Copy(ReportToJson(
      {report.tasks, report.failed, report.tile_hits, report.peak_bytes, report.busy_s}));
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
  OnGrant(std::move(grants.grants.front()), current);
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

void Handler::Impl::OnOutcome(Outcome&& outcome) {
  report.busy_s += outcome.seconds;
  const FlightId id = outcome.flight;
  if (outcome.failed) {
    ++report.failed;
    Log(fmt::format("a {} task failed: {}", TaskKindName(flights[id].task->kind), outcome.cause));
    const std::string cause = outcome.cause;
    flights.erase(id);
    Step(TaskFailed{id, cause});
    return;
  }
  ++report.tasks;
  TaskFinished event;
  event.flight = id;
  for (const TaskResult& result : outcome.results) {
    event.result_bytes += result.payload.size();
    if (result.kept) event.kept.push_back({result.key, result.payload.size()});
  }
  flights[id].outcome = std::move(outcome);
  Step(event);
}

void Handler::Impl::Do(const AskForTask& action) {
  if (open_get) Submit(tuplespace::Cancel{*open_get});
  tuplespace::Get get;
  get.pattern = RunnableTasks(capacity.exact, capacity.fast);
  get.offer_bytes = action.offer_bytes;
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
  Job job{action.flight, flight.task, std::move(flight.inputs), flight.keep_input, 0};
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
      } catch (const std::exception& error) {
        Step(TaskFailed{action.flight, error.what()});
        flights.erase(action.flight);
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
    result.payload = {};
    tuple.payload = Payload(std::move(owner), data, size);
    complete.results.push_back(std::move(tuple));
  }
  flight.outcome = {};
  token.reset();
  Submit(std::move(complete));
}

void Handler::Impl::Do(const ReportFailed& action) {
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

void Handler::Impl::Do(const DropCached& action) { cached.erase(action.key); }

void Handler::Impl::Do(const AnnounceHeld& action) {
  Submit(tuplespace::Hold{action.held, action.dropped});
}

Handler::Handler(HandlerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Handler::~Handler() = default;
HandlerReport Handler::Run() { return impl_->Run(); }
void Handler::Stop() {
  impl_->stop = true;
  impl_->client.Wake();
}

}  // namespace acan
