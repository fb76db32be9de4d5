#include "ragged_job.h"

#include <cstdint>
#include <cstring>
#include <random>

#include "acan/manager/model_file.h"
#include "acan/manager/sha256.h"
#include "data_files.h"
#include "gtest/gtest.h"

namespace acan::testing {
namespace {

constexpr int kInputs = 97;
constexpr int kClasses = 10;

// Noise, and a bright stripe whose position is the class.
void WriteSet(const TestFolder& folder, const std::string& name, int samples, unsigned seed) {
  std::mt19937 random(seed);
  std::string inputs;
  std::string labels;
  for (int sample = 0; sample < samples; ++sample) {
    const unsigned label = random() % kClasses;
    labels.push_back(static_cast<char>(label));
    for (unsigned i = 0; i < kInputs; ++i) {
      const unsigned noise = random() % 120;
      inputs.push_back(static_cast<char>(i / 9 == label ? 120 + noise : noise));
    }
  }
  const auto count = static_cast<std::uint32_t>(samples);
  folder.Write(name + "-inputs", IdxFile({count, kInputs}, inputs));
  folder.Write(name + "-labels", IdxFile({count}, labels));
}

}  // namespace

std::string WriteRaggedJob(const TestFolder& folder) {
  WriteSet(folder, "train", kTrainSamples, 1);
  WriteSet(folder, "test", kTestSamples, 2);
  return folder.Write("job.toml", R"(
[model]
layers = [97, 211, 53, 10]
[data]
train_inputs = "train-inputs"
train_labels = "train-labels"
test_inputs = "test-inputs"
test_labels = "test-labels"
[train]
batch = 37
epochs = 2
optimizer = "momentum"
learning_rate = 0.05
schedule = "cosine"
seed = 5
)");
}

nlohmann::json Train(const std::string& job, const std::string& out,
                     const std::vector<std::string>& words, const Environment& environment) {
  std::vector<std::string> arguments = {"train", job, "--out", out, "--json"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  const Result result = RunAcan(arguments, environment);
  EXPECT_EQ(result.code, 0) << result.err;
  if (result.code != 0) return nullptr;
  return nlohmann::json::parse(LastLine(result.out));
}

std::map<std::string, std::string> TensorsOfModelFile(const std::string& path) {
  const std::string file = ReadFile(path);
  std::uint64_t header_bytes = 0;
  if (file.size() < sizeof(header_bytes)) return {};
  std::memcpy(&header_bytes, file.data(), sizeof(header_bytes));
  const auto header = nlohmann::json::parse(file.substr(sizeof(header_bytes), header_bytes));
  const std::string data = file.substr(sizeof(header_bytes) + header_bytes);
  std::map<std::string, std::string> tensors;
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    const auto offsets = tensor["data_offsets"].get<std::vector<std::size_t>>();
    tensors[name] = data.substr(offsets[0], offsets[1] - offsets[0]);
  }
  return tensors;
}

std::string HashOfModelFile(const std::string& path) {
  const std::map<std::string, std::string> tensors = TensorsOfModelFile(path);
  if (tensors.empty()) return "no tensors";
  Sha256 sha256;
  for (const auto& [name, bytes] : tensors) sha256.Add(bytes.data(), bytes.size());
  return sha256.Hex();
}

}  // namespace acan::testing
