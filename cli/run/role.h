// What the roles broker, handler and manager share: log, signals, parent.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "flags.h"
#include "log.h"
#include "setting.h"
#include "stop_signals.h"

namespace acan::cli {

// Flags that every role has.
struct RoleFlags {
  Setting log_format;
  pid_t parent = 0;  // set if `acan train` started this role; 0: started by hand
};
void AddRoleFlags(Command& app, RoleFlags& flags);

// Whether a setting is "on" (also if it is not set) or "off". Throws Error (usage) for other
// values.
bool IsOn(const Setting& setting);
// Checks the variables that children read themselves. Throws Error (usage) for a value with which
// every start of a child would fail. `cpu`: some of them are handlers with a CPU device.
void RequireVariablesOfChildren(bool cpu);

// Keeps this thread, and those that it will start, from preempting other threads when they are
// woken (SCHED_BATCH). Handlers and managers have many threads. With few processors, these would
// interrupt each other and the broker at each message.
void AvoidPreemption();

// The process of a role. Make it before anything else, so that it watches for signals before other
// threads exist.
class RoleProcess {
 public:
  RoleProcess(const RoleFlags& flags, const std::string& name);

  Log& log() { return log_; }
  // Runs `serve`. A stop signal calls `stop`, which must make `serve` return. Returns 128 + the
  // signal, or 0 if there was none.
  int Serve(const std::function<void()>& serve, const std::function<void()>& stop);
  // Waits until the broker's host has an address (BrokerHost). Returns what Serve returns.
  int AwaitHost(const std::string& endpoint, const std::string& origin);
  // Whether the process that started this one has died, so that nobody will use or clean up what it
  // serves.
  bool Orphaned() const;

 private:
  pid_t parent_;
  StopSignals signals_;
  Log log_;
};

}  // namespace acan::cli
