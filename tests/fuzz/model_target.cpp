// Safetensors files, and snapshots, which are such files with a checksum and the state of a run.
//
// Input: [flags: 1][file]. With kMakeRight the checksum is put right first: else a fuzzer would
// never see what lies behind it.
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

namespace acan::fuzz {
namespace {

constexpr std::uint64_t kMakeRight = 1;
constexpr const char* kTrainingName = "training_id";
constexpr const char* kSnapshotName = "step-000000000007.safetensors";

// The header ends where the first 8 bytes say; the values may lie in any order, but are hashed in
// that of their names, so the reader is asked for it.
std::string WithChecksum(std::string bytes) {
  const std::size_t at = ChecksumPlace(bytes);
  if (at == std::string::npos || at + kNoChecksum.size() > bytes.size()) return bytes;
  bytes.replace(at, kNoChecksum.size(), kNoChecksum);
  std::string header = bytes;
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > bytes.size() - 8 || at + kNoChecksum.size() > 8 + length) return bytes;
  Sha256 hash;
  hash.Add(bytes.data(), bytes.size());  // the writer puts the values in the order of their names
  bytes.replace(at, kNoChecksum.size(), hash.Hex());
  return bytes;
}

void CheckTensors(const ModelReader& reader, std::uint64_t file_bytes) {
  Require(reader.Layers().size() >= 2, "a model of {} layers", reader.Layers().size());
  for (std::size_t i = 0; i < reader.Tensors().size(); ++i) {
    const TensorInfo& tensor = reader.Tensors()[i];
    const auto values = static_cast<std::uint64_t>(tensor.rows() * tensor.cols());
    Require(values <= file_bytes / sizeof(float), "{} has {} values in a file of {} bytes",
            tensor.Name(), values, file_bytes);
    std::vector<float> out(values);
    reader.Read(i, 0, 0, tensor.rows(), tensor.cols(), out);
    if (values == 0) continue;
    float last = 0;
    reader.Read(i, tensor.rows() - 1, tensor.cols() - 1, 1, 1, {&last, 1});
    Require(std::memcmp(&last, &out.back(), sizeof(last)) == 0, "two reads of {} differ",
            tensor.Name());
  }
  Require(reader.WeightsSha256().size() == 64, "no hash of the weights");
}

void CheckSnapshots(const ModelReader& reader, std::string_view file) {
  static const ScratchFolder folder;
  folder.Empty();
  folder.Write(kSnapshotName, file);
  const auto& metadata = reader.Metadata();
  const auto id = metadata.find(kTrainingName);
  const std::string training = id == metadata.end() ? "" : id->second;
  const auto model = BuildModel(Model{.layers = reader.Layers(), .loss = Loss::kMeanSquaredError});
  int states = 0;
  for (const TensorInfo& tensor : reader.Tensors()) {
    states = std::max(states, static_cast<int>(tensor.state));
  }
  const SnapshotFolder snapshots(folder.path(), training, model, states);
  bool others = false;
  int said = 0;
  const auto newest = snapshots.Newest([&](const std::string&) { ++said; }, &others);
  Require(newest.has_value() == (said == 0), "a snapshot is passed over silently");
  Require(newest.has_value() == reader.ChecksumIsRight() || said == 1,
          "a snapshot with a wrong checksum is taken");
  if (newest) {
    const RunState& state = newest->state;
    Require(std::min({state.version, state.tasks_done, state.failures, state.audits_passed,
                      state.audits_skipped}) >= 0,
            "a snapshot's state has a negative count");
  }
  snapshots.RemoveOf({"wrong"});
  snapshots.KeepNewest(1);
  snapshots.RemoveAll();
  std::filesystem::create_directories(folder.path());
}

bool Run(std::string_view input) {
  InputReader in(input);
  const std::uint64_t flags = in.Number(1);
  std::string file(in.Rest());
  if (flags & kMakeRight) file = WithChecksum(std::move(file));
  const MemoryFile memory(file);
  std::unique_ptr<const ModelReader> reader;
  const HeapWatch heap;
  try {
    reader = std::make_unique<const ModelReader>(memory.path());
  } catch (const Error& refused) {
    heap.RequireAtMost((256 << 10) + 512 * file.size());
    Require(refused.kind() == Error::Kind::kUsage, "{}", refused.what());
    return false;
  }
  heap.RequireAtMost((256 << 10) + 512 * file.size());
  CheckTensors(*reader, file.size());
  CheckSnapshots(*reader, file);
  return true;
}

// What ModelWriter writes, with the values 1, 2, ...
std::string Written(const std::vector<std::int64_t>& layers, const SnapshotExtras* extras) {
  const ScratchFolder folder;
  const auto model = BuildModel(Model{.layers = layers, .loss = Loss::kMeanSquaredError});
  const std::string path = folder.Path("model.safetensors");
  ModelWriter writer =
      extras == nullptr ? ModelWriter(path, *model) : ModelWriter(path, *model, *extras);
  const auto tensors = ModelTensors(*model, extras == nullptr ? 0 : extras->states);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto count = static_cast<std::size_t>(tensors[i].rows() * tensors[i].cols());
    writer.Write(i, 0, 0, tensors[i].rows(), tensors[i].cols(), std::vector<float>(count, 1.0f));
  }
  writer.Finish();
  return folder.Read("model.safetensors");
}

std::vector<Seed> Seeds() {
  const std::string run =
      R"({"version":7,"tasks_done":12,"seconds":1.5,"failures":0,"train_loss":0.25,)"
      R"("contributors":["a/1","wrong"],"audits_passed":3})";
  const SnapshotExtras plain{0, {{kTrainingName, "0123456789abcdef"}, {"run_state", run}}};
  const SnapshotExtras adamw{2, plain.metadata};
  const std::string strange_run =
      R"({"version":1e300,"tasks_done":-1,"seconds":1e308,"failures":18446744073709551615})";
  const SnapshotExtras strange{0, {{kTrainingName, "a"}, {"run_state", strange_run}}};
  const std::string flags = NumberBytes(kMakeRight, 1);
  return {{"model", NumberBytes(0, 1) + Written({3, 2}, nullptr)},
          {"deep-model", NumberBytes(0, 1) + Written({2, 1, 2, 1}, nullptr)},
          {"snapshot", flags + Written({3, 2}, &plain)},
          {"snapshot-strange-state", flags + Written({2, 1}, &strange)},
          {"snapshot-adamw", flags + Written({2, 1}, &adamw)}};
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
}  // namespace acan::fuzz
