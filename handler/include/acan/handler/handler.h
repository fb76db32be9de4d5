// Handler: one process's loop around one device: get, prefetch, run, put.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "acan/core/device.h"
#include "acan/core/names.h"
#include "acan/handler/fault_injector.h"
#include "acan/handler/throttle.h"
#include "tuplespace/access.h"
#include "tuplespace/messages.h"

namespace zmq {
class context_t;
}

namespace acan {

// Supplies that the broker has not answered bring at most so many bytes, but for the last of them.
// This also bounds the copies of the device's memory that a handler makes for them.
inline constexpr std::uint64_t kMostSuppliedBytes = 64 << 20;

struct HandlerOptions {
  std::string endpoint;
  std::string name;                                     // "cpu:1 on host7, pid 4711"
  std::unique_ptr<Device> device;                       // its budget is the handler's limit
  std::optional<tuplespace::ClientAccess> access = {};  // for a broker with keys
  int depth = 3;  // most long tasks taken at once: one runs, the others are prefetched
  // Where it runs, as managers are told: Capacity::machine and Capacity::cpus.
  std::string machine = {};
  std::vector<int> cpus = {};
  std::optional<Throttle> throttle = {};  // for experiments: slower than the device is
  std::optional<FaultPlan> faults = {};   // to be made on purpose; for tests and experiments
  bool shared_memory = true;              // see tuplespace::ClientOptions
  // Whether what leaves this handler crosses a link, so that large results stay here. Unset: over
  // tcp, where no memory can be shared with the broker.
  std::optional<bool> bytes_travel = {};
  // Then inputs and results of so many bytes are kept for the next tasks (Get::holds_from_bytes).
  std::uint64_t holds_from_bytes = kLeastHeldBytes;
  // Results that stay here go from here to handlers that need them, and theirs come from them;
  // without this, and where others cannot be reached, through the broker. `direct_listen`: see
  // tuplespace::ClientOptions.
  bool direct = true;
  std::string direct_listen = {};
  zmq::context_t* context = nullptr;                 // shared for inproc; null: one of its own
  std::function<void(const std::string& line)> log;  // rare events, one line each; may be null
  // Called about once a second or more often on Run's thread, unless that is stuck; may be null.
  std::function<void()> alive = {};
};

struct HandlerReport {
  std::uint64_t tasks = 0;  // completed
  std::uint64_t failed = 0;
  std::uint64_t tile_hits = 0;         // inputs that were already on the device
  std::uint64_t peak_bytes = 0;        // most bytes held at once: device memory and waiting inputs
  std::uint64_t shared_results = 0;    // made where the space can share them
  std::uint64_t copied_results = 0;    // that were copied there afterwards
  std::uint64_t resident_results = 0;  // whose bytes stayed on the device
  std::uint64_t supplied_results = 0;  // of these, whose bytes were asked for
  std::uint64_t fetched_bytes = 0;     // of inputs that came from other handlers themselves
  std::uint64_t sent_bytes = 0;        // of results that went to other handlers themselves
  double busy_s = 0;                   // time spent computing
  double gflop = 0;                    // 10^9 operations of completed tasks (core/task.h, Flops)
};

class Handler {
 public:
  // Proves the device (conformance) and measures it. Throws what the device throws.
  explicit Handler(HandlerOptions options);
  ~Handler();
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;

  // Serves until Stop(): then takes nothing more, finishes what runs, puts back what waits.
  // Throws tuplespace::SpaceError if the broker refuses it for good, DeviceLost if the device will
  // not compute again.
  HandlerReport Run();
  // In place of Run(), for a thread that serves several handlers: one round, which waits at most so
  // long for something to do. False: there will be nothing more to do.
  bool Turn(std::chrono::microseconds most_wait);
  void Stop();  // thread safe, async-signal safe

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace acan
