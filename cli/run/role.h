// What the roles broker, handler and manager share: their log, their signals, their parent.
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
  pid_t parent = 0;  // of a role that `acan train` started; 0: started by hand
};
void AddRoleFlags(Command& app, RoleFlags& flags);

// Of a setting that is "on" (also if it is not set) or "off". Throws Error (usage) for others.
bool IsOn(const Setting& setting);
// Children read these variables themselves. Throws Error (usage) for a value that they would refuse
// each time they are started. `cpu`: some of them are handlers with a CPU device.
void RequireVariablesOfChildren(bool cpu);

// This thread and those that it will start take no processor from others when they are woken
// (SCHED_BATCH): handlers and managers have many threads, short of processors they would interrupt
// each other, and the broker, at each message.
void InterruptNobody();

// The process of a role. Make it first: it watches for signals before other threads exist.
class RoleProcess {
 public:
  RoleProcess(const RoleFlags& flags, const std::string& name);

  Log& log() { return log_; }
  // Runs `serve`; a signal to stop calls `stop`, which must make it return. Returns 128 + the
  // signal, or 0 if there was none.
  int Serve(const std::function<void()>& serve, const std::function<void()>& stop);
  // Waits until the broker's host has an address (BrokerHost). Returns as Serve does.
  int AwaitHost(const std::string& endpoint, const std::string& origin);
  // The process that started us has died: nobody will use or clean up what we serve.
  bool Orphaned() const;

 private:
  pid_t parent_;
  StopSignals signals_;
  Log log_;
};

}  // namespace acan::cli
