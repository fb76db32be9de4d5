// acan bench: measurements, as JSON or as text lines.
#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "command.h"
#include "device_factory.h"
#include "device_list.h"
#include "fmt/format.h"
#include "gemm_bench.h"
#include "nlohmann/json.hpp"
#include "policies_bench.h"
#include "space_bench.h"
#include "standard_output.h"
#include "train_bench.h"

namespace acan::cli {
namespace {

constexpr std::uint64_t kBenchBytes = std::uint64_t{1} << 30;  // for devices other than the CPU

constexpr const char* kBenchExample = R"(
Every number is a median, with the minimum and the maximum of the repeats.

Examples:
  acan bench space                  tuples per second and latency over inproc, ipc and tcp
  acan bench gemm --threads 2       exact matrix products against OpenBLAS and oneDNN
  acan bench backends               every device compared with its own limits; --svg also draws it
  acan bench train                  training through the space against one plain loop
  acan bench policies               unequal handlers under each scheduling policy
  acan bench space --json | jq .)";

// Prints a line for each measured number: its path in the result, then its values.
void PrintNumbers(const nlohmann::json& value, const std::string& place) {
  if (value.is_object() && value.contains("median")) {
    PrintLine(fmt::format("{:<60} {:>12.5g}   ({:.5g} .. {:.5g})", place,
                          value["median"].get<double>(), value["min"].get<double>(),
                          value["max"].get<double>()));
    return;
  }
  if (value.is_structured()) {
    for (const auto& [key, item] : value.items()) {
      PrintNumbers(item, place.empty() ? key : fmt::format("{}.{}", place, key));
    }
    return;
  }
  PrintLine(fmt::format("{:<60} {:>12}", place, JsonText(value)));
}

int Report(const nlohmann::json& result, bool json) {
  if (json) {
    PrintLine(JsonText(result));
  } else {
    PrintNumbers(result, "");
  }
  return 0;
}

void AddSpaceBench(Command& app, Chosen& chosen) {
  const auto options = std::make_shared<bench::SpaceBenchOptions>();
  const auto json = std::make_shared<bool>(false);
  Command command = app.AddCommand("space", "The tuple space and its broker");
  command.AddOption("--transport", options->transports, "inproc, ipc or tcp; may be repeated")
      .TypeName("KIND");
  command.AddOption("--repeats", options->repeats, "the number of repeats, at least 5")
      .ShowDefault();
  command.AddFlag("--curve", options->curve, "measures the cost of CURVE over tcp instead");
  command.AddFlag("--json", *json, "one line of JSON");
  command.Footer("\nExample:\n  acan bench space --transport ipc\n  acan bench space --curve");
  command.OnParsed(
      [=, &chosen] { chosen.run = [=] { return Report(bench::RunSpaceBench(*options), *json); }; });
}

void AddGemmBench(Command& app, Chosen& chosen) {
  const auto options = std::make_shared<bench::GemmBenchOptions>();
  const auto json = std::make_shared<bool>(false);
  Command command = app.AddCommand("gemm", "Exact matrix products against OpenBLAS and oneDNN");
  command.AddOption("--threads", options->threads, "threads of each").ShowDefault();
  command.AddOption("--repeats", options->repeats, "the number of repeats, at least 7")
      .ShowDefault();
  command.AddOption("--batch", options->batches, "samples; may be repeated");
  command.AddOption("--layer", options->layers,
                    "inputs and outputs of a layer, like 784x4096; may be repeated");
  const auto device = std::make_shared<std::string>();
  command.AddOption("--device", *device, "a device to measure besides the CPU, like opencl:0")
      .TypeName("DEVICE");
  command.AddFlag("--json", *json, "one line of JSON");
  command.Footer(
      "\nExamples:\n  acan bench gemm --threads 1 --batch 128 --layer 1024\n"
      "  acan bench gemm --threads 2 --device opencl:0");
  command.OnParsed([=, &chosen] {
    chosen.run = [=] {
      std::unique_ptr<Device> other;
      if (!device->empty()) {
        const DeviceSpec spec = ParseDevice(*device, "--device");
        other = MakeDevice(spec, spec.memory_bytes.value_or(kBenchBytes));
      }
      bench::GemmBenchOptions given = *options;
      given.other = other.get();
      return Report(bench::RunGemmBench(given), *json);
    };
  });
}

void AddTrainBench(Command& app, Chosen& chosen) {
  const auto options = std::make_shared<bench::TrainBenchOptions>();
  const auto json = std::make_shared<bool>(false);
  Command command = app.AddCommand("train", "Training through the space against one plain loop");
  const auto handlers = std::make_shared<std::optional<int>>();
  command.AddOption("--handlers", *handlers,
                    "handlers of one thread, and threads of the loop (default: 2); on another "
                    "device, handlers (default: 1)");
  command.AddOption("--batch", options->batch, "samples per step").ShowDefault();
  command.AddOption("--steps", options->steps, "steps per run").ShowDefault();
  command.AddOption("--repeats", options->repeats, "pairs of runs").ShowDefault();
  command.AddOption("--layers", options->layers, "inputs, hidden layers, outputs").Delimiter(',');
  const auto device = std::make_shared<std::string>();
  command
      .AddOption(
          "--device", *device,
          "runs the handlers and the loop on this device instead of the CPU, like cuda:0@8GiB")
      .TypeName("DEVICE");
  const auto memory = std::make_shared<std::string>();
  command
      .AddOption(
          "--memory", *memory,
          "with --device: the memory limit of each handler, like 64MiB, if it is below the loop's")
      .TypeName("SIZE");
  command.AddFlag("--json", *json, "one line of JSON");
  command.Footer(
      "\nExamples:\n  acan bench train --repeats 5\n"
      "  acan bench train --device cuda:0@16GiB --layers 8192,8192,8192 --batch 4096 --steps 6");
  command.OnParsed([=, &chosen] {
    chosen.run = [=] {
      bench::TrainBenchOptions given = *options;
      given.handlers = handlers->value_or(device->empty() ? given.handlers : 1);
      if (device->empty() && !memory->empty()) throw UsageError("--memory needs --device");
      if (!device->empty()) {
        const DeviceSpec spec = ParseDevice(*device, "--device");
        const std::uint64_t loop_bytes = spec.memory_bytes.value_or(kBenchBytes);
        const std::uint64_t bytes = memory->empty() ? loop_bytes : ParseMemory(*memory, "--memory");
        given.make_device = [spec, loop_bytes] { return MakeDevice(spec, loop_bytes); };
        given.make_handler_device = [spec, bytes] { return MakeDevice(spec, bytes); };
      }
      return Report(bench::RunTrainBench(given), *json);
    };
  });
}

void AddPoliciesBench(Command& app, Chosen& chosen) {
  const auto options = std::make_shared<bench::PoliciesBenchOptions>();
  const auto json = std::make_shared<bool>(false);
  Command command = app.AddCommand("policies", "Unequal handlers under each scheduling policy");
  command.AddOption("--policy", options->policies, "tasks.policy; may be repeated");
  command.AddOption("--speeds", options->speeds, "the relative speeds of the handlers")
      .Delimiter(',');
  command.AddOption("--unit", options->unit_gflops, "GFLOP/s of speed 1").ShowDefault();
  command.AddOption("--batch", options->batch, "samples per step").ShowDefault();
  command.AddOption("--steps", options->steps, "steps per run").ShowDefault();
  command.AddOption("--repeats", options->repeats, "rounds over all policies").ShowDefault();
  command.AddOption("--layers", options->layers, "inputs, hidden layers, outputs").Delimiter(',');
  command.AddFlag("--json", *json, "one line of JSON");
  command.Footer("\nExample:\n  acan bench policies --policy auto --policy paper --repeats 1");
  command.OnParsed([=, &chosen] {
    chosen.run = [=] {
      const nlohmann::json result = bench::RunPoliciesBench(*options);
      PrintLine(*json ? JsonText(result) : bench::PoliciesTable(result));
      return 0;
    };
  });
}

}  // namespace

void AddBench(Command& app, Chosen& chosen) {
  Command command = app.AddCommand("bench", "Measure the parts of acan on this machine");
  command.RequireCommand();
  command.Footer(kBenchExample);
  AddSpaceBench(command, chosen);
  AddGemmBench(command, chosen);
  AddBackendsBench(command, chosen);
  AddTrainBench(command, chosen);
  AddPoliciesBench(command, chosen);
}

}  // namespace acan::cli
