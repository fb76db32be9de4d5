#include "acan/handler/handler.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>
#include <utility>

#include "acan/core/text/broker_flags.h"
#include "acan/handler/conformance.h"
#include "handler_impl.h"

namespace acan {
namespace {

using tuplespace::MonotonicUs;
using tuplespace::Payload;

constexpr std::int64_t kReportEveryUs = 500'000;
// A report about fewer than this many new tasks is delayed until this time, as many handlers may
// share a broker.
constexpr std::uint64_t kFewTasks = 16;
constexpr std::int64_t kReportOfFewUs = 4'000'000;
constexpr std::int64_t kSayWaitingUs = 2'000'000;

// A broker in this process gets copies of the results.
std::shared_ptr<tuplespace::SharedPool> PoolOf(const HandlerOptions& options) {
  const bool in_process = options.endpoint.starts_with("inproc://");
  return options.shared_memory && !in_process ? tuplespace::SharedPool::Make() : nullptr;
}

}  // namespace

Handler::Impl::Impl(HandlerOptions given)
    : options(std::move(given)),
      device(std::move(options.device)),
      pool(PoolOf(options)),
      client({.endpoint = options.endpoint,
              .name = options.name,
              .id = {},
              .access = options.access,
              .context = options.context,
              // HandlerCore bounds the results that leave, kMaxSuppliedBytes the supplies, and
              // all other requests are short. A second limit could only end the handler.
              .unanswered_bytes = UINT64_MAX,
              .shared_memory = options.shared_memory,
              .pool = pool,
              .direct = options.direct,
              .direct_listen = options.direct_listen}),
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
              .own_memory = info.own_memory,
              .machine = options.machine,
              .cpus = options.cpus,
              .busy_cpus = info.own_memory ? 0.0 : info.threads,
              .jobs = options.access ? options.access->limit : "",
              .conformance_hash = conformance.hash};
  if (!capacity.exact) {
    Log(fmt::format("{} gets no exact jobs: its result of operation '{}' differs", info.name,
                    conformance.first_difference));
  }
  if (options.throttle && options.throttle->MeanGflops() < capacity.gflops) {
    capacity.busy_cpus *= options.throttle->MeanGflops() / capacity.gflops;
    capacity.gflops = options.throttle->MeanGflops();
  }
  speed_watch.emplace(capacity.gflops);
  releases = std::make_shared<ReleaseQueue>([this] { client.Wake(); });
  if (options.faults) {
    injector.emplace(*options.faults);
    Log("this handler computes wrong results on purpose (--inject)");
  }
}

void Handler::Impl::Begin() {
  device_thread = std::make_unique<DeviceThread>(
      *device, [this] { client.Wake(); }, options.throttle ? &*options.throttle : nullptr);
  client.OnConnection([this](bool connected, const std::string& why) {
    Log(connected ? fmt::format("joined {}", client.endpoint())
                  : fmt::format("lost {}: {}; waiting for it", client.endpoint(), why));
    if (connected) OnConnected();
  });
  client.OnDamage([this](const std::string& text) { Log(text); });
  client.OnDelay([this](const std::string& text) {
    say_waiting_at_us = INT64_MAX;  // this says more
    Log(WithBrokerFlag(text));
  });
  client.OnDirectProblem([this](const std::string& text) { Log(text); });
  client.OnAsked([this](const Key& key) { return KeptBytes(key); });
  client.OnNotice([this](tuplespace::Notice&& notice) { OnNotice(notice); });
  say_waiting_at_us = MonotonicUs() + kSayWaitingUs;
  Apply(core.Start());
}

bool Handler::Impl::Turn(std::int64_t most_wait_us) {
  if (!device_thread) Begin();
  if (options.alive) options.alive();
  SayIfDeviceIsStuck();
  const bool more = device_thread->RunShortTasks();
  for (DeviceOutcome& outcome : device_thread->TakeOutcomes()) OnOutcome(std::move(outcome));
  const std::int64_t now_us = MonotonicUs();
  const bool at_once = more || MaySupply();
  const std::int64_t due_us = at_once ? now_us : std::min(core.NextDeadlineUs(), next_report_us);
  const std::int64_t wait_us = std::clamp<std::int64_t>(due_us - now_us, 0, most_wait_us);
  client.Poll(std::chrono::microseconds(wait_us));
  SupplyNext();  // after the submitted requests: the next task may wait for those
  for (const FlightId flight : releases->Take()) {
    flights.erase(flight);
    Step(Released{flight});
  }
  if (MonotonicUs() >= core.NextDeadlineUs()) Step(TimePassed{});
  if (speed_watch->Forget(MonotonicUs())) ReportSpeed();
  if (MonotonicUs() >= next_report_us) PutReport(MonotonicUs());
  if (say_waiting_at_us != INT64_MAX && MonotonicUs() >= say_waiting_at_us) {
    say_waiting_at_us = INT64_MAX;
    Log(fmt::format("no broker answers at {} yet; waiting for one", options.endpoint));
  }
  if (stop && !draining) {
    draining = true;
    device_wait.Begin(MonotonicUs());  // so that whoever stops it soon sees what it waits for
    for (const FlightId flight : device_thread->TakeBack()) Step(GivenUp{flight});
    Step(Drain{});
    // Results can leave only if a broker takes them; without one there is nothing to wait for.
  }
  return !core.drained() && !(draining && !client.connected());
}

// A device may hang for ever, as its driver may. No other process can detect it.
void Handler::Impl::SayIfDeviceIsStuck() {
  const std::int64_t now_us = MonotonicUs();
  const std::optional<std::int64_t> since_us = device_thread->BusySinceUs();
  if (since_us != busy_since_us) device_wait.Begin(since_us.value_or(now_us));
  busy_since_us = since_us;
  if (!since_us) return;
  if (!device_wait.Due(now_us)) return;
  Log(fmt::format(
      "{} has been computing for {} s without finishing a task; its tasks go to other handlers "
      "when their leases end{}",
      device->info().name, (now_us - *since_us) / 1'000'000,
      draining ? ". Stopping waits for it; a second signal ends this process at once" : ""));
}

HandlerReport Handler::Impl::Run() {
  while (Turn(1'000'000)) {
  }
  device_thread.reset();
  releases->Close();
  CountDirect();
  report.peak_bytes = std::max(report.peak_bytes, device->budget().peak_bytes());
  if (pool) report.copied_results = pool->counts().copied;
  return report;
}

bool Handler::Impl::BytesTravel() const {
  const bool over_tcp = options.endpoint.starts_with("tcp://");
  return options.bytes_travel.value_or(over_tcp && !client.shares_memory());
}

void Handler::Impl::OnConnected() {
  say_waiting_at_us = INT64_MAX;
  capacity.bytes_travel = BytesTravel();
  ++connection;
  if (probe_get) client.Abandon(*std::exchange(probe_get, std::nullopt));
  capacity.link_ns_per_kib = capacity.link_round_trip_us = 0;  // of an earlier connection
  if (capacity.bytes_travel) {
    capacity.host = client.local_address();
    capacity.host_threads = static_cast<int>(std::thread::hardware_concurrency());
    probe_turns = 0;
    AskToProbe();
  }
  PutCapacity();
  EndSupplies();
  ConnectionLost lost{capacity.bytes_travel};
  for (const auto& [key, puts] : resident_puts) lost.put_again.insert(key);
  Step(lost);
  reported_tasks = UINT64_MAX;
  reported_at_us = 0;
}

void Handler::Impl::PutCapacity() {
  tuplespace::Tuple tuple;
  tuple.key = HandlerKey(client.id());
  tuple.payload = Payload::Copy(CapacityToJson(capacity));
  tuple.ephemeral = true;
  std::vector<tuplespace::Tuple> tuples;
  tuples.push_back(std::move(tuple));
  Submit(tuplespace::Put{std::move(tuples)});
}

void Handler::Impl::CountDirect() {
  const tuplespace::DirectCounts direct = client.direct_counts();
  report.fetched_bytes = direct.fetched_bytes;
  report.sent_bytes = direct.sent_bytes;
}

// Puts a report soon, even if no task was computed since the last one.
void Handler::Impl::ReportSpeed() {
  reported_tasks = UINT64_MAX;
  reported_at_us = 0;
  next_report_us = 0;
  if (!capacity.bytes_travel) return;  // then it is of no consequence
  Log(speed_watch->speed() == 1
          ? fmt::format("{} counts as being as fast as usual", capacity.device)
          : fmt::format(
                "{} now computes at {:.2g} times its usual speed, and gets tasks accordingly",
                capacity.device, speed_watch->speed()));
}

void Handler::Impl::PutReport(std::int64_t now_us) {
  report.peak_bytes = device_thread->peak_bytes();
  report.speed = speed_watch->speed();
  CountDirect();
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
  tuple.payload = Payload::Copy(ReportToJson(report));
  tuple.ephemeral = true;
  std::vector<tuplespace::Tuple> tuples;
  tuples.push_back(std::move(tuple));
  Submit(tuplespace::Put{std::move(tuples)});
  Submit(tuplespace::Retire{ReportsBefore(client.id(), report_number), false});
}

void Handler::Impl::Apply(std::vector<HandlerAction> actions) {
  const bool nested = !due.empty();  // then its first action is being carried out
  std::move(actions.begin(), actions.end(), std::back_inserter(due));
  if (nested) return;
  struct Clear {
    std::deque<HandlerAction>& all;
    ~Clear() { all.clear(); }  // an exception ends the handler
  } const clear{due};
  for (; !due.empty(); due.pop_front()) {
    std::visit([this](const auto& a) { Do(a); }, due.front());
  }
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
