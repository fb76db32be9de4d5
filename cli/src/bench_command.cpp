// acan bench: measurements, as JSON or as lines for people.
#include "CLI/CLI.hpp"
#include "command.h"
#include "device_factory.h"
#include "device_list.h"
#include "fmt/format.h"
#include "gemm_bench.h"
#include "nlohmann/json.hpp"
#include "policies_bench.h"
#include "space_bench.h"
#include "train_bench.h"

namespace acan::cli {
namespace {

constexpr std::uint64_t kBenchBytes = std::uint64_t{1} << 30;  // of another device

constexpr const char* kExample = R"(
Every number is a median with the least and the most of its repeats.

Examples:
  acan bench space                  tuples per second and latency over inproc, ipc and tcp
  acan bench gemm --threads 2       exact matrix products against OpenBLAS and oneDNN
  acan bench backends               every device beside its own limits, with --svg also as a picture
  acan bench train                  training through the space against one plain loop
  acan bench policies               unequal handlers under each scheduling policy
  acan bench space --json | jq .)";

// One line for each measured number: its place in the result, then its values.
void PrintNumbers(const nlohmann::json& value, const std::string& place) {
  if (value.is_object() && value.contains("median")) {
    PrintLine(fmt::format("{:<60} {:>12.5g}   ({:.5g} .. {:.5g})", place,
                          value["median"].get<double>(), value["min"].get<double>(),
                          value["max"].get<double>()));
    return;
  }
  if (value.is_structured()) {
    for (const auto& [key, item] : value.items()) {
      PrintNumbers(item, place.empty() ? key : place + "." + key);
    }
    return;
  }
  PrintLine(fmt::format("{:<60} {:>12}", place, value.dump()));
}

int Report(const nlohmann::json& result, bool json) {
  if (json) {
    PrintLine(result.dump());
  } else {
    PrintNumbers(result, "");
  }
  return 0;
}

void AddSpaceBench(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<bench::SpaceBenchOptions>();
  const auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("space", "The tuple space and its broker");
  command->add_option("--transport", options->transports, "inproc, ipc or tcp; may be given again")
      ->type_name("KIND");
  command->add_option("--repeats", options->repeats, "how often, at least 5")
      ->capture_default_str();
  command->add_flag("--curve", options->curve, "instead: what CURVE costs over tcp");
  command->add_flag("--json", *json, "one line of JSON");
  command->footer("\nExample:\n  acan bench space --transport ipc\n  acan bench space --curve");
  command->callback(
      [=, &chosen] { chosen.run = [=] { return Report(bench::RunSpaceBench(*options), *json); }; });
}

void AddGemmBench(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<bench::GemmBenchOptions>();
  const auto json = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("gemm", "Exact matrix products against OpenBLAS and oneDNN");
  command->add_option("--threads", options->threads, "threads of each")->capture_default_str();
  command->add_option("--repeats", options->repeats, "how often, at least 7")
      ->capture_default_str();
  command->add_option("--batch", options->batches, "samples; may be given again");
  command->add_option("--layer", options->layers,
                      "inputs and outputs of a layer, like 784x4096; may be given again");
  const auto device = std::make_shared<std::string>();
  command->add_option("--device", *device, "measured beside the CPU, like opencl:0")
      ->type_name("DEVICE");
  command->add_flag("--json", *json, "one line of JSON");
  command->footer(
      "\nExamples:\n  acan bench gemm --threads 1 --batch 128 --layer 1024\n"
      "  acan bench gemm --threads 2 --device opencl:0");
  command->callback([=, &chosen] {
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

void AddTrainBench(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<bench::TrainBenchOptions>();
  const auto json = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("train", "Training through the space against one plain loop");
  command
      ->add_option("--handlers", options->handlers, "handlers of one thread; threads of the loop")
      ->capture_default_str();
  command->add_option("--batch", options->batch, "samples of a step")->capture_default_str();
  command->add_option("--steps", options->steps, "steps of one run")->capture_default_str();
  command->add_option("--repeats", options->repeats, "pairs of runs")->capture_default_str();
  command->add_option("--layers", options->layers, "inputs, hidden layers, outputs")
      ->delimiter(',');
  const auto device = std::make_shared<std::string>();
  command
      ->add_option("--device", *device,
                   "one handler and the loop on this device in place of the CPU, like cuda:0@8GiB")
      ->type_name("DEVICE");
  command->add_flag("--json", *json, "one line of JSON");
  command->footer(
      "\nExamples:\n  acan bench train --repeats 5\n"
      "  acan bench train --device cuda:0@16GiB --layers 8192,8192,8192 --batch 4096 --steps 6");
  command->callback([=, &chosen] {
    chosen.run = [=] {
      bench::TrainBenchOptions given = *options;
      if (!device->empty()) {
        const DeviceSpec spec = ParseDevice(*device, "--device");
        given.handlers = 1;
        given.make_device = [spec] {
          return MakeDevice(spec, spec.memory_bytes.value_or(kBenchBytes));
        };
      }
      return Report(bench::RunTrainBench(given), *json);
    };
  });
}

void AddPoliciesBench(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<bench::PoliciesBenchOptions>();
  const auto json = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("policies", "Unequal handlers under each scheduling policy");
  command->add_option("--policy", options->policies, "tasks.policy; may be given again");
  command->add_option("--speeds", options->speeds, "of the handlers, in units")->delimiter(',');
  command->add_option("--unit", options->unit_gflops, "GFLOP/s of speed 1")->capture_default_str();
  command->add_option("--batch", options->batch, "samples of a step")->capture_default_str();
  command->add_option("--steps", options->steps, "steps of one run")->capture_default_str();
  command->add_option("--repeats", options->repeats, "rounds over all policies")
      ->capture_default_str();
  command->add_option("--layers", options->layers, "inputs, hidden layers, outputs")
      ->delimiter(',');
  command->add_flag("--json", *json, "one line of JSON");
  command->footer("\nExample:\n  acan bench policies --policy auto --policy paper --repeats 1");
  command->callback([=, &chosen] {
    chosen.run = [=] {
      const nlohmann::json result = bench::RunPoliciesBench(*options);
      PrintLine(*json ? result.dump() : bench::PoliciesTable(result));
      return 0;
    };
  });
}

}  // namespace

void AddBench(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand("bench", "Measure the parts of acan on this machine");
  command->require_subcommand(1);
  command->footer(kExample);
  AddSpaceBench(*command, chosen);
  AddGemmBench(*command, chosen);
  AddBackendsBench(*command, chosen);
  AddTrainBench(*command, chosen);
  AddPoliciesBench(*command, chosen);
}

}  // namespace acan::cli
