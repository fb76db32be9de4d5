// LocalCluster: a broker and its handlers as child processes of this one, kept alive.
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
  std::vector<DeviceSpec> handlers;  // each says its memory, none is "auto"
  Transport transport = Transport::kIpc;
  // What handlers connect to, given where the broker listens; null: just that. Called once, on
  // another thread.
  std::function<std::string(const std::string& endpoint)> handlers_connect_to;
  // Asked once a second until the broker listens, on another thread: whether nobody wants it any
  // more. May be null.
  std::function<bool()> stopped = {};
};

class LocalCluster {
 public:
  // Starts the processes; returns when the broker listens. One that dies is started again, later
  // and later if it keeps dying young; one that cannot start is given up. A new broker listens
  // where the last one did and has none of its tuples. What the processes log goes to `log`, which
  // must outlive this. Throws Error (failure), also if the broker does not listen after a minute,
  // and Stopped if the options say so.
  struct Stopped {};
  LocalCluster(LocalClusterOptions options, Log& log);
  ~LocalCluster();  // Stop
  LocalCluster(const LocalCluster&) = delete;
  LocalCluster& operator=(const LocalCluster&) = delete;

  const std::string& endpoint() const;

  enum class Part { kBroker, kHandler };
  std::vector<pid_t> Pids(Part part) const;
  // False if `pid` is none of its processes (any more).
  bool Signal(pid_t pid, int signal);

  // Calls `function` once if the cluster can not go on (the broker or no handler starts): at
  // once if that has happened already, else on another thread. null: nobody is called any more when
  // this returns.
  void OnFailure(std::function<void()> function);
  std::optional<std::string> failure() const;  // why; empty: all is well
  std::uint64_t restarts() const;              // of the broker and of handlers

  // Asks all to end (handlers first, then the broker), kills those that do not within some seconds,
  // waits for them and removes the folder of the sockets. May be called again.
  void Stop();
  // Kills all at once and removes the folder. Thread safe; for the last moment of the process.
  void Kill();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace acan::cli
