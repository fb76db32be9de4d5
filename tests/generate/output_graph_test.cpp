// Outputs of graph files that stand after the loss, that others read in parts, or that need labels:
// the predictor and the decoder compute only what their output depends on.
#include "acan/generate/output_graph.h"

#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "acan/core/error.h"
#include "acan/generate/predictor.h"
#include "acan/manager/load_data.h"
#include "decoder_fixture.h"
#include "test_devices.h"

namespace acan::test {
namespace {

constexpr std::uint64_t kMemoryLimit = 1ull << 30;

std::unique_ptr<Device> SmallDevice() {
  return MakeCpuDevice({.threads = 1, .memory_limit_bytes = kMemoryLimit, .isa = {}});
}

// The entries of a graph file that differ between the tests. Its loss is the node "loss".
struct FilePart {
  std::string nodes;
  std::string outputs;
};

class FileRun {
 public:
  FileRun(const std::string& inputs, const std::string& parameters, const FilePart& part,
          const std::string& data) {
    const std::string path = folder_.Write(
        "net.json", R"({"format": "acan-graph-1", "inputs": [)" + inputs + R"(], "parameters": [)" +
                        parameters + R"(], "nodes": [)" + part.nodes + R"(], "outputs": {)" +
                        part.outputs + R"(}, "loss": "loss"})");
    run_ = std::make_unique<SmallRun>(folder_, "kind = \"graph\"\nfile = \"" + path + "\"\n", "",
                                      data);
  }
  SmallRun& operator*() const { return *run_; }
  SmallRun* operator->() const { return run_.get(); }

 private:
  const TestFolder folder_;
  std::unique_ptr<SmallRun> run_;
};

std::string MatrixText(const std::string& name, int rows, int columns) {
  return R"({"name": ")" + name + R"(", "role": "matrix", "rows": )" + std::to_string(rows) +
         R"(, "columns": )" + std::to_string(columns) + R"(, "initial": {"normal": [0, 0.4]}})";
}

// ---- the predictor -----------------------------------------------------------------------------

constexpr std::int64_t kRows = 3, kFeatures = 6;

// Arbitrary x, as LoadInputs provides it: without labels and targets.
class SomeNumbers final : public SampleSet {
 public:
  std::int64_t samples() const override { return 5; }
  const std::string& sha256() const override { return sha256_; }
  const std::vector<WantedInput>& inputs() const override { return inputs_; }
  void Copy(const SamplePart& part, std::span<std::uint32_t> out) const override {
    ASSERT_EQ(part.input, "x");
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto drawn = (static_cast<std::uint32_t>(part.sample) * 31 + 1) *
                         (static_cast<std::uint32_t>(i) * 2654435761u + 40503u);
      const float value = static_cast<float>(drawn >> 16) / 65536.0f - 0.5f;
      out[i] = std::bit_cast<std::uint32_t>(value);
    }
  }

 private:
  std::string sha256_;
  std::vector<WantedInput> inputs_;
};

FileRun RunOfRows(const FilePart& part) {
  return {R"({"name": "x", "role": "numbers", "rows": 3, "features": 6},
             {"name": "targets", "role": "targets", "rows": 3, "features": 4})",
          MatrixText("w", 4, 6) + ", " + MatrixText("v", 4, 6) + ", " + MatrixText("u", 4, 4), part,
          "train_inputs = \"x\"\ntrain_targets = \"y\"\n"};
}

std::vector<float> Predicted(const FileRun& run, const std::string& output) {
  Predictor predictor(SmallDevice(), run->graph(), *run->run().OpenWeights(), output);
  EXPECT_EQ(predictor.rows(), kRows);
  const SomeNumbers samples;
  std::vector<float> values = predictor.Predict(samples, {0, samples.samples()});
  EXPECT_EQ(std::ssize(values), samples.samples() * kRows * predictor.features());
  EXPECT_NE(values.front(), values.back());
  return values;
}

// Columns [begin, end) of rows of `columns`.
std::vector<float> ColumnsFrom(const std::vector<float>& rows, std::int64_t columns,
                               std::int64_t begin, std::int64_t end) {
  std::vector<float> values;
  for (auto row = rows.begin(); row != rows.end(); row += columns) {
    values.insert(values.end(), row + begin, row + end);
  }
  return values;
}

// Two linear nodes a and b, and the output of the training, "head".
constexpr const char* kFirstNodes = R"(
    {"name": "a", "operator": "linear", "inputs": ["x", "w"]},
    {"name": "b", "operator": "linear", "inputs": ["x", "v"]},
    {"name": "sum", "operator": "add", "inputs": ["a", "b"]},
    {"name": "head", "operator": "linear", "inputs": ["sum", "u"]},)";
constexpr const char* kLossNode =
    R"({"name": "loss", "operator": "squared_error", "inputs": ["head", "targets"]})";

TEST(OutputGraphTest, AnOutputMayStandAfterTheLoss) {
  const std::string scores =
      R"({"name": "scores", "operator": "activation", "inputs": ["head"],
          "attributes": {"kind": "sigmoid"}})";
  const std::string outputs = R"("outputs": "head", "scores": "scores")";
  const FileRun after = RunOfRows({kFirstNodes + (kLossNode + (", " + scores)), outputs});
  const FileRun before = RunOfRows({kFirstNodes + (scores + ", " + kLossNode), outputs});
  EXPECT_EQ(Predicted(after, "scores"), Predicted(before, "scores"));
  EXPECT_EQ(Predicted(after, "outputs"), Predicted(before, "outputs"));
}

TEST(OutputGraphTest, AnOutputFromTargetsIsRefused) {
  const FileRun run = RunOfRows({kFirstNodes + std::string(R"(
        {"name": "negative", "operator": "scale", "inputs": ["targets"],
         "attributes": {"factor": -1}},
        {"name": "residual", "operator": "add", "inputs": ["head", "negative"]},)") +
                                     kLossNode,
                                 R"("outputs": "head", "residual": "residual")"});
  EXPECT_FALSE(Predicted(run, "outputs").empty());
  try {
    Predicted(run, "residual");
    ADD_FAILURE() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kUsage);
    EXPECT_STREQ(error.what(),
                 "the output \"residual\" is computed from the input \"targets\", which samples to "
                 "predict do not have; expected an output that needs no labels and no targets");
  }
}

TEST(OutputGraphTest, NodesThatReadSlicesOfAnOutputDoNotChangeIt) {
  const std::string readers = R"(
    {"name": "left", "operator": "slice", "inputs": ["head"], "attributes": {"end": 1}},
    {"name": "right", "operator": "slice", "inputs": ["head"],
     "attributes": {"begin": 1, "end": 4}},
    {"name": "relu", "operator": "activation", "inputs": ["left"]},
    {"name": "tanh", "operator": "activation", "inputs": ["right"],
     "attributes": {"kind": "tanh"}},)";
  const FileRun sliced = RunOfRows(
      {kFirstNodes + (readers + kLossNode),
       R"("outputs": "head", "left": "left", "right": "right", "relu": "relu", "tanh": "tanh")"});
  const FileRun whole = RunOfRows({std::string(kFirstNodes) + kLossNode, R"("outputs": "head")"});
  const std::vector<float> expected = Predicted(whole, "outputs");
  EXPECT_EQ(Predicted(sliced, "outputs"), expected);
  EXPECT_EQ(Predicted(sliced, "left"), ColumnsFrom(expected, 4, 0, 1));
  EXPECT_EQ(Predicted(sliced, "right"), ColumnsFrom(expected, 4, 1, 4));
}

// The operands are made as parts of the concatenation.
TEST(OutputGraphTest, ConcatenationsAndTheirSlicesAreOutputs) {
  const FileRun run =
      RunOfRows({kFirstNodes + std::string(R"(
        {"name": "c", "operator": "linear", "inputs": ["a", "u"]},
        {"name": "d", "operator": "activation", "inputs": ["b"]},
        {"name": "joined", "operator": "concat", "inputs": ["c", "d"]},
        {"name": "middle", "operator": "slice", "inputs": ["joined"],
         "attributes": {"begin": 2, "end": 7}},
        {"name": "begin", "operator": "slice", "inputs": ["x"], "attributes": {"end": 5}},
        {"name": "twice", "operator": "concat", "inputs": ["begin", "x"]},)") +
                     kLossNode,
                 R"("c": "c", "d": "d", "joined": "joined", "middle": "middle", "begin": "begin",
          "twice": "twice")"});
  const std::vector<float> joined = Predicted(run, "joined");
  EXPECT_EQ(ColumnsFrom(joined, 8, 0, 4), Predicted(run, "c"));
  EXPECT_EQ(ColumnsFrom(joined, 8, 4, 8), Predicted(run, "d"));
  EXPECT_EQ(ColumnsFrom(joined, 8, 2, 7), Predicted(run, "middle"));
  std::vector<std::uint32_t> words(static_cast<std::size_t>(kRows * kFeatures));
  SomeNumbers().Copy({"x", 0, 0, {0, kRows}, {0, kFeatures}}, words);
  std::vector<float> x;
  for (const std::uint32_t word : words) x.push_back(std::bit_cast<float>(word));
  // Of the first sample.
  const auto rows_of = [&run](const std::string& output, std::int64_t columns) {
    std::vector<float> rows = Predicted(run, output);
    rows.resize(static_cast<std::size_t>(kRows * columns));
    return rows;
  };
  EXPECT_EQ(rows_of("begin", 5), ColumnsFrom(x, kFeatures, 0, 5));
  EXPECT_EQ(ColumnsFrom(rows_of("twice", 11), 11, 0, 5), ColumnsFrom(x, kFeatures, 0, 5));
  EXPECT_EQ(ColumnsFrom(rows_of("twice", 11), 11, 5, 11), x);
}

// ---- the decoder -------------------------------------------------------------------------------

FileRun RunOfTokens(const FilePart& part) {
  return {R"({"name": "tokens", "role": "tokens", "rows": 7, "bound": 9},
             {"name": "labels", "role": "labels", "rows": 7, "bound": 9})",
          R"({"name": "table", "role": "embedding", "rows": 9, "columns": 6,
              "initial": {"normal": [0, 0.4]}}, )" +
              MatrixText("w", 9, 6),
          part, "text = \"t\"\n"};
}

constexpr const char* kTokenNodes = R"(
    {"name": "e", "operator": "embedding", "inputs": ["tokens", "table"]},)";
constexpr const char* kTokenLoss = R"(
    {"name": "logits", "operator": "linear", "inputs": ["e", "w"]},
    {"name": "loss", "operator": "cross_entropy", "inputs": ["logits", "labels"]})";

TEST(OutputGraphTest, LogitsFromLabelsWriteNoText) {
  const FileRun run = RunOfTokens({kTokenNodes + std::string(R"(
        {"name": "l", "operator": "embedding", "inputs": ["labels", "table"]},
        {"name": "s", "operator": "add", "inputs": ["e", "l"]},
        {"name": "logits", "operator": "linear", "inputs": ["s", "w"]},
        {"name": "loss", "operator": "cross_entropy", "inputs": ["logits", "labels"]})"),
                                   R"("logits": "logits")"});
  try {
    RequireLanguageModel(run->run());
    ADD_FAILURE() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kUsage);
    EXPECT_NE(std::string(error.what())
                  .find("cannot generate text: its logits are computed from the input \"labels\""),
              std::string::npos)
        << error.what();
  }
}

// Nodes before the logits that they do not depend on: one reads labels, the other mixes positions.
TEST(OutputGraphTest, ADecoderIgnoresWhatItsLogitsDoNotNeed) {
  const FileRun plain =
      RunOfTokens({std::string(kTokenNodes) + kTokenLoss, R"("logits": "logits")"});
  const FileRun with_others = RunOfTokens({kTokenNodes + std::string(R"(
        {"name": "l", "operator": "embedding", "inputs": ["labels", "table"]},
        {"name": "mean", "operator": "global_pooling", "inputs": ["e"]},)") +
                                               kTokenLoss,
                                           R"("logits": "logits", "labels": "l", "mean": "mean")"});
  const std::vector<std::int32_t> tokens = SomeTokens(7, 9);
  Decoder expected(SmallDevice(), plain->run()), decoder(SmallDevice(), with_others->run());
  EXPECT_EQ(decoder.positions(), 7);
  EXPECT_EQ(decoder.vocabulary_size(), 9);
  EXPECT_EQ(decoder.Read(tokens), expected.Read(tokens));
}

}  // namespace
}  // namespace acan::test
