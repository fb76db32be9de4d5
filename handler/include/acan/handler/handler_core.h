// HandlerCore: a handler's decisions as a pure state machine: what to ask for, what to run, what to
// keep on the device, and when to extend a lease. It has no socket, clock, thread or device.
//
// Memory: every byte counts once, and the sum of these never exceeds the limit:
//
//   a task, from grant to result    the memory to gather its inputs or to compute, whichever is
//                                   more, without the cache entries that it uses
//   a task whose results leave      the results that are not in the cache, until the space has
//                                   answered
//   a tuple fetched ahead           all of it, until it is in the cache
//   the cache (device_cache.h)      all of its entries
//
// The offer is what tasks and entries that cannot go leave of the limit. A task that fits the offer
// always runs: plain entries go, the coldest first, and an entry that the task only copies into a
// larger buffer goes with the task if there is no room for the copy beside it.
//
// Results that leave are in the host's memory, which may be smaller than the device's. A space
// without room answers late. While many bytes wait for its answer, the handler asks for no task.
//
// Results may stay on a device with memory of its own: the space knows them, and their bytes are
// supplied on request, or when the handler is idle (owed_results.h). Until then they cannot be
// dropped. So they use only what two of the largest tasks leave. When the session ends, the space
// forgets these results, and the handler drops them.
//
// Before the space has answered, another handler may have put the result first, with other bytes. A
// task that reads the result must then use those. So a result that is kept, whether it also leaves
// or not, is neither used nor announced until the space has answered that it counts. The answer
// comes before any grant that depends on this put, so what is here is hardly ever fetched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "acan/handler/cache_eviction.h"
#include "acan/handler/coming_tuples.h"
#include "acan/handler/device_cache.h"
#include "acan/handler/flights.h"
#include "acan/handler/handler_events.h"
#include "acan/handler/lease_extensions.h"
#include "acan/handler/link_pace.h"
#include "acan/handler/owed_results.h"
#include "acan/handler/step_actions.h"
#include "acan/handler/task_demand.h"

namespace acan {

// While this many bytes of results wait to leave, the handler requests no task.
inline constexpr std::uint64_t kMaxLeavingBytes = 1ull << 30;

class HandlerCore {
 public:
  HandlerCore(std::uint64_t limit_bytes, int depth)
      : limit_bytes_(limit_bytes), depth_(depth), demand_(limit_bytes, depth) {}

  // REQUIRES: `now_us` never goes back. Flights are numbered from 1 in the order of grants.
  std::vector<HandlerAction> Start();
  std::vector<HandlerAction> Step(const HandlerEvent& event, std::int64_t now_us);

  std::int64_t NextDeadlineUs() const;
  bool drained() const { return draining_ && flights_.empty() && owed_.empty(); }
  // Something could not be supplied and waits to be tried again.
  bool SuppliesPause() const { return owed_.SuppliesPause(); }
  FlightId last_flight() const { return flights_.last_id(); }
  // Of tasks, without the cache entries that they use, and of tuples that are fetched ahead.
  std::uint64_t reserved_bytes() const { return flights_.charged_bytes() + coming_.bytes(); }
  std::uint32_t ns_per_kib() const { return link_.ns_per_kib(); }  // over its link, as estimated
  std::uint64_t cached_bytes() const { return cache_.bytes(); }
  bool IsCached(const tuplespace::Key& key) const { return cache_.Contains(key); }
  // Whether a task that is granted now may read what is in the cache.
  bool MayUse(const tuplespace::Key& key) const { return cache_.MayUse(key); }

 private:
  void On(const TaskGranted& event, std::int64_t now_us, StepActions& out);
  void On(const GetEnded&, std::int64_t now_us, StepActions& out);
  void On(const InputsArrived& event, std::int64_t now_us, StepActions& out);
  void On(const AheadArrived& event, std::int64_t now_us, StepActions& out);
  void On(const NotKept& event, std::int64_t now_us, StepActions& out);
  void On(const ResultRefused& event, std::int64_t now_us, StepActions& out);
  void On(const ResultsCount& event, std::int64_t now_us, StepActions& out);
  void On(const GivenUp& event, std::int64_t now_us, StepActions& out);
  void On(const TaskFinished& event, std::int64_t now_us, StepActions& out);
  void On(const TaskFailed& event, std::int64_t now_us, StepActions& out);
  void On(const Released& event, std::int64_t now_us, StepActions& out);
  void On(const ConnectionLost& event, std::int64_t now_us, StepActions& out);
  void On(const KeptWanted& event, std::int64_t now_us, StepActions& out);
  void On(const KeptSupplied& event, std::int64_t now_us, StepActions& out);
  void On(const SupplyFailed& event, std::int64_t now_us, StepActions& out);
  void On(const EarlierReleased& event, std::int64_t now_us, StepActions& out);
  void On(const KeptReleased& event, std::int64_t now_us, StepActions& out);
  void On(const Drain&, std::int64_t now_us, StepActions& out);
  void On(const TimePassed&, std::int64_t now_us, StepActions& out);

  Workload WorkloadAt(std::int64_t now_us) const;
  // ---- memory
  std::uint64_t HeldBytes() const { return reserved_bytes() + cache_.held_bytes(); }
  std::uint64_t FreeBytes() const;
  // The need of the two largest tasks together (LargestNeed).
  std::uint64_t MostNeeded() const { return 2 * demand_.largest_need_bytes(); }
  void ShrinkCache(StepActions& out);  // to what is not reserved
  // Sets the charge of a flight that has not begun. False: there is no room.
  bool Reserve(const TaskGranted& event, FlightId id, Flight& flight, StepActions& out);
  void Unpin(Flight& flight, std::int64_t now_us, StepActions& out);
  bool MayBeResident(std::uint64_t bytes) const;
  void DropSent(const TaskGranted& event, StepActions& out) const;
  void KeepInputs(FlightId id, Flight& flight,
                  const std::vector<std::pair<std::size_t, std::uint64_t>>& arrived,
                  std::int64_t now_us, StepActions& out);
  void FetchSome(const std::vector<Ahead>& ahead, StepActions& out);
  std::optional<std::string> ProblemOf(const std::vector<KeptResult>& results) const;
  // ---- work
  void EndWork(Flight& flight);

  const std::uint64_t limit_bytes_;
  const int depth_;
  TaskDemand demand_;
  LinkPace link_;
  DeviceCache cache_;
  CacheEviction eviction_;
  OwedResults owed_;  // all entries of cache_ that are owed, and no others
  Flights flights_;
  ComingTuples coming_;
  LeaseExtensions leases_;
  bool draining_ = false;
};

}  // namespace acan
