#include "predictor_flags.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "acan/core/error.h"
#include "acan/manager/atomic_file.h"
#include "acan/manager/npy_writer.h"
#include "fmt/format.h"
#include "standard_output.h"
#include "stop_signals.h"

namespace acan::cli {

void AddPredictorFlags(Command& command, PredictorFlags& flags) {
  command.AddOption("--out", flags.out, "the NPY file to write").Required().TypeName("FILE");
  command.AddOption("--device", flags.device, "where to compute (default: cpu, all cores)")
      .TypeName("DEVICE");
  command
      .AddOption("--memory", flags.memory,
                 "the memory limit on the device, like 2GiB (default: half of the free memory; on "
                 "a GPU, nine tenths, less what its driver needs)")
      .TypeName("SIZE");
}

void RequireOtherOutput(const std::string& out, const std::vector<std::string>& inputs) {
  std::error_code ignored;
  const auto status = std::filesystem::status(out, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw UsageError(fmt::format(
        "--out {}: is not a file but a folder, device, pipe or socket; name a file", out));
  }
  for (const std::string& input : inputs) {
    std::error_code none;  // the file does not exist
    if (input.empty() || !std::filesystem::equivalent(input, out, none)) continue;
    throw UsageError(fmt::format(
        "--out {}: is the input file {}, which it would replace; choose another name", out, input));
  }
}

Watchdog::Options OfPredictor(const std::string& name) {
  return Watchdog::OnStderr(
      name,
      "it is computing or reading, or a device's driver, a disk or a file server does not "
      "respond");
}

int WriteOutputs(Predictor& predictor, const SampleSet& samples, const std::string& out,
                 Watchdog& watchdog, const std::function<void(std::span<float>)>& change) {
  StopSignals signals(StopSignals::Mode::kAll);
  std::atomic<bool> stops = false;
  const StopGuard guard(
      signals, [&stops] { stops = true; }, nullptr);
  const std::int64_t rows = samples.samples() * predictor.rows();
  RemoveUnfinished(out);  // of a command that was killed
  NpyWriter file(out, {rows, predictor.features()});
  const auto per_sample = static_cast<std::size_t>(predictor.rows() * predictor.features());
  for (std::int64_t first = 0; first < samples.samples();) {
    if (stops) return 128 + signals.received();
    watchdog.Beat();
    const std::int64_t end = std::min(first + predictor.samples_at_once(), samples.samples());
    std::vector<float> values = predictor.Predict(samples, {first, end});
    for (std::size_t i = 0; change && i < values.size(); i += per_sample) {
      change(std::span(values).subspan(i, per_sample));
    }
    file.Write(values);
    first = end;
  }
  file.Finish();
  PrintLine(fmt::format("wrote {} [{}, {}]", out, rows, predictor.features()));
  return 0;
}

std::string NoRoomText(const std::string& folder, const OutOfMemory& error) {
  return fmt::format(
      "{}: the whole model and one sample must fit into one device: {}; raise --memory, or choose "
      "another --device",
      folder, error.what());
}

}  // namespace acan::cli
