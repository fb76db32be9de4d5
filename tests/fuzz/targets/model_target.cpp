// Safetensors files, and snapshots, which are such files with a checksum and the state of a run.
//
// Input: [flags: 1][file]. With kMakeRight, the target first corrects the checksum; otherwise a
// fuzzer would never get past it. The higher bits of the flags select the model that the file
// should be of.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>

#include "acan/core/error.h"
#include "acan/manager/model_file.h"
#include "acan/manager/sha256.h"
#include "acan/manager/snapshot.h"
#include "memory_file.h"
#include "model_layout.h"
#include "scratch_folder.h"
#include "target.h"

namespace acan::fuzz::model_target {
namespace {

constexpr std::uint64_t kMakeRight = 1;
constexpr unsigned kModelShift = 1;
constexpr const char* kTrainingName = "training_id";
constexpr const char* kSnapshotName = "step-000000000007.safetensors";

// Replaces the checksum by the right one. The first 8 bytes hold the length of the header. Values
// may be stored in any order but are hashed in the order of their names.
std::string WithChecksum(std::string bytes) {
  const std::size_t at = ChecksumPlace(bytes);
  if (at == std::string::npos || at + kNoChecksum.size() > bytes.size()) return bytes;
  bytes.replace(at, kNoChecksum.size(), kNoChecksum);
  std::string header = bytes;
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > bytes.size() - 8 || at + kNoChecksum.size() > 8 + length) return bytes;
  Sha256 hash;
  hash.Add(bytes.data(), bytes.size());  // the writer stores the values in the order of their names
  bytes.replace(at, kNoChecksum.size(), hash.Hex());
  return bytes;
}

// Small models that have every layout of tensors, step counters and tied names.
const std::vector<std::shared_ptr<const TrainedModel>>& Models() {
  static const auto models = [] {
    model::GptOptions gpt;
    gpt.n_layer = 1;
    gpt.n_head = gpt.n_embd = 2;
    gpt.block_size = gpt.vocab_size = 3;
    model::ResnetOptions resnet;
    resnet.image_size = {4, 4};
    resnet.widths = resnet.blocks = {1};
    resnet.stem = model::ResnetStem::kSmall;
    resnet.num_classes = 2;
    Job of_gpt, of_resnet;
    of_gpt.model = gpt;
    of_resnet.model = resnet;
    const Perceptron perceptron{.layers = {2, 1}, .loss = Loss::kMeanSquaredError};
    return std::vector{BuildModel(Perceptron{{3, 2}}), BuildModel(perceptron), BuildModel(of_gpt),
                       BuildModel(of_resnet)};
  }();
  return models;
}

void CheckTensors(const ModelReader& reader, const TrainedModel& model, std::uint64_t file_bytes) {
  Require(reader.Tensors().size() >= model.training.parameters().size(), "{} tensors",
          reader.Tensors().size());
  for (std::size_t i = 0; i < reader.Tensors().size(); ++i) {
    const TensorInfo& tensor = reader.Tensors()[i];
    const auto values = static_cast<std::uint64_t>(tensor.rows * tensor.cols);
    Require(values <= file_bytes / sizeof(float), "{} has {} values in a file of {} bytes",
            tensor.name, values, file_bytes);
    std::vector<float> out(values);
    reader.Read(i, 0, 0, tensor.rows, tensor.cols, out);
    float last = 0;
    reader.Read(i, tensor.rows - 1, tensor.cols - 1, 1, 1, {&last, 1});
    Require(std::memcmp(&last, &out.back(), sizeof(last)) == 0, "two reads of {} differ",
            tensor.name);
  }
  Require(reader.WeightsSha256().size() == 64, "no hash of the weights");
}

// Returns how many states each trained parameter has; 0 if the file lacks a state of one.
int CheckStates(const std::shared_ptr<const SafetensorsFile>& file, const TrainedModel& model,
                const std::string& weights_sha256, std::uint64_t file_bytes) {
  try {
    const ModelReader reader(file, model, ModelReader::Take::kWithStates);
    CheckTensors(reader, model, file_bytes);
    Require(reader.WeightsSha256() == weights_sha256, "the hash depends on what is taken");
    return reader.states();
  } catch (const Error& refused) {
    Require(refused.kind() == Error::Kind::kUsage, "{}", refused.what());
    return 0;
  }
}

void CheckSnapshots(int states, const SafetensorsFile& as_file,
                    std::shared_ptr<const TrainedModel> model, std::string_view file) {
  static const ScratchFolder folder;
  folder.Empty();
  folder.Write(kSnapshotName, file);
  const auto& metadata = as_file.metadata();
  const auto id = metadata.find(kTrainingName);
  const std::string training = id == metadata.end() ? "" : id->second;
  const SnapshotFolder snapshots(folder.path(), training, std::move(model), states);
  bool others = false;
  int said = 0;
  const auto newest = snapshots.Newest([&](const std::string&) { ++said; }, &others);
  Require(newest.has_value() == (said == 0), "a snapshot is passed over silently");
  Require(newest.has_value() == as_file.ChecksumIsRight() || said == 1,
          "a snapshot with a wrong checksum is taken");
  if (newest) {
    const RunState& state = newest->state;
    Require(
        std::min({state.version, state.tasks_done, state.failures, state.losses,
                  state.audits_passed, state.audits_skipped, state.tasks_reissued,
                  state.tasks_duplicated, state.handlers.tasks(), state.handlers.other_count}) >= 0,
        "a snapshot's state has a negative count");
    const std::string text = TextOf(state);
    const auto again = ParseRunState(text);
    Require(again && TextOf(*again) == text, "a state changes when it is written and read: {}",
            text);
  }
  snapshots.RemoveOf({"wrong"});
  snapshots.KeepNewest(1, newest ? newest->state.version : 0);
  snapshots.RemoveAll();
  std::filesystem::create_directories(folder.path());
}

bool Run(std::string_view input) {
  InputReader in(input);
  const std::uint64_t flags = in.Number(1);
  std::string file(in.Rest());
  if (flags & kMakeRight) file = WithChecksum(std::move(file));
  const auto& model = Models()[(flags >> kModelShift) % Models().size()];
  const MemoryFile memory(file);
  std::shared_ptr<const SafetensorsFile> opened;
  std::unique_ptr<const ModelReader> reader;
  const HeapWatch heap;
  try {
    opened = std::make_shared<const SafetensorsFile>(memory.path());
    reader = std::make_unique<const ModelReader>(opened, *model);
  } catch (const Error& refused) {
    heap.RequireAtMost((256 << 10) + 512 * file.size());
    Require(refused.kind() == Error::Kind::kUsage, "{}", refused.what());
    return false;
  }
  heap.RequireAtMost((256 << 10) + 512 * file.size());
  CheckTensors(*reader, *model, file.size());
  Require(reader->Tensors().size() == model->training.parameters().size(), "states are taken");
  const int states = CheckStates(opened, *model, reader->WeightsSha256(), file.size());
  CheckSnapshots(states, *opened, model, file);
  return true;
}

// The flags and the file that ModelWriter writes for a model whose values are all 1.
std::string Written(std::size_t of, std::uint64_t flags, const SnapshotExtras* extras) {
  const ScratchFolder folder;
  const auto& model = Models()[of];
  const std::string path = folder.Path("model.safetensors");
  ModelWriter writer =
      extras == nullptr ? ModelWriter(path, *model) : ModelWriter(path, *model, *extras);
  const auto tensors = ModelTensors(*model, extras == nullptr ? 0 : extras->states);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto count = static_cast<std::size_t>(tensors[i].rows * tensors[i].cols);
    writer.Write(i, 0, 0, tensors[i].rows, tensors[i].cols, std::vector<float>(count, 1.0f));
  }
  writer.Finish();
  return NumberBytes(flags | of << kModelShift, 1) + folder.Read("model.safetensors");
}

std::vector<Seed> Seeds() {
  const std::string run =
      R"({"version":7,"tasks_done":12,"seconds":1.5,"failures":0,"train_loss":0.25,)"
      R"("contributors":["a/1","wrong"],"audits_passed":3,"tasks_reissued":2,"handlers":[)"
      R"({"id":"a/1","name":"a","device":"cpu:1","capacity_bytes":8,"peak_bytes":4,"tasks":12,)"
      R"("fetched_bytes":0}],"other_handlers":{"count":1,"capacity_bytes":8,"peak_bytes":4,)"
      R"("tasks":1,"fetched_bytes":0}})";
  const SnapshotExtras plain{0, 7, {{kTrainingName, "0123456789abcdef"}, {"run_state", run}}};
  const SnapshotExtras adamw{2, 7, plain.metadata};
  const std::string strange_run =
      R"({"version":1e300,"tasks_done":-1,"seconds":1e308,"failures":18446744073709551615})";
  const SnapshotExtras strange{0, 0, {{kTrainingName, "a"}, {"run_state", strange_run}}};
  return {{"model", Written(0, 0, nullptr)},
          {"gpt", Written(2, 0, nullptr)},
          {"resnet", Written(3, 0, nullptr)},
          {"snapshot", Written(0, kMakeRight, &plain)},
          {"snapshot-strange-state", Written(1, kMakeRight, &strange)},
          {"snapshot-adamw", Written(1, kMakeRight, &adamw)},
          {"snapshot-gpt", Written(2, kMakeRight, &adamw)},
          {"snapshot-resnet", Written(3, 0, &adamw)}};
}

std::vector<Seed> Hostile() {
  const std::size_t many = 1'000'000;
  std::string header = R"({"layers.0.weight":)" + Repeated("[", many) + Repeated("]", many) + "}";
  std::string size(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) size[i] = static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return {{"nested-header", NumberBytes(0, 1) + size + header}};
}

const Registration registration({"model", Run, Seeds, Hostile});

}  // namespace
}  // namespace acan::fuzz::model_target
