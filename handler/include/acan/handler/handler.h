// Handler: one process's loop around one device: get, prefetch, run, put.
#pragma once

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

namespace zmq {
class context_t;
}

namespace acan {

struct HandlerOptions {
  std::string endpoint;
  std::string name;                                     // "cpu:1 on host7, pid 4711"
  std::unique_ptr<Device> device;                       // its budget is the handler's limit
  std::optional<tuplespace::ClientAccess> access = {};  // for a broker with keys
  int depth = 3;  // most long tasks taken at once: one runs, the others are prefetched
  // Where it runs, for managers: Capacity::machine and Capacity::cpus.
  std::string machine = {};
  std::vector<int> cpus = {};
  std::optional<Throttle> throttle = {};  // for experiments: slower than the device is
  std::optional<FaultPlan> faults = {};   // deliberate faults, for tests and experiments
  bool shared_memory = true;              // see tuplespace::ClientOptions
  // Whether the handler's output crosses a link, so that large results should stay here. Unset:
  // true over tcp if no memory can be shared with the broker.
  std::optional<bool> bytes_travel = {};
  // If so, inputs and results of at least this size are kept for the next tasks
  // (Get::holds_from_bytes).
  std::uint64_t holds_from_bytes = kMinHeldBytes;
  // Results that stay here go directly to the handlers that need them, and theirs come directly
  // from them. Without this, or if others cannot be reached, they go through the broker.
  // `direct_listen`: see tuplespace::ClientOptions.
  bool direct = true;
  std::string direct_listen = {};
  zmq::context_t* context = nullptr;  // shared for inproc; null: the handler makes its own
  std::function<void(const std::string& line)> log;  // rare events, one line each; may be null
  // Called on Run's thread at least about once a second, unless that thread is stuck; may be null.
  std::function<void()> alive = {};
};

// What managers are told, and what only the handler's log says.
struct HandlerReport : Report {
  std::uint64_t shared_results = 0;    // made in memory that the space can share
  std::uint64_t copied_results = 0;    // copied to such memory afterwards
  std::uint64_t resident_results = 0;  // results whose bytes stayed on the device
  std::uint64_t supplied_results = 0;  // resident results whose bytes were requested
  std::uint64_t sent_bytes = 0;        // of results that went directly to other handlers
};

class Handler {
 public:
  // Checks the device (conformance) and measures it. Throws what the device throws.
  explicit Handler(HandlerOptions options);
  ~Handler();
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;

  // Serves until Stop(); then takes no more tasks, finishes running ones, and puts back waiting
  // ones. Throws tuplespace::SpaceError if the broker refuses it permanently, and DeviceLost if the
  // device will not compute again.
  HandlerReport Run();
  // Replaces Run() for a thread that serves several handlers: one round, which waits at most
  // `most_wait` for something to do. False: there will be nothing more to do.
  bool Turn(std::chrono::microseconds most_wait);
  void Stop();  // thread safe, async-signal safe

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace acan
