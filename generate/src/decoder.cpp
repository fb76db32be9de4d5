#include "acan/generate/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "acan/core/error.h"
#include "uploads.h"

namespace acan {
namespace {

// Positions that are computed at once. A small number keeps the buffers of a long prompt small.
constexpr std::int64_t kChunk = 64;

[[noreturn]] void NoText(const FinishedRun& run, const std::string& why) {
  throw UsageError(fmt::format("{}: its model of kind \"{}\" cannot generate text: {}", run.folder,
                               run.model->kind, why));
}

// The loss operand that is compared with the labels.
model::ValueId LogitsOf(const model::Graph& graph) {
  const model::Node& loss = graph.node(graph.value(graph.losses().front()).index);
  return loss.operands.front();
}

// Throws Error (usage) if the model is not a language model.
OutputGraph GraphOfLogits(const FinishedRun& run) {
  RequireLanguageModel(run);
  const model::Graph& graph = run.model->evaluation;
  return MakeOutputGraph(graph, LogitsOf(graph));
}

}  // namespace

void RequireLanguageModel(const FinishedRun& run) {
  const model::Graph& graph = run.model->evaluation;
  const model::Input* tokens = nullptr;
  for (const model::Input& input : graph.inputs()) {
    if (input.role == model::InputRole::kLabels) continue;
    if (input.role != model::InputRole::kTokens || tokens != nullptr) {
      NoText(run, fmt::format("it takes \"{}\"; a language model takes only tokens (gpt, llama)",
                              input.name));
    }
    tokens = &input;
  }
  const model::Node& loss = graph.node(graph.value(graph.losses().front()).index);
  const model::Value& logits = graph.value(LogitsOf(graph));
  if (tokens == nullptr || !std::holds_alternative<model::CrossEntropy>(loss.op) ||
      logits.source != model::Source::kNode ||
      logits.shape.rows != graph.value(tokens->value).shape.rows ||
      logits.shape.features != tokens->bound) {
    NoText(run, "it does not predict a next token for each token (gpt and llama do)");
  }
  const std::vector<bool> is_ancestor = AncestorsOf(graph, LogitsOf(graph));
  for (const model::Input& input : graph.inputs()) {
    if (&input == tokens || !is_ancestor[static_cast<std::size_t>(input.value)]) continue;
    NoText(run, fmt::format("its logits are computed from the input \"{}\", which is unknown for a "
                            "text that is yet to be written",
                            input.name));
  }
}

Decoder::Decoder(std::unique_ptr<Device> device, const FinishedRun& run)
    : device_(std::move(device)), graph_(GraphOfLogits(run)), training_(run.job.training) {
  training_.precision = Precision::kExact;
  FindNodes(run);
  weights_ = UploadWeights(*device_, *run.OpenWeights());
  tables_ = UploadTables(*device_, graph_.lowered);
}

void Decoder::FindNodes(const FinishedRun& run) {
  const LoweredGraph& graph = graph_.lowered;
  const LoweredValue& logits = graph.value(graph.node(graph_.last_node).results.front());
  positions_ = logits.rows;
  vocabulary_size_ = logits.columns;
  const std::string why = WhyNotByRows(graph, graph_.last_node);
  if (!why.empty()) NoText(run, why);
  for (int id = 0; id < graph_.last_node; ++id) {
    if (std::holds_alternative<model::Attention>(graph.node(id).node->op)) last_attention_ = id;
  }
}

// Computes the nodes up to `last_node` for the tokens. Returns the logits if that makes them.
std::vector<float> Decoder::Compute(std::span<const std::int32_t> tokens, int last_node) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  assert(count > 0 && length_ + count <= positions_);
  const RowCalls rows =
      CallsOfRows(graph_.lowered, training_, last_node, {length_, length_ + count});
  std::vector<BufferPtr> buffers(rows.task.buffers.size());
  for (const RowCalls::TaskInput& input : rows.inputs) {
    BufferPtr& buffer = buffers[input.buffer];
    const auto index = static_cast<std::size_t>(input.index);
    if (input.source == RowCalls::Source::kInput) {
      buffer = UploadWords(*device_, tokens.data(), tokens.size());
    }
    if (input.source == RowCalls::Source::kParameter) buffer = weights_[index];
    if (input.source == RowCalls::Source::kTable) buffer = tables_[index];
  }
  caches_.resize(std::max(caches_.size(), rows.caches.size()));
  for (std::size_t i = 0; i < rows.caches.size(); ++i) {
    if (!caches_[i]) caches_[i] = device_->Allocate(rows.task.buffers[rows.caches[i]].bytes());
    buffers[rows.caches[i]] = caches_[i];
  }
  length_ += count;
  if (last_node == graph_.last_node) return RunRows(*device_, rows, std::move(buffers));
  RunToEnd(*device_, rows, std::move(buffers));
  return {};
}

std::vector<float> Decoder::Read(std::span<const std::int32_t> tokens) {
  assert(!tokens.empty());
  // Only the last token's outputs are returned; the earlier tokens only fill the caches.
  std::span<const std::int32_t> before = tokens.first(tokens.size() - 1);
  while (!before.empty() && last_attention_ >= 0) {
    const std::size_t count = std::min<std::size_t>(before.size(), kChunk);
    Compute(before.first(count), last_attention_);
    before = before.subspan(count);
  }
  if (last_attention_ < 0) length_ += static_cast<std::int64_t>(before.size());
  return Compute(tokens.last(1), graph_.last_node);
}

}  // namespace acan
