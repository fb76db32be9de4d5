// The parts of a Handler. handler.cpp: construction, the loop, and reports; handler_tasks.cpp:
// tasks, from grant to result; handler_inputs.cpp: missing inputs; handler_resident.cpp: results
// that stay on the device; handler_link.cpp: measuring the link.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "acan/core/long_wait.h"
#include "acan/core/names.h"
#include "acan/core/task.h"
#include "acan/handler/handler.h"
#include "acan/handler/handler_core.h"
#include "acan/handler/link_probe.h"
#include "acan/handler/planted.h"
#include "acan/handler/speed_watch.h"
#include "device/device_thread.h"
#include "fmt/format.h"
#include "release_queue.h"
#include "supply_queue.h"
#include "tuplespace/client.h"
#include "tuplespace/clock.h"

namespace acan {

struct Handler::Impl {
  // Reports follow soon after the first tasks, so that short jobs are seen, and later ever less
  // often.
  static constexpr std::int64_t kFirstReportUs = 10'000;
  using Key = tuplespace::Key;
  using ReplyBody = tuplespace::ReplyBody;

  // A flight, as the I/O thread knows it.
  struct Flight {
    std::shared_ptr<const Task> task;
    std::uint64_t flops = 0;  // Flops(*task)
    std::vector<Key> input_keys;
    std::vector<TaskInput> inputs;
    std::optional<std::size_t> keep_input;
    bool input_is_resident = false;              // at another handler, which is asked for it
    std::vector<tuplespace::FoundTuple> placed;  // the known places of inputs
    std::vector<Key> wrong_size;                 // inputs that must not come here
    DeviceOutcome outcome;
  };

  explicit Impl(HandlerOptions given);
  // Requests without an answer keep results, whose release would wake a client that is gone.
  ~Impl() {
    if (!IsPlanted(HandlerBug::kResultsWakeLostClient)) releases->Close();
  }

  void Begin();
  bool Turn(std::int64_t most_wait_us);
  HandlerReport Run();
  void SayIfDeviceIsStuck();
  // Carries out actions in the order of the core's decisions. If an action makes the core decide
  // more, as a failed upload does, that follows all that was decided before: otherwise an older
  // request for tasks would replace a newer one. So inside of an action, Step returns before its
  // own actions are carried out; outside, everything is done when it returns.
  void Apply(std::vector<HandlerAction> actions);
  void Step(const HandlerEvent& event) { Apply(core.Step(event, tuplespace::MonotonicUs())); }
  void OnGrants(tuplespace::RequestId get, std::uint32_t asked, ReplyBody&& reply);
  void AskForLess(const tuplespace::RequestError& error, std::uint32_t asked);
  void OnGrant(tuplespace::Grant&& grant, bool current);
  void OnOutcome(DeviceOutcome&& outcome);
  void OnTaskFailed(FlightId id, const std::string& cause);
  void OnCompleted(FlightId id, const tuplespace::LeaseRef& lease, const Task& task,
                   const ReplyBody& reply);
  bool BytesTravel() const;
  // ---- results that stay on the device (handler_resident.cpp)
  std::uint64_t ResidentBytes(const Task& task) const;
  void OnResident(const std::vector<std::size_t>& resident, const std::vector<Key>& keys,
                  const ReplyBody& reply);
  void Release(const Key& key);
  void OnNotice(const tuplespace::Notice& notice);
  void Do(const SupplyKept& action) { supplies.Add(action.key); }
  bool MaySupply() const { return client.connected() && supplies.MayBegin(); }
  void SupplyNext();
  void SubmitSupply(const SupplyQueue::Entry& entry, tuplespace::Payload payload,
                    std::int64_t begin_us);
  void OnSupplied(const Key& key, std::int64_t begin_us, const ReplyBody& reply);
  void OnSupplyFailed(const Key& key, const std::string& why);
  void EndSupplies();
  tuplespace::Payload KeptBytes(const Key& key);  // empty: it is not here
  // ---- missing inputs (handler_inputs.cpp)
  tuplespace::Payload CameForAnother(const Key& key) const;
  void Fetch(FlightId id, const std::vector<Key>& missing);
  void HaveSupplied(FlightId id, const Key& key);
  bool Waits(FlightId id, const std::vector<Key>& keys) const;
  void Read(FlightId id, std::vector<tuplespace::FoundTuple> wanted);
  void OnInputs(FlightId id, const std::vector<Key>& keys, ReplyBody&& reply);
  void GoOnWith(const std::vector<tuplespace::FoundTuple>& came);
  void EndFetch(const FetchInputs& action);
  void OnAhead(const Key& key, ReplyBody&& reply);
  void OnConnected();
  // ---- its link (handler_link.cpp)
  void AskToProbe();
  void OnProbeTurn(ReplyBody&& reply);
  void ProbeLink();
  void PutProbe(std::uint64_t bytes, std::optional<std::int64_t> begin_us);
  void EndProbe();
  void OnProbeTurnEnded(const ReplyBody& reply);
  void PutCapacity();
  void CountDirect();
  void PutReport(std::int64_t now_us);
  void ReportSpeed();
  void Submit(tuplespace::RequestBody body) {
    client.Submit(std::move(body), [this](ReplyBody&& reply) {
      if (const auto* error = std::get_if<tuplespace::RequestError>(&reply)) {
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
  void Do(const FetchAhead& action);
  void Do(const RunTask& action);
  void Do(const ReportDone& action);
  void Do(const ReportFailed& action);
  void Do(const PutBack& action);
  void Do(const ExtendLease& action);
  void Do(const KeepInput& action);
  void Do(const KeepArrived& action);
  void Do(const KeepAhead& action);
  void Do(const DropCached& action);
  void Do(const TakeCached& action);
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
  // Ordered, as managers choose the keys: many that have the same hash would be slow to find.
  std::map<Key, BufferPtr> cached;
  std::map<Key, int> resident_puts;          // puts that are not answered yet
  std::map<Key, tuplespace::Payload> ahead;  // fetched ahead; empty: in progress
  std::set<Key> under_way;                   // fetches for the inputs of a task
  std::vector<FetchInputs> fetches;          // these wait for something
  SupplyQueue supplies;                      // of cached entries; those that are gone are skipped
  std::optional<Flight> arriving;  // granted; its number comes with the core's first action
  std::deque<HandlerAction> due;   // decided, not carried out; the first one is in progress
  std::optional<tuplespace::RequestId> open_get;
  std::uint32_t most_asked = UINT32_MAX;  // tasks at once; less after a refusal
  std::atomic<bool> stop{false};
  bool draining = false;
  std::optional<FaultInjector> injector;
  LinkProbe link_probe;
  std::uint64_t connection = 0;  // the number of the current connection
  std::int64_t probe_number = 0;
  std::optional<tuplespace::RequestId> probe_get;  // for the turn, while it waits
  tuplespace::LeaseRef probe_turn;
  int probe_turns = 0;  // in this connection
  HandlerReport report;
  std::optional<SpeedWatch> speed_watch;  // set with `capacity`
  std::int64_t report_number = 0;
  std::int64_t next_report_us = 0;
  std::int64_t report_every_us = kFirstReportUs;
  std::uint64_t reported_tasks = UINT64_MAX;
  std::int64_t reported_at_us = 0;
  std::int64_t say_waiting_at_us = INT64_MAX;  // when to log that no broker has answered yet
  std::optional<std::int64_t> busy_since_us;   // of the device, when last checked
  LongWait device_wait{0};
  std::unique_ptr<DeviceThread> device_thread;  // last, as it uses the others
};

}  // namespace acan
