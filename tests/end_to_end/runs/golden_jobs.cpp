#include "golden_jobs.h"

#include <cstdint>
#include <random>

#include "data_files.h"

namespace acan::testing {
namespace {

// Samples of an epoch; no batch below divides them.
constexpr std::uint32_t kDataSamples = 20;
constexpr std::uint32_t kDataNumbers = 97, kDataTokens = 12, kDataHeight = 8, kDataWidth = 6,
                        kDataChannels = 3;

// Bytes below `bound`. Every library's mt19937 draws the same.
std::string DrawBytes(std::uint32_t count, std::uint32_t bound, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes;
  for (std::uint32_t i = 0; i < count; ++i) bytes.push_back(static_cast<char>(random() % bound));
  return bytes;
}

void WriteGoldenText(const TestFolder& folder) {
  std::string text = DrawBytes(400, 26, 1);
  for (char& c : text) c = static_cast<char>('a' + c);
  folder.Write("text.txt", text);
}

void WriteGoldenSequences(const TestFolder& folder) {
  const std::string tokens = DrawBytes(kDataSamples * kDataTokens, 30, 2);
  const std::string draws = DrawBytes(kDataSamples * kDataTokens, 3, 3);
  std::string labels;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int32_t label = draws[i] == 0 ? tokens[i] : -100;
    labels.append(reinterpret_cast<const char*>(&label), sizeof label);
  }
  std::string lengths = DrawBytes(kDataSamples, kDataTokens, 4);
  for (char& length : lengths) ++length;
  folder.Write("tokens", NpyFile("|u1", {kDataSamples, kDataTokens}, tokens));
  folder.Write("token-types", NpyFile("|u1", {kDataSamples, kDataTokens}, draws));
  folder.Write("token-labels", NpyFile("<i4", {kDataSamples, kDataTokens}, labels));
  folder.Write("lengths", NpyFile("|u1", {kDataSamples}, lengths));
}

void WriteGoldenSamples(const TestFolder& folder) {
  folder.Write("numbers", IdxFile({kDataSamples, kDataNumbers},
                                  DrawBytes(kDataSamples * kDataNumbers, 256, 5)));
  folder.Write("images",
               IdxFile({kDataSamples, kDataHeight, kDataWidth, kDataChannels},
                       DrawBytes(kDataSamples * kDataHeight * kDataWidth * kDataChannels, 256, 6)));
  folder.Write("labels", IdxFile({kDataSamples}, DrawBytes(kDataSamples, 5, 7)));
}

constexpr const char* kOfNumbers = R"([data]
train_inputs = "numbers"
train_labels = "labels"
)";

constexpr const char* kOfText = R"([data]
train_text = "text.txt"
tokenizer = "characters"
)";

constexpr const char* kOfImages = R"([data]
train_inputs = "images"
train_labels = "labels"
layout = "HWC"
mean = [0.4, 0.5, 0.6]
std = [0.3, 0.2, 0.25]
crop_padding = 1
flip = true
)";

// ---- perceptrons -------------------------------------------------------------------------------

constexpr const char* kSgd = R"([model]
layers = [97, 150, 70, 5]
[train]
batch = 9
steps = 5
optimizer = "sgd"
learning_rate = 0.05
weight_decay = 0.01
schedule = "step"
step_every = 1
step_factor = 0.7
warmup_steps = 2
)";

constexpr const char* kMomentum = R"([model]
layers = [33, 70, 5]
activation = "tanh"
loss = "mse"
[data]
generated = "regression"
samples = 100
[train]
batch = 70
steps = 5
optimizer = "momentum"
learning_rate = 0.05
momentum = 0.8
weight_decay = 0.001
schedule = "cosine"
final_fraction = 0.1
seed = 5
)";

constexpr const char* kAdamW = R"([model]
layers = [97, 70, 5]
activation = "sigmoid"
[train]
batch = 9
steps = 5
optimizer = "adamw"
learning_rate = 0.003
beta1 = 0.85
beta2 = 0.99
seed = 6
)";

// ---- models of language ------------------------------------------------------------------------

// The clipping takes effect: the norms of the gradients are above 1.
constexpr const char* kGpt = R"([model]
kind = "gpt"
n_layer = 2
n_head = 3
n_embd = 30
block_size = 12
vocab_size = 30
dropout = 0.1
label_smoothing = 0.1
[train]
batch = 9
steps = 5
optimizer = "adamw"
learning_rate = 0.01
decay = "matrices"
clip_norm = 0.5
schedule = "cosine"
warmup_steps = 1
seed = 7
)";

constexpr const char* kLlama = R"([model]
kind = "llama"
num_hidden_layers = 2
num_attention_heads = 4
num_key_value_heads = 2
hidden_size = 40
intermediate_size = 70
max_position_embeddings = 20
vocab_size = 30
attention_dropout = 0.2
attention_bias = true
tie_word_embeddings = true
[train]
batch = 9
steps = 5
block = 16
optimizer = "momentum"
learning_rate = 0.02
clip_norm = 0.3
freeze = ["model.layers.0.mlp.*"]
seed = 8
)";

constexpr const char* kBert = R"([model]
kind = "bert"
task = "masked_language"
num_hidden_layers = 1
num_attention_heads = 2
hidden_size = 22
intermediate_size = 40
max_position_embeddings = 14
sequence_length = 12
type_vocab_size = 3
vocab_size = 30
[data]
train_tokens = "tokens"
train_token_types = "token-types"
train_labels = "token-labels"
train_lengths = "lengths"
[train]
batch = 9
steps = 5
optimizer = "adamw"
learning_rate = 0.01
seed = 9
)";

// ---- models of images --------------------------------------------------------------------------

constexpr const char* kVit = R"([model]
kind = "vit"
image_size = [8, 6]
patch_size = 2
num_layers = 1
num_heads = 2
hidden_dim = 14
mlp_dim = 30
num_classes = 5
dropout = 0.1
attention_dropout = 0.1
[train]
batch = 9
steps = 5
optimizer = "adamw"
learning_rate = 0.01
seed = 10
)";

constexpr const char* kResnet = R"([model]
kind = "resnet"
image_size = [8, 6]
widths = [4, 6]
blocks = [1, 1]
block = "bottleneck"
stem = "imagenet"
num_classes = 5
[train]
batch = 9
steps = 5
optimizer = "momentum"
learning_rate = 0.05
seed = 11
)";

constexpr const char* kConvnext = R"([model]
kind = "convnext"
image_size = [8, 6]
patch_size = 2
widths = [5, 9]
blocks = [1, 2]
layer_scale = 0.5
stochastic_depth_prob = 0.4
num_classes = 5
[train]
batch = 9
steps = 5
optimizer = "adamw"
learning_rate = 0.01
seed = 12
)";

// ---- a graph -----------------------------------------------------------------------------------

constexpr const char* kGraph = R"([model]
kind = "graph"
file = "graph.json"
[train]
batch = 9
steps = 5
learning_rate = 0.05
seed = 13
)";

// What no other job reaches: convolutions in groups, norms of groups and without their own
// statistics, average and maximum pooling, and most operators of single elements.
constexpr const char* kGraphFile = R"({
"format": "acan-graph-1",
"inputs": [
  {"name": "images", "role": "numbers", "rows": 48, "features": 3},
  {"name": "labels", "role": "labels", "bound": 5}],
"parameters": [
  {"name": "c1.w", "role": "matrix", "rows": 6, "columns": 27, "initial": {"uniform": [-0.4, 0.4]},
   "file_layout": "convolution", "file_shape": [6, 3, 3, 3]},
  {"name": "c1.b", "role": "bias", "columns": 6, "initial": {"normal": [0, 0.1]}},
  {"name": "gn.w", "role": "scale", "columns": 6, "initial": {"constant": 1}},
  {"name": "gn.b", "role": "bias", "columns": 6, "initial": {"constant": 0}},
  {"name": "c2.w", "role": "matrix", "rows": 8, "columns": 9,
   "initial": {"truncated_normal": [0, 0.3, -0.5, 0.5]},
   "file_layout": "convolution", "file_shape": [8, 3, 3, 1]},
  {"name": "bni.w", "role": "scale", "columns": 8, "initial": {"uniform": [0.5, 1.5]}},
  {"name": "bni.b", "role": "bias", "columns": 8, "initial": {"normal": [0, 0.1]}},
  {"name": "bni.mean", "role": "statistic", "columns": 8, "initial": {"normal": [0, 0.1]}},
  {"name": "bni.var", "role": "statistic", "columns": 8, "initial": {"uniform": [0.5, 1.5]}},
  {"name": "gate.w", "role": "matrix", "rows": 12, "columns": 16, "initial": {"normal": [0, 0.3]}},
  {"name": "up.w", "role": "matrix", "rows": 12, "columns": 16, "initial": {"normal": [0, 0.3]}},
  {"name": "columns.w", "role": "scale", "columns": 12, "initial": {"uniform": [0.5, 1.5]}},
  {"name": "table", "role": "embedding", "rows": 11, "columns": 12,
   "initial": {"normal": [0, 0.3]}},
  {"name": "rms.w", "role": "scale", "columns": 12, "initial": {"constant": 1}},
  {"name": "q.w", "role": "matrix", "rows": 12, "columns": 12, "initial": {"normal": [0, 0.3]}},
  {"name": "k.w", "role": "matrix", "rows": 4, "columns": 12, "initial": {"normal": [0, 0.3]},
   "file_layout": "transposed"},
  {"name": "v.w", "role": "matrix", "rows": 4, "columns": 12, "initial": {"normal": [0, 0.3]}},
  {"name": "flat.w", "role": "matrix", "rows": 7, "columns": 108, "initial": {"normal": [0, 0.1]}},
  {"name": "head.w", "role": "matrix", "rows": 5, "columns": 31, "initial": {"normal": [0, 0.3]}},
  {"name": "head.b", "role": "bias", "columns": 5, "initial": {"constant": 0}}],
"nodes": [
  {"name": "c1", "operator": "convolution", "inputs": ["images", "c1.w", "c1.b"],
   "attributes": {"input": [8, 6], "kernel": 3, "stride": 1, "padding": 1}},
  {"name": "gn", "operator": "group_norm", "inputs": ["c1", "gn.w", "gn.b"],
   "attributes": {"groups": 3}},
  {"name": "silu", "operator": "activation", "inputs": ["gn"], "attributes": {"kind": "silu"}},
  {"name": "c2", "operator": "convolution", "inputs": ["silu", "c2.w"],
   "attributes": {"input": [8, 6], "kernel": [3, 1], "stride": [2, 1], "padding": [1, 0],
                  "groups": 2}},
  {"name": "bni", "operator": "batch_norm_inference",
   "inputs": ["c2", "bni.w", "bni.b", "bni.mean", "bni.var"]},
  {"name": "clipped", "operator": "activation", "inputs": ["bni"],
   "attributes": {"kind": "clipped_relu", "bound": 1.5}},
  {"name": "average", "operator": "pooling", "inputs": ["clipped"],
   "attributes": {"kind": "average", "input": [4, 6], "kernel": 2, "stride": [1, 2]}},
  {"name": "maximum", "operator": "pooling", "inputs": ["bni"],
   "attributes": {"kind": "maximum", "input": [4, 6], "kernel": 2, "stride": [1, 2]}},
  {"name": "both", "operator": "concat", "inputs": ["average", "maximum"],
   "attributes": {"axis": "features"}},
  {"name": "some", "operator": "slice", "inputs": ["both"],
   "attributes": {"axis": "features", "begin": 2, "end": 14}},
  {"name": "gate", "operator": "linear", "inputs": ["both", "gate.w"]},
  {"name": "up", "operator": "linear", "inputs": ["both", "up.w"]},
  {"name": "swiglu", "operator": "swiglu", "inputs": ["gate", "up"]},
  {"name": "product", "operator": "multiply", "inputs": ["swiglu", "some"]},
  {"name": "columns", "operator": "scale_columns", "inputs": ["product", "columns.w"]},
  {"name": "scaled", "operator": "scale", "inputs": ["columns"], "attributes": {"factor": -0.7}},
  {"name": "places", "operator": "learned_positions", "inputs": ["table"],
   "attributes": {"first": 1, "rows": 9}},
  {"name": "placed", "operator": "add", "inputs": ["scaled", "places"]},
  {"name": "rms", "operator": "rms_norm", "inputs": ["placed", "rms.w"]},
  {"name": "q", "operator": "linear", "inputs": ["rms", "q.w"]},
  {"name": "k", "operator": "linear", "inputs": ["rms", "k.w"]},
  {"name": "v", "operator": "linear", "inputs": ["rms", "v.w"]},
  {"name": "turned", "operator": "rotary", "inputs": ["q"],
   "attributes": {"head_size": 4, "base": 100}},
  {"name": "attention", "operator": "attention", "inputs": ["turned", "k", "v"],
   "attributes": {"mask": "full", "heads": 3, "key_value_heads": 1, "scale": 0.5, "dropout": 0.1}},
  {"name": "dropped", "operator": "dropout", "inputs": ["attention"],
   "attributes": {"rate": 0.2, "unit": "sample"}},
  {"name": "residual", "operator": "add", "inputs": ["placed", "dropped"]},
  {"name": "most", "operator": "global_pooling", "inputs": ["residual"],
   "attributes": {"kind": "maximum"}},
  {"name": "mean", "operator": "global_pooling", "inputs": ["residual"],
   "attributes": {"kind": "average"}},
  {"name": "flat", "operator": "reshape", "inputs": ["residual"], "attributes": {"positions": 1}},
  {"name": "narrow", "operator": "linear", "inputs": ["flat", "flat.w"]},
  {"name": "gelu", "operator": "activation", "inputs": ["narrow"], "attributes": {"kind": "gelu"}},
  {"name": "joined", "operator": "concat", "inputs": ["most", "mean", "gelu"],
   "attributes": {"axis": "features"}},
  {"name": "norm", "operator": "layer_norm", "inputs": ["joined"]},
  {"name": "head", "operator": "linear", "inputs": ["norm", "head.w", "head.b"]},
  {"name": "loss", "operator": "cross_entropy", "inputs": ["head", "labels"]}],
"outputs": {"logits": "head"},
"loss": "loss"}
)";

}  // namespace

std::vector<GoldenJob> WriteGoldenJobs(const TestFolder& folder) {
  WriteGoldenText(folder);
  WriteGoldenSequences(folder);
  WriteGoldenSamples(folder);
  folder.Write("graph.json", kGraphFile);
  std::vector<GoldenJob> jobs;
  const auto add = [&](const std::string& name, const char* job, const char* data = "") {
    jobs.push_back({name, folder.Write(name + ".toml", std::string(job) + data)});
  };
  add("sgd", kSgd, kOfNumbers);
  add("momentum", kMomentum);
  add("adamw", kAdamW, kOfNumbers);
  add("gpt", kGpt, kOfText);
  add("llama", kLlama, kOfText);
  add("bert", kBert);
  add("vit", kVit, kOfImages);
  add("resnet", kResnet, kOfImages);
  add("convnext", kConvnext, kOfImages);
  add("graph", kGraph, kOfImages);
  return jobs;
}

}  // namespace acan::testing
