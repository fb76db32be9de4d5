// What the commands that compute a model's outputs have in common: flags, and the file they write.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "acan/generate/predictor.h"
#include "acan/manager/sample_set.h"
#include "flags.h"
#include "watchdog.h"

namespace acan::cli {

struct PredictorFlags {
  std::string out;
  std::string device = "cpu";
  std::string memory;
};
void AddPredictorFlags(Command& command, PredictorFlags& flags);

// Throws Error (usage) if `out` is one of the files `inputs`, under any name, or anything else than
// a file. Empty names of inputs are ignored.
void RequireOtherOutput(const std::string& out, const std::vector<std::string>& inputs);

// Writes the output for all samples as an NPY file [samples x rows, features], and says so.
// `change` is applied to each sample's output; null: nothing. Returns the exit code; after a signal
// to stop there is no file. `watchdog` is that of the command.
int WriteOutputs(Predictor& predictor, const SampleSet& samples, const std::string& out,
                 Watchdog& watchdog, const std::function<void(std::span<float>)>& change = nullptr);

// Reports that the command `name` reads or computes for long.
Watchdog::Options OfPredictor(const std::string& name);

// The text of `error`, with what to do.
std::string NoRoomText(const std::string& folder, const OutOfMemory& error);

}  // namespace acan::cli
