// What a HandlerCore hears, and what it has others do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "acan/core/task.h"
#include "tuplespace/messages.h"

namespace acan {

using FlightId = std::uint64_t;  // a task taken, from grant to release

// ---- events ------------------------------------------------------------------------------------

struct TaskGranted {
  tuplespace::LeaseRef lease;
  std::int64_t lease_us = 0;
  bool timed = false;                 // do not extend the lease
  bool current = true;                // answers the latest AskForTask, not one replaced by it
  std::uint64_t need_bytes = 0;       // as its maker says
  std::uint64_t gathering_bytes = 0;  // TaskMemory; none is more than need_bytes
  std::uint64_t computing_bytes = 0;
  std::uint64_t flops = 0;
  std::int32_t chunk = 0;  // most tasks to take together; 0: as this handler sees fit
  std::vector<tuplespace::Key> inputs;
  std::vector<bool> whole;                 // which inputs are buffers until it ends; empty: all
  std::vector<bool> sent;                  // which inputs came along
  std::vector<std::uint64_t> input_bytes;  // of those that came along
  std::vector<std::uint64_t> right_bytes;  // of all, as the task says; 0, or empty: any is right
  // Inputs of so many bytes came over a link, and are kept for other tasks.
  std::uint64_t kept_from_bytes = UINT64_MAX;
  std::optional<std::size_t> keep_input;  // worth keeping on the device (the tile)
  std::uint64_t resident_bytes = 0;       // of results that may stay on the device
  std::vector<Ahead> ahead = {};          // what other tasks of this handler will soon need
};
struct GetEnded {};  // the latest get came back without a task
struct InputsArrived {
  FlightId flight = 0;
  std::vector<std::pair<std::size_t, std::uint64_t>> bytes = {};  // of each, if it is to be kept
};                                                                // those that were fetched
// What was fetched ahead is there; 0 bytes: it did not come.
struct AheadArrived {
  tuplespace::Key key;
  std::uint64_t bytes = 0;
};
// The bytes of an input could not be kept: there is no room.
struct NotKept {
  tuplespace::Key key;
};
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
  std::uint64_t result_bytes = 0;  // still held until Released, those that stay among them
  std::vector<KeptResult> kept;    // results that stay on the device
  std::int64_t took_us = 0;        // on the device
};
struct TaskFailed {
  FlightId flight = 0;
  std::string cause;
};
struct Released {
  FlightId flight = 0;
};  // the space has answered, and the results' bytes have left this process
// There is a new session. The space has given the leases of the old one back and forgotten what was
// supplied and what stayed, but for results whose put is sent again, which it may not have heard
// of.
struct ConnectionLost {
  bool bytes_travel = false;  // of the new connection: what leaves crosses a link
  std::unordered_set<tuplespace::Key> put_again = {};  // results that stay
};
// Of results that stay on the device: somebody asks for this one; its bytes have left; they could
// not leave; an earlier result of this key was released, with its supply; or nobody is owed the
// bytes: the result is gone, or another has put it.
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
struct Drain {};  // take nothing more, put back what has not begun
struct TimePassed {};

using HandlerEvent =
    std::variant<TaskGranted, GetEnded, InputsArrived, AheadArrived, NotKept, GivenUp, TaskFinished,
                 TaskFailed, Released, ConnectionLost, KeptWanted, KeptSupplied, SupplyFailed,
                 EarlierReleased, KeptReleased, Drain, TimePassed>;

// ---- actions -----------------------------------------------------------------------------------

struct AskForTask {
  std::uint64_t offer_bytes = 0;
  std::uint32_t count = 1;
  bool share = false;            // leave some to others
  std::uint32_t ns_per_kib = 0;  // that others wait for what is held here
};                               // open a get; an open one is cancelled
struct StopAsking {};
struct FetchInputs {
  FlightId flight = 0;
  std::vector<std::size_t> inputs;
};
// No task of this handler needs it yet; then AheadArrived.
struct FetchAhead {
  tuplespace::Key key;
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
// An input that came from elsewhere is in the cache from now on, for this flight and others.
struct KeepArrived {
  FlightId flight = 0;
  std::size_t input = 0;
};
// What was fetched ahead is in the cache from now on.
struct KeepAhead {
  tuplespace::Key key;
};
struct DropCached {
  tuplespace::Key key;
};
// The flight's input, which is cached, goes with the flight: nobody else uses it from now on.
struct TakeCached {
  FlightId flight = 0;
  std::size_t input = 0;
};
struct AnnounceHeld {
  std::vector<tuplespace::Key> held, dropped;
};
struct SupplyKept {
  tuplespace::Key key;
};  // its bytes; then KeptSupplied, SupplyFailed, EarlierReleased or KeptReleased

using HandlerAction =
    std::variant<AskForTask, StopAsking, FetchInputs, FetchAhead, RunTask, ReportDone, ReportFailed,
                 PutBack, ExtendLease, KeepInput, KeepArrived, KeepAhead, DropCached, TakeCached,
                 AnnounceHeld, SupplyKept>;

}  // namespace acan
