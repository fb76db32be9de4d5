// For tests of snapshots: a folder with those of a small model.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "acan/manager/snapshot.h"
#include "fmt/format.h"
#include "test_files.h"

namespace acan {

class SnapshotTest : public testing::Test {
 protected:
  SnapshotFolder Folder(const std::string& training_id = "training") {
    return {folder_.Path("snapshots"), training_id, model_, 2};
  }
  void Write(std::int64_t version, const std::vector<std::string>& contributors = {},
             const std::string& training_id = "training") {
    WriteState({version, 0.5, 7 * version, 1.5, 2, 2, contributors, 30, 1, conflicts_},
               training_id);
  }
  void WriteState(const RunState& state, const std::string& training_id = "training") {
    const SnapshotFolder folder = Folder(training_id);
    const auto writer = folder.Begin(state);
    WriteTensors(*writer, static_cast<float>(state.version));
    writer->Finish();
  }
  // Each of its values is `value` plus the index of its state.
  void WriteTensors(ModelWriter& writer, float value) {
    const std::vector<TensorInfo> tensors = ModelTensors(*model_, 2);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::vector<float> values(static_cast<std::size_t>(tensors[i].rows * tensors[i].cols),
                                      value + static_cast<float>(tensors[i].matrix.state));
      writer.Write(i, 0, 0, tensors[i].rows, tensors[i].cols, values);
    }
  }
  static RunState StateAt(std::int64_t version) {
    RunState state;
    state.version = version;
    return state;
  }
  static std::string NameOf(std::int64_t version) {
    return fmt::format("step-{:012}.safetensors", version);
  }
  std::string PathOf(std::int64_t version) const {
    return folder_.Path("snapshots/" + NameOf(version));
  }
  std::vector<std::string> Names() const { return folder_.Names("snapshots"); }
  static std::vector<std::string> NamesOf(const std::vector<std::int64_t>& versions) {
    std::vector<std::string> names;
    for (const std::int64_t version : versions) names.push_back(NameOf(version));
    return names;
  }
  std::optional<SnapshotFolder::Found> Newest(const BarredSnapshots& barred = {},
                                              const std::function<void()>& go_on = {}) {
    said_.clear();
    const auto say = [this](const std::string& line) { said_ += line + "\n"; };
    return Folder().Newest(say, &others_, go_on, barred);
  }
  static void FlipBit(const std::string& path, std::streamoff at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const char byte = static_cast<char>(file.get() ^ 4);
    file.seekp(at);
    file.put(byte);
  }

  TestFolder folder_;
  std::shared_ptr<const TrainedModel> model_ = BuildModel(Perceptron{{5, 7, 3}});
  std::vector<ResultConflict> conflicts_ = {};
  std::string said_;
  bool others_ = false;
};

}  // namespace acan
