// The events that a HandlerCore receives, and the actions that it returns.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "acan/core/task.h"
#include "tuplespace/messages.h"

namespace acan {

using FlightId = std::uint64_t;  // a taken task, from grant to release

// ---- events ------------------------------------------------------------------------------------

struct TaskGranted {
  tuplespace::LeaseRef lease;
  std::int64_t lease_us = 0;
  bool timed = false;                 // do not extend the lease
  bool current = true;                // answers the latest AskForTask, not one that it replaced
  std::uint64_t need_bytes = 0;       // according to its maker
  std::uint64_t gathering_bytes = 0;  // see TaskMemory; both are at most need_bytes
  std::uint64_t computing_bytes = 0;
  std::uint64_t flops = 0;
  std::int32_t chunk = 0;  // most tasks of its run to take together; 0: the handler decides
  std::vector<tuplespace::Key> inputs;
  std::vector<bool> whole;  // inputs that are buffers until the task ends; empty: all
  std::vector<bool> sent;   // which inputs came with the grant
  std::vector<std::uint64_t> input_bytes;  // of those that came with the grant
  // Of all, according to the task; 0, or empty: any size is right.
  std::vector<std::uint64_t> right_bytes;
  // Inputs of at least this size came over a link and are kept for other tasks.
  std::uint64_t kept_from_bytes = UINT64_MAX;
  std::optional<std::size_t> keep_input;  // the input worth keeping on the device (the tile)
  std::uint64_t resident_bytes = 0;       // of results that may stay on the device
  std::vector<Ahead> ahead = {};          // tuples that other tasks of this handler will soon need
};
struct GetEnded {};  // the latest get ended without a task
struct InputsArrived {
  FlightId flight = 0;
  // The index and size of each fetched input; empty if inputs are not kept.
  std::vector<std::pair<std::size_t, std::uint64_t>> bytes = {};
};
// A tuple that was fetched ahead is here; 0 bytes: it did not come.
struct AheadArrived {
  tuplespace::Key key;
  std::uint64_t bytes = 0;
};
// The bytes of an input could not be kept because there is no room.
struct NotKept {
  tuplespace::Key key;
};
// The space has refused a result of a task, or had a tuple with its key before, which may have
// other bytes. So no task may use what the flight made.
struct ResultRefused {
  tuplespace::Key key;
  FlightId flight = 0;
};
// The space has answered, and what is here of the task's results counts, except for those that were
// refused before.
struct ResultsCount {
  FlightId flight = 0;
};
// The task cannot or will not be run here, and goes back.
struct GivenUp {
  FlightId flight = 0;
};
struct KeptResult {
  tuplespace::Key key;
  std::uint64_t bytes = 0;
  bool resident = false;  // its bytes are nowhere else
};
struct TaskFinished {
  FlightId flight = 0;
  std::uint64_t result_bytes = 0;  // held until Released, with the kept ones
  std::vector<KeptResult> kept;    // results that stay on the device, each with a key of its own
  std::int64_t took_us = 0;        // on the device
};
struct TaskFailed {
  FlightId flight = 0;
  std::string cause;
};
// The space has answered, and the results' bytes have left this process.
struct Released {
  FlightId flight = 0;
};
// A new session has begun. The space has ended the leases of the old one and forgotten which
// results stay here. Results whose put is sent again are an exception: the space may not know them
// yet.
struct ConnectionLost {
  bool bytes_travel = false;  // over the new connection, what leaves this handler crosses a link
  std::set<tuplespace::Key> put_again = {};  // results that stay on the device
};
// About results that stay on the device. KeptWanted: a client asks for this one. KeptSupplied: its
// bytes have left. SupplyFailed: they could not leave. EarlierReleased: an earlier result with this
// key was released together with its supply. KeptReleased: no client needs the bytes, because the
// tuple is gone or another client has put it.
struct KeptWanted {
  tuplespace::Key key;
};
struct KeptSupplied {
  tuplespace::Key key;
  std::int64_t took_us = 0;
};
struct SupplyFailed {
  tuplespace::Key key;
};
struct EarlierReleased {
  tuplespace::Key key;
};
struct KeptReleased {
  tuplespace::Key key;
};
struct Drain {};  // take no more tasks, and put back those that have not begun
struct TimePassed {};

using HandlerEvent = std::variant<TaskGranted, GetEnded, InputsArrived, AheadArrived, NotKept,
                                  ResultRefused, ResultsCount, GivenUp, TaskFinished, TaskFailed,
                                  Released, ConnectionLost, KeptWanted, KeptSupplied, SupplyFailed,
                                  EarlierReleased, KeptReleased, Drain, TimePassed>;

// ---- actions -----------------------------------------------------------------------------------

// Opens a get and cancels the open one.
struct AskForTask {
  std::uint64_t offer_bytes = 0;
  std::uint32_t count = 1;
  bool share = false;            // leave some for others
  std::uint32_t ns_per_kib = 0;  // see tuplespace::Get
};
struct StopAsking {};
struct FetchInputs {
  FlightId flight = 0;
  std::vector<std::size_t> inputs;
};
// No task of this handler needs the tuple yet. Then AheadArrived.
struct FetchAhead {
  tuplespace::Key key;
  std::uint64_t bytes = 0;  // set aside for it; a tuple of another size must not come
};
// The device runs tasks in the order of these actions.
struct RunTask {
  FlightId flight = 0;
  bool resident = false;  // keep those results on the device that may stay there
};
struct ReportDone {
  FlightId flight = 0;
  tuplespace::LeaseRef lease;
};
struct ReportFailed {
  tuplespace::LeaseRef lease;
  std::string cause;
  FlightId flight = 0;
};
struct PutBack {
  FlightId flight = 0;
  tuplespace::LeaseRef lease;
};
struct ExtendLease {
  tuplespace::LeaseRef lease;
  std::int64_t lease_us = 0;
};
// Moves the input to the cache.
struct KeepInput {
  FlightId flight = 0;
  tuplespace::Key key;
};
// An input that came from elsewhere is in the cache from now on, for this and other flights.
struct KeepArrived {
  FlightId flight = 0;
  std::size_t input = 0;
  tuplespace::Key key;  // of the input; the flight may have failed by then
};
// A tuple that was fetched ahead is in the cache from now on.
struct KeepAhead {
  tuplespace::Key key;
};
struct DropCached {
  tuplespace::Key key;
};
// The flight's cached input is removed with the flight, which is the only user from now on.
struct TakeCached {
  FlightId flight = 0;
  std::size_t input = 0;
};
struct AnnounceHeld {
  std::vector<tuplespace::Key> held, dropped;
};
// Sends the tuple's bytes. Then KeptSupplied, SupplyFailed, EarlierReleased or KeptReleased.
struct SupplyKept {
  tuplespace::Key key;
};

using HandlerAction =
    std::variant<AskForTask, StopAsking, FetchInputs, FetchAhead, RunTask, ReportDone, ReportFailed,
                 PutBack, ExtendLease, KeepInput, KeepArrived, KeepAhead, DropCached, TakeCached,
                 AnnounceHeld, SupplyKept>;

}  // namespace acan
