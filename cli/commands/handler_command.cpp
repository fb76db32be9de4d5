// acan handler: takes tasks that fit its device, computes them, and puts the results back.
#include <unistd.h>

#include "acan/core/access_roles.h"
#include "acan/core/error.h"
#include "acan/core/text/size_text.h"
#include "acan/handler/handler.h"
#include "acan/manager/host_name.h"
#include "access_file.h"
#include "command.h"
#include "device_factory.h"
#include "fmt/format.h"
#include "handler_flags.h"
#include "machine.h"
#include "meeting_point.h"
#include "process_setup.h"
#include "role.h"
#include "watchdog.h"

namespace acan::cli {
namespace {

struct Flags {
  HandlerFlags handler;
  RoleFlags role;
};

constexpr const char* kHandlerExample = R"(
Waits for a broker that has not started yet or that went away, and up to a minute until the broker's
host name can be resolved. When it is stopped, it finishes the task that it computes and gives the
others back. Without --connect it looks for a broker of the same user: see acan broker --help.

Example, a handler of two threads that holds at most 64 MiB:
  acan handler --connect tcp://127.0.0.1:5555 --device cpu:2 --memory 64MiB)";

// Empty if the device has all the memory that was asked for.
std::string ShortageText(const Device& device, std::uint64_t asked_bytes) {
  const std::uint64_t limit_bytes = device.budget().limit_bytes();
  if (limit_bytes >= asked_bytes) return "";
  return fmt::format(
      "{} has only {} of the {} asked for; other processes and the threads' local memory have the "
      "rest",
      device.info().name, RoundedSizeText(limit_bytes), RoundedSizeText(asked_bytes));
}

// Makes a handler whose device has passed the conformance battery.
std::unique_ptr<Handler> Prove(HandlerOptions options, const HandlerDevice& device, Log& log) {
  const auto& [spec, memory_bytes, fast_math] = device;
  std::string shortage;
  try {
    options.device = MakeDevice(spec, memory_bytes, fast_math);
    shortage = ShortageText(*options.device, memory_bytes);
    if (!shortage.empty()) log.Warning(shortage);
    return std::make_unique<Handler>(std::move(options));
  } catch (const OutOfMemory& error) {
    if (!shortage.empty()) {
      throw FailureError(shortage + "; the conformance battery needs more");
    }
    throw TooSmall(spec, memory_bytes, error);
  }
}

// Empty if there were no direct transfers.
std::string DirectText(const HandlerReport& report) {
  if (report.fetched_bytes == 0 && report.sent_bytes == 0) return "";
  return fmt::format(", {} fetched from other handlers, {} sent to them",
                     SizeText(report.fetched_bytes), SizeText(report.sent_bytes));
}

int RunHandler(const Flags& flags) {
  RequireLimits("acan handler");
  const std::string endpoint = EndpointToConnect(flags.handler.connect);
  const HandlerDevice chosen = DeviceOf(flags.handler);
  const DeviceSpec& spec = chosen.spec;
  HandlerOptions options;
  // `acan train` gives its handlers no key, since they are on its own host.
  const bool is_child = flags.role.parent != 0;
  const bool has_key = !is_child && flags.handler.keys.set();
  HandlerFlags given = flags.handler;
  if (is_child && given.direct.origin == "ACAN_DIRECT") given.direct = {};  // is for other brokers
  ApplyHandlerFlags(given, has_key, options);

  RoleProcess role(flags.role, "handler " + spec.Name());
  AvoidPreemption();
  if (const int code = role.AwaitHost(endpoint, flags.handler.connect.origin)) return code;
  options.endpoint = endpoint;
  Machine machine = ThisMachine();
  options.machine = std::move(machine.id);
  options.cpus = std::move(machine.cpus);
  options.name = fmt::format("{} on {}, pid {}", spec.Name(), HostName(), ::getpid());
  if (has_key) options.access = AccessOf(flags.handler.keys, kHandlerRole);
  options.log = [&role](const std::string& line) { role.log().Info(line); };
  Watchdog watchdog({"handler " + spec.Name(),
                     "it is computing, or waiting for its device's driver",
                     [&role](const std::string& line) { role.log().Warning(line); }});
  options.alive = [&watchdog] { watchdog.Beat(); };
  const std::unique_ptr<Handler> handler = Prove(std::move(options), chosen, role.log());
  HandlerReport report;
  const int code = role.Serve([&] { report = handler->Run(); }, [&handler] { handler->Stop(); });
  if (flags.role.parent == 0) {
    role.log().Info(
        fmt::format("{} tasks done, {} failed, {:.1f} s of computing, held at most {} of {}{}",
                    report.tasks, report.failed, report.busy_s, SizeText(report.peak_bytes),
                    SizeText(chosen.memory_bytes), DirectText(report)));
  }
  return code;
}

}  // namespace

void AddHandler(Command& app, Chosen& chosen) {
  const auto flags = std::make_shared<Flags>();
  Command command = app.AddCommand("handler", "Compute tasks of any manager on one device");
  AddHandlerFlags(command, flags->handler);
  AddRoleFlags(command, flags->role);
  command.Footer(kHandlerExample);
  command.OnParsed([flags, &chosen] { chosen.run = [flags] { return RunHandler(*flags); }; });
}

}  // namespace acan::cli
