#include "role.h"

#include <sched.h>
#include <unistd.h>

#include <cstdlib>

#include "acan/core/error.h"
#include "broker_host.h"
#include "child.h"
#include "device_factory.h"
#include "device_list.h"
#include "fmt/format.h"

namespace acan::cli {
namespace {

// Nobody waits for a role whose parent has died, so it must end within this time.
constexpr unsigned kOrphanPatienceS = 10;

}  // namespace

void AddRoleFlags(Command& app, RoleFlags& flags) {
  AddLogFormat(app, flags.log_format);
  app.AddOption(kChildFlag, flags.parent, "").Hidden();  // `acan train` gives it to its children
}

bool IsOn(const Setting& setting) {
  if (!setting.set() || setting.value == "on") return true;
  if (setting.value == "off") return false;
  throw UsageError(fmt::format("{}: \"{}\" must be on or off", setting.origin, setting.value));
}

void RequireVariablesOfChildren(bool cpu) {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0' ? Setting{value, name} : Setting{};
  };
  IsOn(variable("ACAN_SHARED_MEMORY"));
  const Setting payloads = variable("ACAN_PAYLOADS");
  if (payloads.set()) ParseMemory(payloads.value, payloads.origin);
  if (cpu) CheckCpuIsa();
}

void AvoidPreemption() {
  const sched_param none{};
  sched_setscheduler(0, SCHED_BATCH, &none);  // if forbidden, it is only a little slower
}

RoleProcess::RoleProcess(const RoleFlags& flags, const std::string& name)
    : parent_(flags.parent),
      signals_(flags.parent == 0 ? StopSignals::Mode::kAll : StopSignals::Mode::kOfChild),
      log_(ParseLogFormat(flags.log_format), name) {
  if (parent_ != 0) AdoptParent(parent_);
}

int RoleProcess::Serve(const std::function<void()>& serve, const std::function<void()>& stop) {
  {
    const StopGuard guard(
        signals_,
        [this, &stop] {
          if (parent_ != 0) ::alarm(kOrphanPatienceS);
          stop();
        },
        [] {});
    if (Orphaned()) stop();
    serve();
  }
  return signals_.received() == 0 ? 0 : 128 + signals_.received();
}

int RoleProcess::AwaitHost(const std::string& endpoint, const std::string& origin) {
  BrokerHost host({endpoint, origin, [this](const std::string& line) { log_.Warning(line); }});
  return Serve([&host] { host.Await(); }, [&host] { host.Stop(); });
}

bool RoleProcess::Orphaned() const {
  return parent_ != 0 && ParentDied(parent_);
}

}  // namespace acan::cli
