// HandlerCore: what a handler decides, as a pure state machine: what to ask for, what to run, what
// to keep on the device, when to extend a lease. No socket, clock, thread or device in here.
//
// Memory: every task taken reserves its need_bytes until its results have left; what is kept on the
// device besides (the cache) fills at most the rest and is dropped, coldest first, when a task
// needs the room. So the sum never passes the limit.
//
// How many tasks it takes: enough to be busy while the next one is on its way, and no more, because
// what waits here cannot be computed by somebody faster (pace.h). That is one or two long tasks;
// short ones are taken many at a time, as a message costs more than they do, in at most half of the
// memory, so that what is kept there stays. A task may instead ask for a whole chunk to be taken
// together.
//
// Results may stay on a device with memory of its own: the space knows them, and their bytes are
// supplied when somebody asks. Until then they cannot be dropped. So they take what two of the
// largest tasks leave, and are supplied unasked when the handler has nothing else to do, as what it
// waits for may be a larger task.
//
// Leases are extended as long as the device makes progress: a task ended, or began, within the last
// kPatienceLeases times the lease. So a slow handler keeps what it works on, and one whose device
// hangs loses it, though its thread that talks to the space is well.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "acan/handler/pace.h"
#include "tuplespace/messages.h"

namespace acan {

inline constexpr std::int64_t kPatienceLeases = 8;
inline constexpr std::int32_t kMostAskedAtOnce = 64;  // tasks of one get

using FlightId = std::uint64_t;  // a task taken, from grant to release

// ---- events ------------------------------------------------------------------------------------

struct TaskGranted {
  tuplespace::LeaseRef lease;
  std::int64_t lease_us = 0;
  bool timed = false;   // do not extend the lease
  bool current = true;  // answers the latest AskForTask, not one replaced by it
  std::uint64_t need_bytes = 0;
  std::uint64_t flops = 0;
  std::int32_t chunk = 0;  // most tasks to take together; 0: as this handler sees fit
  std::vector<tuplespace::Key> inputs;
  std::vector<bool> sent;                  // which inputs came along
  std::vector<std::uint64_t> input_bytes;  // of those that came along
  std::optional<std::size_t> keep_input;   // worth keeping on the device (the tile)
  std::uint64_t resident_bytes = 0;        // of results that may stay on the device
};
struct GetEnded {};  // the latest get came back without a task
struct InputsArrived {
  FlightId flight = 0;
};  // those that were fetched
struct GivenUp {
  FlightId flight = 0;
};  // cannot or will not be run here: it goes back
struct KeptResult {
  tuplespace::Key key;
  std::uint64_t bytes = 0;
  bool resident = false;  // nobody else has its bytes
};
struct TaskFinished {
  FlightId flight = 0;
  std::uint64_t result_bytes = 0;  // still held until Released
  std::vector<KeptResult> kept;    // results that stay on the device
  std::int64_t took_us = 0;        // on the device
};
struct TaskFailed {
  FlightId flight = 0;
  std::string cause;
};
struct Released {
  FlightId flight = 0;
};                         // the results' bytes have left this process
struct ConnectionLost {};  // the space may have given our leases back
// Of results that stay on the device: somebody asks for this one; its bytes have left; they could
// not leave; or nobody is owed them: it is gone, or another has put it.
struct KeptWanted {
  tuplespace::Key key;
};
struct KeptSupplied {
  tuplespace::Key key;
};
struct SupplyFailed {
  tuplespace::Key key;
};
struct KeptReleased {
  tuplespace::Key key;
};
struct Drain {};  // take nothing more, put back what has not begun
struct TimePassed {};

using HandlerEvent = std::variant<TaskGranted, GetEnded, InputsArrived, GivenUp, TaskFinished,
                                  TaskFailed, Released, ConnectionLost, KeptWanted, KeptSupplied,
                                  SupplyFailed, KeptReleased, Drain, TimePassed>;

// ---- actions -----------------------------------------------------------------------------------

struct AskForTask {
  std::uint64_t offer_bytes = 0;
  std::uint32_t count = 1;
  bool share = false;  // leave some to others
};                     // open a get; an open one is cancelled
struct StopAsking {};
struct FetchInputs {
  FlightId flight = 0;
  std::vector<std::size_t> inputs;
};
struct RunTask {
  FlightId flight = 0;
  bool resident = false;  // results that may stay on the device do
};                        // in this order, on the device
struct ReportDone {
  FlightId flight = 0;
  tuplespace::LeaseRef lease;
};
struct ReportFailed {
  tuplespace::LeaseRef lease;
  std::string cause;
};
struct PutBack {
  FlightId flight = 0;
  tuplespace::LeaseRef lease;
};
struct ExtendLease {
  tuplespace::LeaseRef lease;
  std::int64_t lease_us = 0;
};
struct KeepInput {
  FlightId flight = 0;
  tuplespace::Key key;
};  // move it to the cache
struct DropCached {
  tuplespace::Key key;
};
struct AnnounceHeld {
  std::vector<tuplespace::Key> held, dropped;
};
struct SupplyKept {
  tuplespace::Key key;
};  // its bytes; then KeptSupplied, SupplyFailed or KeptReleased

using HandlerAction =
    std::variant<AskForTask, StopAsking, FetchInputs, RunTask, ReportDone, ReportFailed, PutBack,
                 ExtendLease, KeepInput, DropCached, AnnounceHeld, SupplyKept>;

class HandlerCore {
 public:
  HandlerCore(std::uint64_t limit_bytes, int depth) : limit_bytes_(limit_bytes), depth_(depth) {}

  // REQUIRES: `now_us` never goes back. Flights are numbered from 1 in the order of grants.
  std::vector<HandlerAction> Start();
  std::vector<HandlerAction> Step(const HandlerEvent& event, std::int64_t now_us);

  std::int64_t NextDeadlineUs() const;
  bool drained() const { return draining_ && flights_.empty() && owed_.empty(); }
  FlightId last_flight() const { return next_flight_ - 1; }
  std::uint64_t reserved_bytes() const { return reserved_bytes_; }
  std::uint64_t cached_bytes() const { return cached_bytes_; }
  bool IsCached(const tuplespace::Key& key) const { return cache_.count(key) != 0; }

 private:
  enum class Phase : std::uint8_t { kFetching, kQueued, kSending };
  struct Flight {
    Phase phase = Phase::kQueued;
    tuplespace::LeaseRef lease;
    std::int64_t lease_us = 0;
    std::int64_t extend_at_us = 0;
    bool timed = false;  // its lease is the job's own limit
    std::uint64_t flops = 0;
    std::uint64_t charge_bytes = 0;       // its part of reserved_bytes_
    std::uint64_t resident_bytes = 0;     // its part of resident_bytes_
    std::vector<tuplespace::Key> pinned;  // cached tuples that it uses
    std::optional<KeptResult> input_to_keep;
  };
  struct Cached {
    std::uint64_t bytes = 0;
    int pins = 0;
    bool doomed = false;  // superseded while pinned: goes with its last pin
    bool owed = false;    // nobody else has its bytes: it cannot go
    std::int64_t last_used_us = 0;
  };
  using Actions = std::vector<HandlerAction>;

  void On(const TaskGranted& event, std::int64_t now_us, Actions& out);
  void On(const GetEnded&, std::int64_t now_us, Actions& out);
  void On(const InputsArrived& event, std::int64_t now_us, Actions& out);
  void On(const GivenUp& event, std::int64_t now_us, Actions& out);
  void On(const TaskFinished& event, std::int64_t now_us, Actions& out);
  void On(const TaskFailed& event, std::int64_t now_us, Actions& out);
  void On(const Released& event, std::int64_t now_us, Actions& out);
  void On(const ConnectionLost&, std::int64_t now_us, Actions& out);
  void On(const KeptWanted& event, std::int64_t now_us, Actions& out);
  void On(const KeptSupplied& event, std::int64_t now_us, Actions& out);
  void On(const SupplyFailed& event, std::int64_t now_us, Actions& out);
  void On(const KeptReleased& event, std::int64_t now_us, Actions& out);
  void On(const Drain&, std::int64_t now_us, Actions& out);
  void On(const TimePassed&, std::int64_t now_us, Actions& out);

  void Ask(std::int64_t now_us, Actions& out);
  struct Want {
    std::uint32_t count = 0;
    std::uint64_t offer_bytes = 0;
    bool share = false;
  };
  Want Wanted(std::int64_t now_us);
  struct Queued {
    std::int64_t all_us = 0;
    std::int64_t longest_us = 0;
  };
  Queued QueuedWork(std::int64_t now_us) const;
  void ExtendLeases(std::int64_t now_us, Actions& out);
  void EndWork(Flight& flight);
  bool MayExtend(const Flight& flight, std::int64_t now_us) const;
  void NoteProgress(std::int64_t now_us);
  void SetCharge(Flight& flight, std::uint64_t bytes);
  void Pin(Cached& cached);
  void Unpin(Flight& flight, std::int64_t now_us, Actions& out);
  void AddCached(const KeptResult& kept, int pins, std::int64_t now_us, Actions& out);
  bool IsNewest(const tuplespace::Key& key) const;
  void DropOlder(const tuplespace::Key& input, Actions& out);
  void RemoveCached(const tuplespace::Key& key, Actions& out);
  void MakeRoom(Actions& out);
  void FlushHolds(Actions& out);
  // ---- results that stay here (handler_core_resident.cpp)
  std::uint64_t FreeBytes() const { return limit_bytes_ - reserved_bytes_ - owed_bytes_; }
  bool MayBeResident(std::uint64_t bytes) const;
  void AddOwed(const tuplespace::Key& key);
  Cached* EndOwed(const tuplespace::Key& key);  // null: it was not owed
  void SupplyAll(Actions& out);
  void NoteIdle(std::int64_t now_us);

  const std::uint64_t limit_bytes_;
  const int depth_;
  Pace pace_;
  std::int64_t asked_us_ = 0;
  std::int32_t chunk_left_ = 0;   // of a chunk that is being taken
  bool chunked_ = false;          // the last task was one of a chunk
  std::int64_t progress_us_ = 0;  // when the device began or ended a task last
  std::int64_t ask_at_us_ = tuplespace::kForeverUs;
  std::int64_t extend_check_us_ = tuplespace::kForeverUs;  // no lease is to be extended before
  int working_ = 0;                                        // flights that are not computed yet
  std::uint64_t working_flops_ = 0;
  std::int64_t cold_check_us_ = 0;  // when to look for what was not used for long
  bool asking_ = false;
  bool draining_ = false;
  std::uint64_t asked_offer_bytes_ = 0;
  std::uint64_t largest_need_bytes_ = 0;  // of any task granted so far
  FlightId next_flight_ = 1;
  std::map<FlightId, Flight> flights_;
  std::uint64_t reserved_bytes_ = 0;
  std::optional<tuplespace::Key> step_;  // of the latest task
  std::map<tuplespace::Key, Cached> cache_;
  std::unordered_map<std::string, tuplespace::Key> newest_;  // identity without step -> cached key
  std::uint64_t cached_bytes_ = 0;                           // of entries without pins
  std::vector<tuplespace::Key> newly_held_, newly_dropped_;
  std::map<tuplespace::Key, bool> owed_;  // entries of cache_; whether they are being supplied
  std::uint64_t owed_bytes_ = 0;          // of those without pins
  std::uint64_t resident_bytes_ = 0;      // of all, and of those to come of tasks that run
  std::int64_t idle_until_us_ = tuplespace::kForeverUs;  // then all is supplied
};

}  // namespace acan
