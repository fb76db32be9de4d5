// Files of models other than perceptrons: every layout of tensors of any rank, compared with an
// independent definition of each layout, element by element.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <set>

#include "acan/manager/model_file.h"
#include "acan/manager/sha256.h"
#include "acan/manager/snapshot.h"
#include "graph_files.h"
#include "nlohmann/json.hpp"
#include "test_files.h"

namespace acan {
namespace {

using model::FileLayout;
using nlohmann::json;

model::ResnetOptions SmallResnet() {
  model::ResnetOptions options;
  options.image_size = {8, 8};
  options.widths = {4, 6};
  options.blocks = {1, 1};
  options.num_classes = 3;
  return options;
}

struct ModelCase {
  std::string name;
  std::shared_ptr<const TrainedModel> model;
};

std::vector<ModelCase> Models() {
  model::VitOptions vit;
  vit.image_size = {4, 6};
  vit.patch_size = 2;
  vit.num_layers = 1;
  vit.num_heads = 2;
  vit.hidden_dim = 4;
  vit.mlp_dim = 5;
  vit.num_classes = 3;
  model::ConvnextOptions convnext;
  convnext.image_size = {8, 8};
  convnext.widths = {4, 5};
  convnext.blocks = {1, 1};
  convnext.num_classes = 3;
  return {{"mlp", BuildModel(Perceptron{{7, 5, 3}})},
          {"gpt", Build(SmallGpt())},
          {"llama", Build(SmallLlama())},
          {"vit", Build(vit)},
          {"resnet", Build(SmallResnet())},
          {"convnext", Build(convnext)}};
}

// The expected values of a tensor in the file, by the definitions of model/README.md.
std::vector<float> Expected(std::size_t index, const TensorInfo& tensor) {
  std::vector<float> values;
  if (tensor.layout == FileLayout::kTransposed) {  // [inputs, outputs]
    for (std::int64_t input = 0; input < tensor.cols; ++input) {
      for (std::int64_t output = 0; output < tensor.rows; ++output) {
        values.push_back(GraphValueAt(index, output, input));
      }
    }
  } else if (tensor.layout == FileLayout::kConvolution) {  // OIHW of [outputs, (ky, kx, input)]
    const std::int64_t inputs = tensor.shape.at(1);
    const std::int64_t height = tensor.shape.at(2);
    const std::int64_t width = tensor.shape.at(3);
    for (std::int64_t output = 0; output < tensor.rows; ++output) {
      for (std::int64_t input = 0; input < inputs; ++input) {
        for (std::int64_t y = 0; y < height; ++y) {
          for (std::int64_t x = 0; x < width; ++x) {
            values.push_back(GraphValueAt(index, output, (y * width + x) * inputs + input));
          }
        }
      }
    }
  } else {
    values = Part(index, 0, 0, tensor.rows, tensor.cols);
  }
  return values;
}

TEST(GraphFileTest, EveryTensorLiesAsItsFrameworkHasIt) {
  const TestFolder folder;
  const std::string path = folder.Path("model.safetensors");
  std::set<FileLayout> layouts;
  std::set<std::size_t> ranks;
  for (const auto& [name, model] : Models()) {
    SCOPED_TRACE(name);
    const std::vector<TensorInfo> tensors = ModelTensors(*model);
    ASSERT_EQ(tensors.size(), model->training.parameters().size());
    std::string whole;
    for (const std::int64_t tile : {1000, 1, 3, 7}) {
      WriteGraphModel(path, *model, tile);
      if (whole.empty()) whole = ReadWhole(path);
      EXPECT_EQ(ReadWhole(path) == whole, true) << "tiles of " << tile;
    }
    const Parsed file = Parse(path);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(file.header.at(tensors[i].name).at("shape"), json(tensors[i].shape));
      EXPECT_EQ(file.Bytes(tensors[i].name) == Raw(Expected(i, tensors[i])), true)
          << tensors[i].name;
      layouts.insert(tensors[i].layout);
      ranks.insert(tensors[i].shape.size());
    }
  }
  EXPECT_EQ(layouts.size(), 3u);
  EXPECT_EQ(ranks, (std::set<std::size_t>{1, 2, 3, 4}));
}

// The parts of a small model are cut as those of a large one.
TEST(GraphFileTest, TheHashWithoutAFileIsThatOfTheFile) {
  const TestFolder folder;
  for (const auto& [name, model] : Models()) {
    SCOPED_TRACE(name);
    const std::string hash = WriteGraphModel(folder.Path("model.safetensors"), *model, 5, 42);
    for (const std::int64_t part_bytes : {kHashedPartBytes, std::int64_t{100}, std::int64_t{1}}) {
      const auto read = [](std::size_t index, const Range& rows, const Range& cols) {
        return Part(index, rows.begin, cols.begin, rows.size(), cols.size());
      };
      EXPECT_EQ(HashModel(*model, 42, read, part_bytes), hash) << part_bytes;
    }
  }
}

TEST(GraphFileTest, AnyRectangleIsReadBack) {
  const TestFolder folder;
  const std::string path = folder.Path("model.safetensors");
  std::mt19937 random(7);
  const auto below = [&random](std::int64_t bound) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bound));
  };
  for (const auto& [name, model] : Models()) {
    SCOPED_TRACE(name);
    WriteGraphModel(path, *model, 5);
    const ModelReader reader(path, *model);
    for (std::size_t i = 0; i < reader.Tensors().size(); ++i) {
      const TensorInfo& tensor = reader.Tensors()[i];
      for (int round = 0; round < 8; ++round) {
        const std::int64_t row = below(tensor.rows);
        const std::int64_t col = below(tensor.cols);
        const std::int64_t rows = 1 + below(tensor.rows - row);
        const std::int64_t cols = 1 + below(tensor.cols - col);
        std::vector<float> out(static_cast<std::size_t>(rows * cols));
        reader.Read(i, row, col, rows, cols, out);
        EXPECT_EQ(out, Part(i, row, col, rows, cols)) << tensor.name;
      }
    }
  }
}

TEST(GraphFileTest, TheHashIsOfAllTensorsInTheOrderOfTheirNames) {
  const TestFolder folder;
  const std::string path = folder.Path("model.safetensors");
  for (const auto& [name, model] : Models()) {
    SCOPED_TRACE(name);
    const std::string hash = WriteGraphModel(path, *model, 6, 12);
    const Parsed file = Parse(path);
    Sha256 expected;
    for (const auto& [tensor, entry] : file.header.items()) {
      if (tensor == "__metadata__") continue;
      const std::string bytes = file.Bytes(tensor);
      expected.Add(bytes.data(), bytes.size());
    }
    EXPECT_EQ(hash, expected.Hex());
    EXPECT_EQ(ModelReader(path, *model).WeightsSha256(), hash);
  }
}

TEST(GraphFileTest, StepCountersHaveTheStepsAndMayBeMissing) {
  const TestFolder folder;
  const auto model = Build(SmallResnet());
  const std::string path = folder.Path("model.safetensors");
  WriteGraphModel(path, *model, 9, 1234567);
  Parsed file = Parse(path);
  const json& entry = file.header.at("bn1.num_batches_tracked");
  EXPECT_EQ(entry.at("dtype"), "I64");
  EXPECT_EQ(entry.at("shape"), json::array());
  EXPECT_EQ(entry.at("data_offsets").at(0).get<int>() % 8, 0);
  std::int64_t steps = 0;
  std::memcpy(&steps, file.Bytes("bn1.num_batches_tracked").data(), sizeof(steps));
  EXPECT_EQ(steps, 1234567);
  // The running statistics are in the file; the optimizer has no state for them.
  EXPECT_TRUE(file.header.contains("bn1.running_mean"));
  const std::vector<TensorInfo> with_states = ModelTensors(*model, 1);
  std::size_t of_statistics = 0;
  for (const TensorInfo& tensor : with_states) {
    of_statistics += tensor.name.find(".running_") != std::string::npos ? 1 : 0;
  }
  const std::size_t counters = model->training.step_counters().size();
  EXPECT_EQ(of_statistics, 2 * counters);
  // Counters are at the beginning of the file.
  const std::size_t bytes = counters * sizeof(std::int64_t);
  for (auto& [name, tensor] : file.header.items()) {
    if (name == "__metadata__") continue;
    for (auto& offset : tensor.at("data_offsets")) {
      offset = offset.get<std::int64_t>() - static_cast<std::int64_t>(bytes);
    }
  }
  for (const std::string& counter : model->training.step_counters()) file.header.erase(counter);
  file.values = file.values.substr(bytes);
  EXPECT_NO_THROW(ModelReader(folder.Write("older", file.Whole()), *model));
}

TEST(GraphFileTest, ACounterOfAnotherTypeIsNamed) {
  const TestFolder folder;
  const auto model = Build(SmallResnet());
  const std::string path = folder.Path("model.safetensors");
  WriteGraphModel(path, *model, 9);
  Parsed file = Parse(path);
  file.header["bn1.num_batches_tracked"]["dtype"] = "F32";
  file.header["bn1.num_batches_tracked"]["shape"] = {2};
  ExpectError([&] { ModelReader(folder.Write("wrong", file.Whole()), *model); },
              {"/wrong", "bn1.num_batches_tracked", "dtype \"F32\" and shape [2]", "\"I64\""});
}

TEST(GraphFileTest, WrongFilesAreNamed) {
  const TestFolder folder;
  const auto gpt = Build(SmallGpt());
  const std::string path = folder.Path("model.safetensors");
  WriteGraphModel(path, *gpt, 9);
  // A tensor that is transposed by mistake.
  Parsed turned = Parse(path);
  turned.header["transformer.h.0.attn.c_attn.weight"]["shape"] = {18, 6};
  ExpectError(
      [&] { ModelReader(folder.Write("turned", turned.Whole()), *gpt); },
      {"transformer.h.0.attn.c_attn.weight", "has shape [18,6], expected [6,18]", "/turned"});
  Parsed more = Parse(path);
  more.Append("transformer.h.0.attn.bais", "F32", {1}, std::string(4, '\0'));
  ExpectError(
      [&] { ModelReader(folder.Write("more", more.Whole()), *gpt); },
      {"has the tensor 'transformer.h.0.attn.bais', which the model lacks", "kind \"gpt\""});
  model::GptOptions deeper = SmallGpt();
  deeper.n_layer = 2;
  ExpectError([&] { ModelReader(path, *Build(deeper)); },
              {"lacks 12 tensors of the model (the first is 'transformer.h.1.attn.c_attn.bias')"});
  ExpectError(
      [&] {
        ModelReader(path, *BuildModel(Perceptron{{7, 5, 3}}));
      },
      {"lacks 4", "has 16"});
}

TEST(GraphFileTest, SnapshotsHaveStatesOfWhatIsTrainedOnly) {
  const TestFolder folder;
  const auto model = Build(SmallGpt(), {"transformer.wpe.*"});
  const std::vector<TensorInfo> tensors = ModelTensors(*model, 2);
  EXPECT_EQ(tensors.size(), 3 * model->training.parameters().size() - 2);
  const SnapshotFolder snapshots(folder.Path("snapshots"), "training", model, 2);
  RunState state;
  state.version = 5;
  const auto writer = snapshots.Begin(state);
  WriteTiles(*writer, tensors, 4);
  writer->Finish();
  bool others = false;
  std::string said;
  const auto found = snapshots.Newest([&](const std::string& line) { said += line; }, &others);
  ASSERT_TRUE(found.has_value()) << said;
  EXPECT_EQ(found->state.version, 5);
  EXPECT_EQ(found->file->states(), 2);
  ASSERT_EQ(found->file->Tensors().size(), tensors.size());
  std::vector<float> one(1);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    found->file->Read(i, 0, 0, 1, 1, one);
    EXPECT_EQ(one[0], GraphValueAt(i, 0, 0)) << tensors[i].name;
  }
  // A snapshot with other shapes belongs to another training, even if the ids are equal.
  model::GptOptions wider = SmallGpt();
  wider.n_embd = 8;
  const SnapshotFolder of_other(folder.Path("snapshots"), "training", Build(wider), 2);
  EXPECT_FALSE(of_other.Newest([&](const std::string& line) { said += line; }, &others));
  EXPECT_TRUE(others);
  EXPECT_NE(said.find("does not have the contents"), std::string::npos) << said;
}

}  // namespace
}  // namespace acan
