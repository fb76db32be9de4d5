// LocalCluster: a broker and its handlers as child processes, restarted when they die.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device_list.h"
#include "log.h"

namespace acan::cli {

enum class Transport { kIpc, kTcp };

struct LocalClusterOptions {
  std::vector<DeviceSpec> handlers;  // each has its memory set, none is "auto"
  Transport transport = Transport::kIpc;
  // Maps the endpoint where the broker listens to the one that handlers connect to; null: the same.
  // Called once, on another thread.
  std::function<std::string(const std::string& endpoint)> handlers_connect_to;
  // Called once a second on another thread until the broker listens; true if the start is to be
  // given up. May be null.
  std::function<bool()> stopped = {};
};

class LocalCluster {
 public:
  // Starts the processes; returns when the broker listens. A process that dies is restarted, after
  // growing delays if it keeps dying young; one that cannot start is given up. A new broker listens
  // where the last one did and has none of its tuples. The processes' log lines go to `log`, which
  // must outlive this object. Throws Error (failure), also if the broker does not listen within a
  // minute, and Stopped if options.stopped returns true.
  struct Stopped {};
  LocalCluster(LocalClusterOptions options, Log& log);
  ~LocalCluster();  // Stop
  LocalCluster(const LocalCluster&) = delete;
  LocalCluster& operator=(const LocalCluster&) = delete;

  const std::string& endpoint() const;

  enum class Part { kBroker, kHandler };
  std::vector<pid_t> Pids(Part part) const;
  // False if `pid` is not (or no longer) one of its processes.
  bool Signal(pid_t pid, int signal);

  // Calls `function` once if the cluster cannot continue, because the broker or every handler fails
  // to start: immediately if that has already happened, otherwise on another thread. null: after
  // this returns, no function is called any more.
  void OnFailure(std::function<void()> function);
  std::optional<std::string> failure() const;  // why it cannot continue; empty: it can
  std::uint64_t restarts() const;              // of the broker and of handlers
  // The handlers that run or will be started again. Thread safe.
  std::vector<DeviceSpec> ComingHandlers() const;

  // Asks all processes to end (handlers first, then the broker), kills those that do not end within
  // some seconds, waits for them and removes the sockets' folder. May be called repeatedly.
  void Stop();
  // Kills all processes immediately and removes the folder. Thread safe; for the end of this
  // process.
  void Kill();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace acan::cli
