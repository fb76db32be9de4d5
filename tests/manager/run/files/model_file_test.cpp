// model.safetensors: written in pieces, complete or not at all, and checked when it is read.
#include "acan/manager/model_file.h"
#include "acan/manager/sha256.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdexcept>

#include "file_size_limit.h"
#include "nlohmann/json.hpp"
#include "test_files.h"

namespace acan {
namespace {

using nlohmann::json;

TrainedModel Built(std::vector<std::int64_t> layers) {
  return *BuildModel(Perceptron{std::move(layers)});
}

float ValueAt(std::size_t tensor, std::int64_t row, std::int64_t col) {
  return static_cast<float>(tensor) * 1000.0f + static_cast<float>(row) * 10.0f +
         static_cast<float>(col) + 0.25f;
}

// Writes every tensor in tiles of at most `tile` x `tile`, the last tensor first.
std::string WriteModel(const std::string& path, const TrainedModel& model, std::int64_t tile) {
  const std::vector<TensorInfo> tensors = ModelTensors(model);
  ModelWriter writer(path, model);
  for (std::size_t index = tensors.size(); index-- > 0;) {
    for (std::int64_t row = 0; row < tensors[index].rows; row += tile) {
      for (std::int64_t col = 0; col < tensors[index].cols; col += tile) {
        const std::int64_t rows = std::min(tile, tensors[index].rows - row);
        const std::int64_t cols = std::min(tile, tensors[index].cols - col);
        std::vector<float> values;
        for (std::int64_t r = row; r < row + rows; ++r) {
          for (std::int64_t c = col; c < col + cols; ++c) values.push_back(ValueAt(index, r, c));
        }
        writer.Write(index, row, col, rows, cols, values);
      }
    }
  }
  return writer.Finish();
}

// A safetensors file with this header and `data_bytes` bytes of values.
std::string SafeTensors(const std::string& header, std::size_t data_bytes) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return bytes + header + std::string(data_bytes, '\0');
}

// The header of a model 2 -> 3 -> 1, with its tensors in the order of their names.
json GoodHeader() {
  return json::parse(R"({
    "layers.0.bias":   {"dtype": "F32", "shape": [3],    "data_offsets": [0, 12]},
    "layers.0.weight": {"dtype": "F32", "shape": [3, 2], "data_offsets": [12, 36]},
    "layers.1.bias":   {"dtype": "F32", "shape": [1],    "data_offsets": [36, 40]},
    "layers.1.weight": {"dtype": "F32", "shape": [1, 3], "data_offsets": [40, 52]}})");
}
constexpr std::size_t kGoodBytes = 52;

TrainedModel GoodModel() {
  return *BuildModel(Perceptron{.layers = {2, 3, 1}, .loss = Loss::kMeanSquaredError});
}

// model::Validate refuses such graphs, because their files could not be read again.
TEST(ModelTensorsTest, NamesDiffer) {
  const auto model = [](const std::string& weight, const std::string& bias) {
    TrainedModel made;
    const auto x = made.training.AddInput("x", model::InputRole::kNumbers, 1, 2);
    const auto w =
        made.training.AddParameter(model::MatrixParameter(weight, 3, 2, model::Constant{}));
    const auto b = made.training.AddParameter(
        model::VectorParameter(bias, model::Role::kBias, 3, model::Constant{}));
    made.training.AddOutput("y", made.training.Add("y", model::Linear{}, {x, w, b}));
    made.training.AddStepCounter("steps");
    return made;
  };
  EXPECT_EQ(ModelTensors(model("w", "w.state0"), 0).size(), 2u);
  EXPECT_THROW(ModelTensors(model("w", "w.state0"), 1), std::logic_error);
  const TestFolder folder;
  const std::string path = folder.Path("model.safetensors");
  EXPECT_NO_THROW(ModelWriter(path, model("w", "b")));
  EXPECT_THROW(ModelWriter(path, model("w", "steps")), std::logic_error);
  EXPECT_THROW(ModelWriter(path, model("__metadata__", "b")), std::logic_error);
}

TEST(ModelTensorsTest, NamesAreInStringOrder) {
  std::vector<std::int64_t> layers(12, 3);
  const std::vector<TensorInfo> tensors = ModelTensors(Built(layers));
  ASSERT_EQ(tensors.size(), 22u);
  EXPECT_EQ(tensors[0].name, "layers.0.bias");
  EXPECT_EQ(tensors[1].name, "layers.0.weight");
  EXPECT_EQ(tensors[4].name, "layers.10.bias");
  EXPECT_EQ(tensors[6].name, "layers.2.bias");
  EXPECT_EQ(tensors[0].rows, 1);
  EXPECT_EQ(tensors[0].cols, 3);
  EXPECT_EQ(tensors[0].shape, std::vector<std::int64_t>{3});
}

TEST(ModelFileTest, TilesInAnyOrderGiveTheSameFile) {
  const TestFolder folder;
  const TrainedModel model = Built({7, 5, 3});
  const std::string path = folder.Path("model.safetensors");
  const std::string hash = WriteModel(path, model, 100);
  const std::string whole = ReadWhole(path);
  for (const std::int64_t tile : {1, 2, 3, 6}) {
    EXPECT_EQ(WriteModel(path, model, tile), hash);
    EXPECT_EQ(ReadWhole(path), whole);
  }
  EXPECT_EQ(folder.FileCount(), 1u);
}

TEST(ModelFileTest, FileIsSafetensorsAndHashIsOfItsValues) {
  const TestFolder folder;
  const std::string path = folder.Path("model.safetensors");
  const std::string hash = WriteModel(path, Built({2, 3}), 2);
  const std::string file = ReadWhole(path);
  const auto length =
      static_cast<unsigned char>(file[0]) + 256 * static_cast<unsigned char>(file[1]);
  EXPECT_EQ(length % 8, 0);
  const json header = json::parse(file.substr(8, length));
  EXPECT_EQ(header.at("__metadata__").at("format"), "pt");
  EXPECT_EQ(header.at("layers.0.weight"),
            json::parse(R"({"dtype": "F32", "shape": [3, 2], "data_offsets": [12, 36]})"));
  EXPECT_EQ(header.at("layers.0.bias").at("shape"), json::parse("[3]"));
  const std::string values = file.substr(8 + length);
  EXPECT_EQ(values, Raw(std::vector<float>{0.25f, 1.25f, 2.25f, 1000.25f, 1001.25f, 1010.25f,
                                           1011.25f, 1020.25f, 1021.25f}));
  Sha256 expected;
  expected.Add(values.data(), values.size());
  EXPECT_EQ(hash, expected.Hex());
  EXPECT_EQ(ModelReader(path, Built({2, 3})).WeightsSha256(), hash);
}

TEST(ModelFileTest, ReadsRectangles) {
  const TestFolder folder;
  const std::string path = folder.Path("model.safetensors");
  WriteModel(path, Built({7, 5, 3}), 4);
  const ModelReader reader(path, Built({7, 5, 3}));
  std::vector<float> part(6);
  reader.Read(1, 2, 3, 2, 3, part);
  for (std::int64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(part[static_cast<std::size_t>(i)], ValueAt(1, 2 + i / 3, 3 + i % 3));
  }
  std::vector<float> rows(14);
  reader.Read(1, 1, 0, 2, 7, rows);
  EXPECT_EQ(rows[0], ValueAt(1, 1, 0));
  EXPECT_EQ(rows[13], ValueAt(1, 2, 6));
}

TEST(ModelFileTest, UnfinishedFilesDisappear) {
  const TestFolder folder;
  const std::string path = folder.Write("model.safetensors", "old");
  {
    ModelWriter writer(path, Built({2, 3}));
    EXPECT_EQ(folder.FileCount(), 2u);
    EXPECT_THROW(writer.Finish(), std::logic_error);
  }
  EXPECT_EQ(folder.FileCount(), 1u);
  EXPECT_EQ(ReadWhole(path), "old");
}

// Long work calls a function regularly, in which the manager keeps its lead and which may end the
// work.
TEST(ModelFileTest, FinishingALargeFileCanBeGoneOnWithOrEnded) {
  const TestFolder folder;
  const std::string path = folder.Path("model.safetensors");
  const TrainedModel model = Built({2000, 300});  // 2.4 MB
  const std::vector<float> weights(2000 * 300, 0.5f);
  const std::vector<float> biases(300, 0.5f);
  const auto written = [&](const SnapshotExtras& extras) {
    auto writer = std::make_unique<ModelWriter>(path, model, extras);
    writer->Write(0, 0, 0, 1, 300, biases);
    writer->Write(1, 0, 0, 300, 2000, weights);
    return writer;
  };
  struct Ended {};
  EXPECT_THROW(written({})->Finish([] { throw Ended{}; }), Ended);
  EXPECT_EQ(folder.FileCount(), 0u);
  int calls = 0;
  written({})->Finish([&] { ++calls; });
  EXPECT_GE(calls, 4);  // for the hash and for the checksum
  EXPECT_EQ(folder.FileCount(), 1u);
}

TEST(ModelFileTest, PlacesThatCannotBeWrittenAreNamed) {
  const TestFolder folder;
  const auto refused = [](const std::string& path, const std::string& words) {
    ExpectError([&] { ModelWriter(path, Built({2, 3})); }, {path, words}, Error::Kind::kFailure);
  };
  refused(folder.Path("none/model.safetensors"), "No such file or directory");
  refused(folder.path(), "Is a directory");
  refused("/proc/model.safetensors", "cannot create");
  if (::geteuid() != 0) {
    ASSERT_EQ(::chmod(folder.path().c_str(), 0500), 0);
    refused(folder.Path("model.safetensors"), "Permission denied");
    ASSERT_EQ(::chmod(folder.path().c_str(), 0700), 0);
  }
}

TEST(ModelFileTest, NoSpaceIsFoundAtTheStart) {
  const TestFolder folder;
  const std::string path = folder.Path("model.safetensors");
  {
    const FileSizeLimit limit(4096);
    ExpectError(
        [&] {
          ModelWriter(path, Built({100, 100}));
        },
        {path, "File too large"}, Error::Kind::kFailure);
  }
  EXPECT_EQ(folder.FileCount(), 0u);
}

void ExpectRefused(const std::string& bytes, std::vector<std::string> parts) {
  const TestFolder folder;
  const std::string path = folder.Write("m.safetensors", bytes);
  parts.push_back(path);
  ExpectError([&] { ModelReader reader(path, GoodModel()); }, parts);
}

TEST(ModelReaderTest, AcceptsAnyOrderOfValues) {
  const TestFolder folder;
  json header = GoodHeader();
  header["layers.1.weight"]["data_offsets"] = {0, 12};
  header["layers.0.bias"]["data_offsets"] = {40, 52};
  std::string bytes = SafeTensors(header.dump(), 0);
  std::vector<float> values(13);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const ModelReader reader(folder.Write("m", bytes + Raw(values)), GoodModel());
  std::vector<float> bias(3);
  reader.Read(0, 0, 0, 1, 3, bias);
  EXPECT_EQ(bias, (std::vector<float>{10, 11, 12}));
  // The hash follows the order of names, not that of the file.
  Sha256 hash;
  hash.Add(values.data() + 10, 12);
  hash.Add(values.data() + 3, 24);
  hash.Add(values.data() + 9, 4);
  hash.Add(values.data(), 12);
  EXPECT_EQ(reader.WeightsSha256(), hash.Hex());
}

TEST(ModelReaderTest, BrokenFilesAreNamed) {
  const std::string good = SafeTensors(GoodHeader().dump(), kGoodBytes);
  ExpectRefused("", {"truncated", "0 bytes"});
  ExpectRefused(good.substr(0, 7), {"truncated", "7 bytes"});
  ExpectRefused(good.substr(0, 50), {"truncated", "the file has 50"});
  ExpectRefused(good.substr(0, good.size() - 1), {"truncated", "layers.1.weight"});
  ExpectRefused(good + "x", {"1 bytes after its last tensor"});
  ExpectRefused(std::string(64, '\xff'), {"18446744073709551615", "the limit is"});
  ExpectRefused(SafeTensors("{\"a\": ", 0), {"not valid JSON"});
  ExpectRefused(SafeTensors("[]", 0), {"not a JSON object"});
  ExpectRefused(SafeTensors("{}", 0),
                {"lacks 4 tensors of the model (the first is 'layers.0.bias')", "kind \"mlp\""});
  ExpectRefused(SafeTensors("{\"a\": {}, \"a\": {}}", 0), {"\"a\" twice"});
  ExpectRefused(SafeTensors(std::string(100000, '['), 0), {"header"});
  ExpectRefused("PK\x03\x04 not a safetensors file at all", {"safetensors"});
}

void ExpectHeaderRefused(const std::function<void(json&)>& change,
                         const std::vector<std::string>& parts,
                         std::size_t data_bytes = kGoodBytes) {
  json header = GoodHeader();
  change(header);
  SCOPED_TRACE(header.dump());
  ExpectRefused(SafeTensors(header.dump(), data_bytes), parts);
}

TEST(ModelReaderTest, WrongTensorsAreNamed) {
  const auto set = [](const std::string& name, const char* key, json value) {
    return [=](json& header) { header[name][key] = value; };
  };
  const std::string weight = "layers.0.weight";
  ExpectHeaderRefused(set(weight, "dtype", "F16"), {weight, "24 bytes", "of \"F16\" needs 12"});
  ExpectHeaderRefused(set(weight, "dtype", 3), {weight, "dtype 3"});
  ExpectHeaderRefused(set(weight, "shape", {3, 3}),
                      {weight, "24 bytes", "[3,3] of \"F32\" needs 36"});
  ExpectHeaderRefused(set(weight, "shape", {6}), {weight, "shape [6], expected [3,2]"});
  ExpectHeaderRefused(set(weight, "shape", {3, 2, 1}), {weight, "[3,2,1], expected [3,2]"});
  ExpectHeaderRefused(set(weight, "shape", std::vector<int>(9, 1)), {weight, "0 to 8 sizes"});
  ExpectHeaderRefused(set(weight, "shape", {-3, 2}), {weight, "shape [-3,2]"});
  ExpectHeaderRefused(set(weight, "shape", {3.0, 2}), {weight, "shape [3.0,2]"});
  ExpectHeaderRefused(set(weight, "shape", {0, 2}),
                      {weight, "24 bytes", "[0,2] of \"F32\" needs 0"});
  ExpectHeaderRefused(set(weight, "shape", {std::int64_t{1} << 40, std::int64_t{1} << 40}),
                      {weight, "dimension of"});
  ExpectHeaderRefused(set(weight, "shape", "x"), {weight, "shape \"x\""});
  ExpectHeaderRefused(set(weight, "data_offsets", {12}), {weight, "data_offsets"});
  ExpectHeaderRefused(set(weight, "data_offsets", {36, 12}), {weight, "36 to 12"});
  ExpectHeaderRefused(set(weight, "data_offsets", {12, 1 << 20}), {weight, "of 52 bytes"});
  ExpectHeaderRefused(set(weight, "data_offsets", {8, 32}), {weight, "expected 12", "overlap"});
  ExpectHeaderRefused(set(weight, "data_offsets", {18446744073709551615u, 3}), {weight});
  ExpectHeaderRefused([](json& header) { header["layers.0.weight"] = 3; }, {weight, "'dtype'"});
  ExpectHeaderRefused([](json& header) { header["layers.0.weight"].erase("shape"); },
                      {weight, "no 'shape'"});
  ExpectHeaderRefused([](json& header) { header.erase("layers.1.weight"); },
                      {"lacks the tensor 'layers.1.weight'", "kind \"mlp\"", "has 4 tensors"}, 40);
  ExpectHeaderRefused(
      [](json& header) {
        header["layer.1.weight"] = header["layers.1.weight"];
        header.erase("layers.1.weight");
      },
      {"lacks the tensor 'layers.1.weight' of the model and has the tensor 'layer.1.weight'",
       "near 'layers.1.weight'"});
  ExpectHeaderRefused(
      [](json& header) {
        header["more"] = {{"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {52, 56}}};
        header["much"] = {{"dtype", "I64"}, {"shape", {1}}, {"data_offsets", {56, 64}}};
      },
      {"has 2 tensors, which the model lacks (the first is 'more')"}, 64);
  // Optimizer state belongs to a parameter of the model.
  ExpectHeaderRefused(
      [](json& header) {
        header["layers.9.bias.state0"] = {
            {"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {52, 56}}};
      },
      {"has the tensor 'layers.9.bias.state0', which the model lacks"}, 56);
  ExpectHeaderRefused([](json& header) { header["layers.99.bias"] = header["layers.1.bias"]; },
                      {"layers.99.bias"});
  ExpectHeaderRefused(set("layers.0.bias", "shape", {3, 1}),
                      {"layers.0.bias", "shape [3,1], expected [3]"});
  ExpectHeaderRefused(set("layers.1.weight", "shape", {3, 1}),
                      {"layers.1.weight", "shape [3,1], expected [1,3]"});
  ExpectHeaderRefused(
      [](json& header) {
        header["layers.1.weight"] = {
            {"dtype", "F32"}, {"shape", {0, 3}}, {"data_offsets", {40, 40}}};
      },
      {"layers.1.weight", "shape [0,3], expected [1,3]"}, 40);
  ExpectHeaderRefused(
      [](json& header) {
        header["layers.1.weight"] = {
            {"dtype", "I64"}, {"shape", {1, 3}}, {"data_offsets", {40, 64}}};
      },
      {"layers.1.weight", "dtype \"I64\", expected \"F32\""}, 64);
}

TEST(ModelReaderTest, FilesThatCannotBeOpenedAreNamed) {
  const TestFolder folder;
  ExpectError([&] { ModelReader reader(folder.Path("none"), GoodModel()); },
              {"/none", "No such file"});
  ExpectError([&] { ModelReader reader(folder.path(), GoodModel()); },
              {"expected a safetensors file"});
}

TEST(ModelReaderTest, ShardsAreNamed) {
  const TestFolder folder;
  const std::string index =
      folder.Write("model.safetensors.index.json", "{\n  \"metadata\": {}}\n");
  const auto refused = [](const std::string& path, const std::string& problem) {
    ExpectError([&] { ModelReader reader(path, GoodModel()); },
                {path + ": " + problem, "in shards", "max_shard_size"});
  };
  refused(index, "its first 8 bytes");
  refused(folder.Path("model.safetensors"), "cannot open: No such file");
  const char* one = R"({"layers.0.bias": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}})";
  refused(folder.Write("model-00001-of-00002.safetensors", SafeTensors(one, 12)),
          "lacks 3 tensors");
}

TEST(ModelReaderTest, SmallerTypesAreRefusedWithARemedy) {
  const TestFolder folder;
  const char* half =
      R"({"layers.0.bias":   {"dtype": "F32",  "shape": [3],    "data_offsets": [0, 12]},
          "layers.0.weight": {"dtype": "F32",  "shape": [3, 2], "data_offsets": [12, 36]},
          "layers.1.bias":   {"dtype": "F32",  "shape": [1],    "data_offsets": [36, 40]},
          "layers.1.weight": {"dtype": "BF16", "shape": [1, 3], "data_offsets": [40, 46]}})";
  const std::string path = folder.Write("half", SafeTensors(half, 46));
  ExpectError([&] { ModelReader reader(path, GoodModel()); },
              {"dtype \"BF16\", expected \"F32\"", "model.float().save_pretrained"});
}

TEST(Sha256Test, KnownDigests) {
  EXPECT_EQ(Sha256().Hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256 hash;
  hash.Add("a", 1);
  hash.Add("bc", 2);
  EXPECT_EQ(hash.Hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace acan
