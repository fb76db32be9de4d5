// acan handler: takes tasks that fit its device, computes, puts the results back.
#include <unistd.h>

#include "acan/core/access_roles.h"
#include "acan/core/error.h"
#include "acan/core/text/size_text.h"
#include "acan/handler/handler.h"
#include "acan/manager/host_name.h"
#include "access_file.h"
#include "command.h"
#include "device_factory.h"
#include "device_list.h"
#include "fmt/format.h"
#include "machine.h"
#include "meeting_point.h"
#include "process_setup.h"
#include "role.h"
#include "tuplespace/client.h"
#include "watchdog.h"

namespace acan::cli {
namespace {

struct HandlerFlags {
  Setting connect;
  Setting device;
  Setting memory;
  Setting keys;
  Setting fast_math;
  Setting throttle;
  Setting direct;
  std::string inject;
  RoleFlags role;
};

constexpr std::uint64_t kEnoughToProve = 64
                                         << 10;  // see RunConformanceBattery, with packing scratch

constexpr const char* kHandlerExample = R"(
Waits for a broker that is not there yet, and for one that went away; for the address of a host's
name a minute. Ends when it is stopped: then it finishes what it computes and gives the rest back.
Without --connect it looks for a broker of the same user: see acan broker --help.

Example, a handler of two threads that holds at most 64 MiB:
  acan handler --connect tcp://127.0.0.1:5555 --device cpu:2 --memory 64MiB)";

// A handler whose device has proved itself.
std::unique_ptr<Handler> Prove(HandlerOptions options, const DeviceSpec& spec,
                               std::uint64_t memory_bytes, FastMath fast_math) {
  try {
    options.device = MakeDevice(spec, memory_bytes, fast_math);
    return std::make_unique<Handler>(std::move(options));
  } catch (const OutOfMemory& error) {
    // Others may have filled the device; then its driver's words are what helps.
    if (memory_bytes >= kEnoughToProve) {
      throw FailureError(fmt::format("{} has no memory left: {}", spec.Name(), error.what()));
    }
    throw UsageError(
        fmt::format("{} with {} is too small to prove that it computes rightly ({}); it needs {} "
                    "for that, and its tasks may need more",
                    spec.Name(), SizeText(memory_bytes), error.what(), SizeText(kEnoughToProve)));
  }
}

std::optional<Throttle> ThrottleOf(const Setting& setting) {
  if (!setting.set()) return std::nullopt;
  std::string problem;
  std::optional<Throttle> throttle = Throttle::Parse(setting.value, &problem);
  if (!throttle)
    throw UsageError(fmt::format("{} '{}': {}", setting.origin, setting.value, problem));
  return throttle;
}

// Nothing if there were no direct transfers.
std::string DirectText(const HandlerReport& report) {
  if (report.fetched_bytes == 0 && report.sent_bytes == 0) return "";
  return fmt::format(", {} fetched from other handlers, {} sent to them",
                     SizeText(report.fetched_bytes), SizeText(report.sent_bytes));
}

// "on", "off", or where to listen.
void ApplyDirect(const Setting& setting, HandlerOptions& options) {
  if (!setting.set() || setting.value == "on") return;
  options.direct = setting.value != "off";
  if (!options.direct) return;
  if (const auto problem =
          tuplespace::DirectListenProblem(setting.value, options.access.has_value())) {
    throw UsageError(
        fmt::format("{}: {}; on, off or tcp://ADDRESS:PORT is expected", setting.origin, *problem));
  }
  options.direct_listen = setting.value;
}

int RunHandler(const HandlerFlags& flags) {
  RequireLimits("acan handler");
  const std::optional<Throttle> throttle = ThrottleOf(flags.throttle);
  const std::string endpoint = EndpointToConnect(flags.connect);
  DeviceSpec spec =
      ChooseDevice(flags.device.set() ? ParseDevice(flags.device.value, flags.device.origin)
                                      : ParseDevice("auto", "--device"));
  if (!spec.memory_bytes && flags.memory.set()) {
    spec.memory_bytes = ParseMemory(flags.memory.value, flags.memory.origin);
  }
  const std::uint64_t memory_bytes =
      spec.memory_bytes ? *spec.memory_bytes : DefaultMemoryBytes(spec, 1, 1);

  const FastMath fast_math = flags.fast_math.set()
                                 ? ParseFastMath(flags.fast_math.value, flags.fast_math.origin)
                                 : FastMath::kFp32;

  RoleProcess role(flags.role, "handler " + spec.Name());
  InterruptNobody();
  if (const int code = role.AwaitHost(endpoint, flags.connect.origin)) return code;
  HandlerOptions options;
  options.endpoint = endpoint;
  options.throttle = throttle;
  Machine machine = ThisMachine();
  options.machine = std::move(machine.id);
  options.cpus = std::move(machine.cpus);
  options.name = fmt::format("{} on {}, pid {}", spec.Name(), HostName(), ::getpid());
  if (flags.role.parent == 0) options.access = AccessOf(flags.keys, kHandlerRole);
  ApplyDirect(flags.direct, options);
  options.log = [&role](const std::string& line) { role.log().Info(line); };
  if (!flags.inject.empty()) {
    try {
      options.faults = ParseFaults(flags.inject);
    } catch (const std::invalid_argument& error) {
      throw UsageError(fmt::format("--inject: {}", error.what()));
    }
  }
  Watchdog watchdog({"handler " + spec.Name(), "it computes, or waits for its device's driver",
                     [&role](const std::string& line) { role.log().Warning(line); }});
  options.alive = [&watchdog] { watchdog.Beat(); };
  const std::unique_ptr<Handler> handler = Prove(std::move(options), spec, memory_bytes, fast_math);
  HandlerReport report;
  const int code = role.Serve([&] { report = handler->Run(); }, [&handler] { handler->Stop(); });
  if (flags.role.parent == 0) {
    role.log().Info(
        fmt::format("{} tasks done, {} failed, {:.1f} s of computing, at most {} held of {}{}",
                    report.tasks, report.failed, report.busy_s, SizeText(report.peak_bytes),
                    SizeText(memory_bytes), DirectText(report)));
  }
  return code;
}

}  // namespace

void AddHandler(Command& app, Chosen& chosen) {
  const auto flags = std::make_shared<HandlerFlags>();
  Command command =
      app.AddCommand("handler", "Compute: serve one device to whatever manager has tasks");
  AddSetting(command, flags->connect, "--connect", "ACAN_CONNECT",
             std::string("the broker, or the places where it may be started, separated by commas "
                         "(default: ") +
                 kDefaultPlace + ")")
      .TypeName("ENDPOINT");
  AddSetting(command, flags->device, "--device", "ACAN_DEVICE",
             "cpu, cpu:THREADS, opencl:N, opencl:N/PART, cuda:N or auto (default: auto, the first "
             "GPU, else all cores)")
      .TypeName("DEVICE");
  AddSetting(command, flags->memory, "--memory", "ACAN_MEMORY",
             "the most bytes it may hold, like 64MiB (default: half of what is free; of a GPU nine "
             "tenths)")
      .TypeName("SIZE");
  AddKeys(command, flags->keys, "its key file, for a broker with keys");
  AddSetting(command, flags->fast_math, "--fast-math", "ACAN_FAST_MATH",
             "what products of jobs with precision = \"fast\" may round their operands to: fp32 "
             "(default), tf32 or bf16; CUDA, and bf16 on CPUs that have it; others compute in fp32")
      .TypeName("MATH");
  AddSetting(command, flags->throttle, "--throttle", "ACAN_THROTTLE",
             "for experiments: no faster than so many GFLOP/s, like 2.5, or several in turn by the "
             "wall clock, like 1,5,10@5s")
      .TypeName("GFLOPS");
  AddSetting(command, flags->direct, "--direct", "ACAN_DIRECT",
             "over tcp, where results stay here: send them to other handlers without the broker. "
             "on (default: listens at the address that reaches the broker, at a free port), off, "
             "or where to listen, like tcp://10.0.0.7:5600")
      .TypeName("on|off|ENDPOINT");
  command
      .AddOption("--inject", flags->inject,
                 "for experiments: compute wrong on purpose, like results:1e-3,seed=7 (also "
                 "result_bits:RATE, weights:RATE)")
      .TypeName("SPEC");
  AddRoleFlags(command, flags->role);
  command.Footer(kHandlerExample);
  command.OnParsed([flags, &chosen] { chosen.run = [flags] { return RunHandler(*flags); }; });
}

}  // namespace acan::cli
