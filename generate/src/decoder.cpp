#include "acan/generate/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/rotary_angles.h"
#include "acan/core/run_calls.h"

namespace acan {
namespace {

// Positions that are computed at once: what a long prompt needs beside the weights stays small.
constexpr std::int64_t kChunk = 64;

[[noreturn]] void NoText(const FinishedRun& run, const std::string& why) {
  throw UsageError(fmt::format("{}: no text can come from its model of kind \"{}\": {}", run.folder,
                               run.model->kind, why));
}

}  // namespace

Decoder::Decoder(std::unique_ptr<Device> device, const FinishedRun& run)
    : device_(std::move(device)),
      graph_(std::shared_ptr<const model::Graph>(run.model, &run.model->evaluation)),
      training_(run.job.training) {
  training_.precision = Precision::kExact;
  FindNodes(run);
  UploadWeights(run);
  UploadTables();
}

void Decoder::FindNodes(const FinishedRun& run) {
  const model::Graph& graph = graph_.graph();
  const model::Input* tokens = nullptr;
  for (const model::Input& input : graph.inputs()) {
    if (input.role == model::InputRole::kLabels) continue;
    if (input.role != model::InputRole::kTokens || tokens != nullptr) {
      NoText(run,
             fmt::format("it takes \"{}\"; a model of language takes tokens alone (gpt, llama)",
                         input.name));
    }
    tokens = &input;
  }
  const model::Node& loss = graph.node(graph.value(graph.losses().front()).index);
  const model::Value& logits = graph.value(loss.operands.front());
  if (tokens == nullptr || !std::holds_alternative<model::CrossEntropy>(loss.op) ||
      logits.source != model::Source::kNode ||
      logits.shape.rows != graph.value(tokens->value).shape.rows ||
      logits.shape.features != tokens->bound) {
    NoText(run, "it does not predict a next token for each token (gpt and llama do)");
  }
  positions_ = logits.shape.rows;
  vocabulary_size_ = logits.shape.features;
  output_node_ = graph_.value(loss.operands.front()).producer;
  const std::string why = WhyNotByRows(graph_, output_node_);
  if (!why.empty()) NoText(run, why);
  for (int id = 0; id < output_node_; ++id) {
    if (std::holds_alternative<model::Attention>(graph_.node(id).node->op)) last_attention_ = id;
  }
}

BufferPtr Decoder::Upload(const void* words, std::size_t count) const {
  return device_->Upload(tuplespace::Payload::Copy(words, 4 * count));
}

void Decoder::UploadWeights(const FinishedRun& run) {
  const std::unique_ptr<ModelReader> reader = run.OpenWeights();
  weights_.resize(graph_.graph().parameters().size());
  const std::vector<TensorInfo>& tensors = reader->Tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& tensor = tensors[i];
    if (tensor.matrix.state != ParameterState::kValue) continue;
    std::vector<float> values(static_cast<std::size_t>(tensor.rows * tensor.cols));
    reader->Read(i, 0, 0, tensor.rows, tensor.cols, values);
    weights_[static_cast<std::size_t>(tensor.matrix.parameter)] =
        Upload(values.data(), values.size());
  }
}

void Decoder::UploadTables() {
  for (const RotaryTable& table : graph_.tables()) {
    const RotaryTables angles = MakeRotaryTables(0, table.positions, table.head_size, table.base);
    tables_.push_back(Upload(angles.cosine.data(), angles.cosine.size()));
    tables_.push_back(Upload(angles.sine.data(), angles.sine.size()));
  }
}

// The rows of the first result of `last_node`.
std::vector<float> Decoder::Compute(std::span<const std::int32_t> tokens, int last_node) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  assert(count > 0 && length_ + count <= positions_);
  const RowCalls rows = CallsOfRows(graph_, training_, last_node, {length_, length_ + count});
  std::vector<BufferPtr> buffers(rows.task.buffers.size());
  for (const RowCalls::TaskInput& input : rows.inputs) {
    BufferPtr& buffer = buffers[input.buffer];
    const auto index = static_cast<std::size_t>(input.index);
    if (input.source == RowCalls::Source::kInput) buffer = Upload(tokens.data(), tokens.size());
    if (input.source == RowCalls::Source::kParameter) buffer = weights_[index];
    if (input.source == RowCalls::Source::kTable) buffer = tables_[index];
  }
  caches_.resize(std::max(caches_.size(), rows.caches.size()));
  for (std::size_t i = 0; i < rows.caches.size(); ++i) {
    if (!caches_[i]) caches_[i] = device_->Allocate(rows.task.buffers[rows.caches[i]].bytes());
    buffers[rows.caches[i]] = caches_[i];
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (!buffers[i]) buffers[i] = device_->Allocate(rows.task.buffers[i].bytes());
  }
  RunCalls(*device_, rows.task, buffers);
  length_ += count;
  if (last_node != output_node_) return {};
  if (rows.result.buffer < 0) throw FailureError("the model's outputs are read in parts only");
  const auto result = static_cast<std::size_t>(rows.result.buffer);
  const tuplespace::Payload payload =
      device_->Download(buffers[result], MatrixOf(rows.task, buffers, rows.result));
  std::vector<float> values(payload.size() / sizeof(float));
  std::memcpy(values.data(), payload.data(), payload.size());
  return values;
}

std::vector<float> Decoder::Read(std::span<const std::int32_t> tokens) {
  assert(!tokens.empty());
  // Behind all tokens but the last, nobody wants outputs: they need not be computed.
  std::span<const std::int32_t> before = tokens.first(tokens.size() - 1);
  while (!before.empty() && last_attention_ >= 0) {
    const std::size_t count = std::min<std::size_t>(before.size(), kChunk);
    Compute(before.first(count), last_attention_);
    before = before.subspan(count);
  }
  if (last_attention_ < 0) length_ += static_cast<std::int64_t>(before.size());
  return Compute(tokens.last(1), output_node_);
}

std::vector<float> Decoder::ReadEach(std::span<const std::int32_t> tokens) {
  std::vector<float> all;
  while (!tokens.empty()) {
    const std::size_t count = std::min<std::size_t>(tokens.size(), kChunk);
    const std::vector<float> some = Compute(tokens.first(count), output_node_);
    all.insert(all.end(), some.begin(), some.end());
    tokens = tokens.subspan(count);
  }
  return all;
}

}  // namespace acan
