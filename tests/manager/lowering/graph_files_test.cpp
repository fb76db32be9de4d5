// Graph files that combine nodes in ways that no preset does.
#include "tried_model.h"

namespace acan {
namespace {

struct GraphFile {
  std::string name;
  std::string text;
};
void PrintTo(const GraphFile& file, std::ostream* out) {
  *out << file.name;
}

std::string MatrixText(const std::string& name, int rows, int columns) {
  return R"({"name": ")" + name + R"(", "role": "matrix", "rows": )" + std::to_string(rows) +
         R"(, "columns": )" + std::to_string(columns) + R"(, "initial": {"normal": [0, 0.2]}})";
}
std::string VectorText(const std::string& name, const std::string& role, int columns) {
  return R"({"name": ")" + name + R"(", "role": ")" + role + R"(", "columns": )" +
         std::to_string(columns) + R"(, "initial": {"uniform": [0.5, 1.5]}})";
}
std::string NodeText(const std::string& name, const std::string& op, const std::string& inputs,
                     const std::string& attributes = "") {
  return R"({"name": ")" + name + R"(", "operator": ")" + op + R"(", "inputs": [)" + inputs +
         R"(], "attributes": {)" + attributes + "}}";
}
// The last node but one computes the logits, and the last one the loss.
// `outputs`: further ones.
std::string FileText(const std::vector<std::string>& inputs,
                     const std::vector<std::string>& parameters,
                     const std::vector<std::string>& nodes, const std::string& outputs = "") {
  const auto list = [](const std::vector<std::string>& entries) {
    std::string text;
    for (const std::string& entry : entries) text += (text.empty() ? "[" : ", ") + entry;
    return text + "]";
  };
  return R"({"format": "acan-graph-1", "inputs": )" + list(inputs) + R"(, "parameters": )" +
         list(parameters) + R"(, "nodes": )" + list(nodes) + R"(, "outputs": {"logits": "logits")" +
         outputs + R"(}, "loss": "loss"})";
}
std::string TokensText(int rows) {
  return R"({"name": "tokens", "role": "tokens", "bound": 40, "rows": )" + std::to_string(rows) +
         "}";
}
std::string LabelsText(int rows, int bound) {
  return R"({"name": "labels", "role": "labels", "rows": )" + std::to_string(rows) +
         R"(, "bound": )" + std::to_string(bound) + "}";
}
std::string NumbersText(const std::string& name, int rows, int features) {
  return R"({"name": ")" + name + R"(", "role": "numbers", "rows": )" + std::to_string(rows) +
         R"(, "features": )" + std::to_string(features) + "}";
}
const std::string kLoss = NodeText("loss", "cross_entropy", R"("logits", "labels")");

std::string FeaturesText(int begin, int end) {
  return R"("axis": "features", "begin": )" + std::to_string(begin) + R"(, "end": )" +
         std::to_string(end);
}

const std::vector<GraphFile> kFiles = {
    // The gradients of queries and keys are rotated back before they are joined with that of the
    // values, so several segments make parts of one value.
    {"turned_parts_of_one_product",
     FileText({TokensText(85), LabelsText(85, 40)},
              {MatrixText("table", 40, 48), MatrixText("qkv", 144, 48), MatrixText("head", 40, 48)},
              {NodeText("x", "embedding", R"("tokens", "table")"),
               NodeText("qkv_", "linear", R"("x", "qkv")"),
               NodeText("q", "slice", R"("qkv_")", FeaturesText(0, 48)),
               NodeText("k", "slice", R"("qkv_")", FeaturesText(48, 96)),
               NodeText("v", "slice", R"("qkv_")", FeaturesText(96, 144)),
               NodeText("q2", "rotary", R"("q")", R"("head_size": 24)"),
               NodeText("k2", "rotary", R"("k")", R"("head_size": 24)"),
               NodeText("o", "attention", R"("q2", "k2", "v")",
                        R"("heads": 2, "key_value_heads": 2, "scale": 0.2)"),
               NodeText("y", "add", R"("o", "x")"), NodeText("logits", "linear", R"("y", "head")"),
               kLoss})},
    // Joins values with few positions and values with many.
    {"positions_put_before_others",
     FileText({TokensText(70), LabelsText(70, 40)},
              {MatrixText("table", 40, 24), MatrixText("first", 4, 24), MatrixText("w", 24, 24),
               VectorText("s", "scale", 24), MatrixText("head", 40, 24)},
              {NodeText("x", "embedding", R"("tokens", "table")"),
               NodeText("a", "linear", R"("x", "w")"), NodeText("b", "rms_norm", R"("a", "s")"),
               NodeText("p", "learned_positions", R"("first")", R"("rows": 3)"),
               NodeText("c", "concat", R"("p", "b")", R"("axis": "positions")"),
               NodeText("d", "activation", R"("c")", R"("kind": "tanh")"),
               NodeText("e", "slice", R"("d")", R"("axis": "positions", "begin": 3, "end": 73)"),
               NodeText("logits", "linear", R"("e", "head")"), kLoss})},
    // The output has more pixels than the input, and only some of them are read.
    {"images_that_grow",
     FileText({NumbersText("images", 108, 3), LabelsText(1, 5)},
              {MatrixText("k1", 10, 6), MatrixText("k2", 8, 60), MatrixText("head", 5, 8)},
              {NodeText("a", "convolution", R"("images", "k1")",
                        R"("input": [6, 18], "kernel": [1, 2], "stride": 1, "padding": [0, 1])"),
               NodeText("b", "convolution", R"("a", "k2")",
                        R"("input": [6, 19], "kernel": [2, 3], "stride": [1, 3], "padding": 1)"),
               NodeText("c", "slice", R"("b")", R"("axis": "positions", "begin": 33, "end": 34)"),
               NodeText("logits", "linear", R"("c", "head")"), kLoss})},
    // Reads a part of the input; rows are merged, split, and both at once.
    {"reshaped", FileText({NumbersText("x", 1, 40), LabelsText(1, 7)},
                          {MatrixText("w", 10, 6), MatrixText("v", 9, 5), MatrixText("u", 8, 18),
                           MatrixText("head", 7, 24)},
                          {NodeText("a", "slice", R"("x")", FeaturesText(3, 39)),
                           NodeText("b", "reshape", R"("a")", R"("positions": 6)"),
                           NodeText("c", "linear", R"("b", "w")"),
                           NodeText("d", "reshape", R"("c")", R"("positions": 12)"),
                           NodeText("e", "linear", R"("d", "v")"),
                           NodeText("f", "reshape", R"("e")", R"("positions": 6)"),
                           NodeText("g", "linear", R"("f", "u")"),
                           NodeText("h", "reshape", R"("g")", R"("positions": 2)"),
                           NodeText("i", "global_pooling", R"("h")", R"("kind": "average")"),
                           NodeText("logits", "linear", R"("i", "head")"), kLoss})},
    {"given_statistics",
     FileText({NumbersText("x", 1, 30), LabelsText(1, 7)},
              {MatrixText("w", 20, 30), VectorText("s", "scale", 20), VectorText("b", "bias", 20),
               VectorText("mean", "statistic", 20), VectorText("variance", "statistic", 20),
               MatrixText("head", 7, 20)},
              {NodeText("a", "linear", R"("x", "w")"),
               NodeText("n", "batch_norm_inference", R"("a", "s", "b", "mean", "variance")"),
               NodeText("m", "batch_norm", R"("n", "s", "b", "mean", "variance")"),
               NodeText("logits", "linear", R"("m", "head")"), kLoss})},
    {"concatenations_inside_each_other",
     FileText({TokensText(10), LabelsText(10, 40)},
              {MatrixText("table", 40, 12), MatrixText("w", 20, 12), MatrixText("head", 40, 44)},
              {NodeText("x", "embedding", R"("tokens", "table")"),
               NodeText("a", "linear", R"("x", "w")"),
               NodeText("b", "activation", R"("x")", R"("kind": "gelu")"),
               NodeText("c", "concat", R"("a", "b")", R"("axis": "features")"),
               NodeText("d", "concat", R"("c", "x")", R"("axis": "features")"),
               NodeText("e", "concat", R"("d")", R"("axis": "features")"),
               NodeText("logits", "linear", R"("e", "head")"), kLoss})},
    // Nodes that only `acan predict` computes, between the others. Of one of them training computes
    // the running statistics.
    {"nodes_that_serve_only_outputs",
     FileText({TokensText(70), LabelsText(70, 40), NumbersText("more", 1, 30)},
              {MatrixText("table", 40, 48), MatrixText("w", 48, 48), VectorText("s", "scale", 48),
               MatrixText("head", 40, 48), VectorText("mean", "statistic", 48),
               VectorText("variance", "statistic", 48)},
              {NodeText("x", "embedding", R"("tokens", "table")"),
               NodeText("only_a", "linear", R"("x", "w")"),
               NodeText("only_b", "rms_norm", R"("only_a", "s")"),
               NodeText("only_g", "batch_norm", R"("x", "s", "s", "mean", "variance")"),
               NodeText("only_c", "slice", R"("only_b")", FeaturesText(3, 30)),
               NodeText("a", "linear", R"("x", "w")"), NodeText("b", "rms_norm", R"("a", "s")"),
               NodeText("only_d", "attention", R"("a", "b", "only_b")",
                        R"("heads": 2, "key_value_heads": 2, "scale": 0.2)"),
               NodeText("only_e", "activation", R"("more")", R"("kind": "tanh")"),
               NodeText("only_f", "concat", R"("a", "only_a")", R"("axis": "features")"),
               NodeText("logits", "linear", R"("b", "head")"), kLoss},
              R"(, "c": "only_c", "d": "only_d", "e": "only_e", "f": "only_f", "g": "only_g")")},
    // Of the gradient of the first attention only that of the values is needed, and of the second
    // one only that of the queries.
    {"attention_with_unneeded_gradients",
     FileText({NumbersText("x", 150, 32), LabelsText(150, 20)},
              {MatrixText("w", 32, 32), MatrixText("head", 20, 32)},
              {NodeText("v", "linear", R"("x", "w")"),
               NodeText("a", "attention", R"("x", "x", "v")",
                        R"("heads": 2, "key_value_heads": 2, "scale": 0.2)"),
               NodeText("b", "attention", R"("a", "x", "x")",
                        R"("heads": 2, "key_value_heads": 2, "scale": 0.2)"),
               NodeText("logits", "linear", R"("b", "head")"), kLoss})},
};

class GraphFileTest : public testing::TestWithParam<GraphFile> {};

TEST_P(GraphFileTest, EveryCutTrainsTheSameBits) {
  TriedModel(GetParam().name, GetParam().text).TryAll();
}

INSTANTIATE_TEST_SUITE_P(Files, GraphFileTest, testing::ValuesIn(kFiles),
                         [](const auto& of) { return of.param.name; });

// A convolution of images that are cut into bands: the windows of a band may lie wholly in the
// padding, and rows of the image may lie under no window.
struct Bands {
  int height, kernel, stride, padding;
};
void PrintTo(const Bands& bands, std::ostream* out) {
  *out << "height " << bands.height << ", kernel " << bands.kernel << ", stride " << bands.stride
       << ", padding " << bands.padding;
}

class BandsTest : public testing::TestWithParam<Bands> {};

TEST_P(BandsTest, EveryCutTrainsTheSameBits) {
  const auto [height, kernel, stride, padding] = GetParam();
  constexpr int kWidth = 8, kChannels = 6;
  const auto window = [&](const std::string& text) {
    return R"("input": [)" + std::to_string(height) + ", " + std::to_string(kWidth) + "], " + text;
  };
  const auto pair = [](const std::string& name, int y, int x) {
    return "\"" + name + "\": [" + std::to_string(y) + ", " + std::to_string(x) + "]";
  };
  const std::string text = FileText(
      {NumbersText("images", height * kWidth, kChannels), LabelsText(1, 3)},
      {MatrixText("first", kChannels, kChannels),
       MatrixText("second", kChannels, kChannels * kernel * 3), MatrixText("head", 3, kChannels)},
      // The first one makes the second one compute the gradient of its input.
      {NodeText("a", "convolution", R"("images", "first")", window(R"("kernel": 1, "stride": 1)")),
       NodeText("b", "convolution", R"("a", "second")",
                window(pair("kernel", kernel, 3) + ", " + pair("stride", stride, 1) + ", " +
                       pair("padding", padding, 1))),
       NodeText("c", "global_pooling", R"("b")", R"("kind": "average")"),
       NodeText("logits", "linear", R"("c", "head")"), kLoss});
  TriedModel("bands", text).TryAll();
}

INSTANTIATE_TEST_SUITE_P(Windows, BandsTest,
                         testing::Values(Bands{64, 3, 1, 3}, Bands{40, 2, 1, 2}, Bands{50, 3, 2, 0},
                                         Bands{50, 4, 2, 0}, Bands{47, 5, 2, 0}, Bands{41, 2, 5, 4},
                                         Bands{33, 5, 1, 9}, Bands{37, 3, 3, 3},
                                         Bands{40, 1, 3, 0}));

}  // namespace
}  // namespace acan
