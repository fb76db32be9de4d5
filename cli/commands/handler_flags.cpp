#include "handler_flags.h"

#include <optional>
#include <stdexcept>

#include "acan/core/error.h"
#include "acan/core/text/size_text.h"
#include "acan/handler/conformance.h"
#include "access_file.h"
#include "device_factory.h"
#include "fmt/format.h"
#include "meeting_point.h"
#include "tuplespace/client.h"

namespace acan::cli {
namespace {

std::optional<Throttle> ThrottleOf(const Setting& setting) {
  if (!setting.set()) return std::nullopt;
  std::string problem;
  std::optional<Throttle> throttle = Throttle::Parse(setting.value, &problem);
  if (!throttle)
    throw UsageError(fmt::format("{} '{}': {}", setting.origin, setting.value, problem));
  return throttle;
}

// "on", "off", or the endpoint to listen at.
void ApplyDirect(const Setting& setting, bool has_key, HandlerOptions& options) {
  if (!setting.set() || setting.value == "on") return;
  options.direct = setting.value != "off";
  if (!options.direct) return;
  if (const auto problem = tuplespace::DirectListenProblem(setting.value, has_key)) {
    throw UsageError(
        fmt::format("{}: {}; expected on, off or tcp://ADDRESS:PORT", setting.origin, *problem));
  }
  options.direct_listen = setting.value;
}

}  // namespace

void AddHandlerFlags(Command& app, HandlerFlags& flags) {
  AddSetting(app, flags.connect, "--connect", "ACAN_CONNECT",
             std::string("the broker's endpoint, or the endpoints where it may be started, "
                         "separated by commas (default: ") +
                 kDefaultPlace + ")")
      .TypeName("ENDPOINT");
  AddSetting(app, flags.device, "--device", "ACAN_DEVICE",
             "cpu, cpu:THREADS, opencl:N, opencl:N/PART, cuda:N or auto (default: auto, the first "
             "GPU, else all cores)")
      .TypeName("DEVICE");
  AddSetting(app, flags.memory, "--memory", "ACAN_MEMORY",
             "the handler's memory limit, like 64MiB (default: half of the free memory; on a GPU, "
             "nine tenths, less what its driver needs)")
      .TypeName("SIZE");
  AddKeys(app, flags.keys, "the key file, for a broker with keys");
  AddSetting(app, flags.fast_math, "--fast-math", "ACAN_FAST_MATH",
             "the format to which products of jobs with precision = \"fast\" may round their "
             "operands: fp32 (default), tf32 (CUDA) or bf16 (CUDA, and CPUs that support it); "
             "other devices compute in fp32")
      .TypeName("MATH");
  AddSetting(app, flags.throttle, "--throttle", "ACAN_THROTTLE",
             "for experiments: limits the speed to this many GFLOP/s, like 2.5, or to several in "
             "turn by the wall clock, like 1,5,10@5s")
      .TypeName("GFLOPS");
  AddSetting(app, flags.direct, "--direct", "ACAN_DIRECT",
             "whether other handlers fetch results that stay here over tcp, without the broker: on "
             "(default; listens on a free port of the address that reaches the broker), off, or "
             "where to listen, like tcp://10.0.0.7:5600")
      .TypeName("on|off|ENDPOINT");
  app.AddOption(
         "--inject", flags.inject,
         "for experiments: computes wrong results on purpose, like results:1e-3,seed=7 (also "
         "result_bits:RATE, weights:RATE)")
      .TypeName("SPEC");
}

HandlerDevice DeviceOf(const HandlerFlags& flags) {
  HandlerDevice chosen;
  chosen.spec =
      ChooseDevice(flags.device.set() ? ParseDevice(flags.device.value, flags.device.origin)
                                      : ParseDevice("auto", "--device"));
  if (!chosen.spec.memory_bytes && flags.memory.set()) {
    chosen.spec.memory_bytes = ParseMemory(flags.memory.value, flags.memory.origin);
  }
  chosen.memory_bytes =
      chosen.spec.memory_bytes ? *chosen.spec.memory_bytes : DefaultMemoryBytes(chosen.spec, 1, 1);
  if (flags.fast_math.set()) {
    chosen.fast_math = ParseFastMath(flags.fast_math.value, flags.fast_math.origin);
  }
  return chosen;
}

Error TooSmall(const DeviceSpec& spec, std::uint64_t memory_bytes, const OutOfMemory& error) {
  // Other processes may have filled the device; then its driver's message is what helps.
  if (memory_bytes >= kConformanceBytes) {
    return FailureError(fmt::format("{} has no memory left: {}", spec.Name(), error.what()));
  }
  return UsageError(fmt::format(
      "{} with {} is too small for the conformance battery ({}); {} is enough for it, but tasks "
      "may need more",
      spec.Name(), SizeText(memory_bytes), error.what(), SizeText(kConformanceBytes)));
}

void ApplyHandlerFlags(const HandlerFlags& flags, bool has_key, HandlerOptions& options) {
  options.throttle = ThrottleOf(flags.throttle);
  ApplyDirect(flags.direct, has_key, options);
  if (flags.inject.empty()) return;
  try {
    options.faults = ParseFaults(flags.inject);
  } catch (const std::invalid_argument& error) {
    throw UsageError(fmt::format("--inject: {}", error.what()));
  }
}

}  // namespace acan::cli
