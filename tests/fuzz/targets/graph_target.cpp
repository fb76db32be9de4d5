// Graph files: an accepted file gives the same graph after it is written and read again, in both
// modes; every other file is refused with a usage error.
#include <cstring>
#include <optional>

#include "acan/core/error.h"
#include "acan/model/gradients.h"
#include "acan/model/graph_text.h"
#include "target.h"

namespace acan::fuzz::graph_target {
namespace {

using model::Mode;

void RequireUsage(const Error& refused, const char* what) {
  Require(refused.kind() == Error::Kind::kUsage && std::strlen(refused.what()) > 0,
          "{} is refused in another way than as a mistake of its user: {}", what, refused.what());
}

std::optional<model::Graph> Read(std::string_view text, Mode mode) {
  try {
    return model::ReadGraph(text, "net.json", mode);
  } catch (const Error& refused) {
    RequireUsage(refused, "a graph file");
    Require(std::string_view(refused.what()).starts_with("net.json: "),
            "a mistake does not name the file: {}", refused.what());
    return std::nullopt;
  }
}

void CheckGradients(const model::Graph& graph) {
  try {
    const model::Graph training = WithGradients(graph);
    Require(training.nodes().size() >= graph.nodes().size(), "nodes are lost");
  } catch (const Error& refused) {
    RequireUsage(refused, "a graph");
  }
}

bool Run(std::string_view input) {
  const HeapWatch heap;
  const std::optional<model::Graph> training = Read(input, Mode::kTraining);
  // The name of a node with a few characters appears in the graph, in its values and in indexes.
  heap.RequireAtMost((1 << 20) + 4096 * input.size());
  const std::optional<model::Graph> evaluation = Read(input, Mode::kEvaluation);
  if (!training || !evaluation) return false;
  Require(training->parameters() == evaluation->parameters(),
          "training and evaluation have other parameters");
  const std::string text = WriteGraph(*training);
  const std::optional<model::Graph> again = Read(text, Mode::kTraining);
  Require(again && Dump(*again) == Dump(*training), "a graph changes when it is written and read");
  CheckGradients(*training);
  return true;
}

constexpr const char* kByHand = R"({"format": "acan-graph-1",
"inputs": [{"name": "x", "role": "numbers", "features": 2}, {"name": "t", "role": "targets"}],
"parameters": [{"name": "w", "role": "matrix", "columns": 2,
                "initial": {"truncated_normal": [0, 1, -2, 2]}}],
"nodes": [{"name": "y", "operator": "linear", "inputs": ["x", "w"]},
          {"name": "s", "operator": "scale", "inputs": ["y"], "attributes": {"factor": 2}},
          {"name": "loss", "operator": "squared_error", "inputs": ["s", "t"]}],
"outputs": {"y": "s"}, "loss": "loss"})";

// A file with these inputs.
std::string WithInputs(const std::string& inputs) {
  return fmt::format("{{\"format\": \"acan-graph-1\", \"inputs\": {}}}", inputs);
}

std::vector<Seed> Seeds() {
  model::GptOptions gpt;
  gpt.n_layer = 1;
  gpt.n_head = gpt.n_embd = 2;
  gpt.block_size = gpt.vocab_size = 3;
  gpt.dropout = 0.1f;
  model::LlamaOptions llama;
  llama.num_hidden_layers = 1;
  llama.num_attention_heads = 2;
  llama.hidden_size = 4;
  llama.intermediate_size = 3;
  llama.max_position_embeddings = llama.vocab_size = 3;
  model::ResnetOptions resnet;
  resnet.image_size = {4, 4};
  resnet.widths = resnet.blocks = {1};
  resnet.num_classes = 2;
  model::ConvnextOptions convnext;
  convnext.image_size = {4, 4};
  convnext.patch_size = 2;
  convnext.widths = convnext.blocks = {1};
  convnext.num_classes = 2;
  return {{"gpt", WriteGraph(Gpt(gpt, Mode::kTraining))},
          {"llama", WriteGraph(Llama(llama, Mode::kTraining))},
          {"resnet", WriteGraph(Resnet(resnet, Mode::kTraining))},
          {"convnext", WriteGraph(Convnext(convnext, Mode::kTraining))},
          {"by-hand", kByHand}};
}

std::vector<Seed> Hostile() {
  const std::size_t many = 300'000;
  return {{"brackets", Repeated("[", many)},
          {"nested-objects", Repeated("{\"a\":", many)},
          {"nested-inputs", WithInputs(Repeated("[", many) + Repeated("]", many))},
          {"many-inputs", WithInputs(fmt::format("[{}0]", Repeated("0,", many)))},
          {"long-name", WithInputs(fmt::format("[{{\"name\": \"{}\"}}]", Repeated("a", many)))}};
}

const Registration registration({"graph", Run, Seeds, Hostile});

}  // namespace
}  // namespace acan::fuzz::graph_target
