#include "composer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "acan/core/error.h"
#include "acan/model/rates.h"

namespace acan::model {

void CheckCount(std::string_view name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return;
  throw UsageError(
      fmt::format("model: {} = {} must be at least {} and at most {}", name, value, least, most));
}

void CheckRate(std::string_view name, float value) {
  if (IsRate(value)) return;
  throw UsageError(
      fmt::format("model: {} = {} must be {}", name, value, RateText(static_cast<double>(value))));
}

void CheckPositive(std::string_view name, float value) {
  if (std::isfinite(value) && value > 0.0f) return;
  throw UsageError(fmt::format("model: {} = {} must be finite and above 0", name, value));
}

void CheckDivides(std::string_view part_name, std::int64_t part,
                  const std::vector<NamedSize>& wholes) {
  CheckCount(part_name, part);
  std::int64_t common = 0;
  std::string names;
  for (const NamedSize& whole : wholes) {
    CheckCount(whole.name, whole.size);
    common = std::gcd(common, whole.size);
    names += fmt::format("{}{}", names.empty() ? "" : " and ", whole.name);
  }
  const auto wrong = std::ranges::find_if(
      wholes, [part](const NamedSize& whole) { return whole.size % part != 0; });
  if (wrong == wholes.end()) return;
  std::int64_t below = 1;
  for (std::int64_t i = 1; i <= common / i; ++i) {
    if (common % i != 0) continue;
    if (i < part) below = std::max(below, i);
    if (common / i < part) below = std::max(below, common / i);
  }
  throw UsageError(
      fmt::format("model: {} = {} does not divide {} = {}; the next smaller one that "
                  "{} is {}",
                  part_name, part, wrong->name, wrong->size,
                  wholes.size() == 1 ? "does" : "divides " + names, below));
}

std::int64_t CheckedLength(std::int64_t length, std::string_view most_name, std::int64_t most) {
  CheckCount(most_name, most, 1, kMaxRows);
  if (length == 0) return most;
  CheckCount("sequence_length", length, 1, kMaxRows);
  if (length > most) {
    throw UsageError(
        fmt::format("model: sequence_length = {} is more than {} = {}, and there are "
                    "no positions beyond it; shorten the sequences or raise {}",
                    length, most_name, most, most_name));
  }
  return length;
}

void CheckImage(const Extent& image_size, std::int64_t channels, std::int64_t num_classes) {
  CheckCount("image_size (height)", image_size.height, 1, kMaxSide);
  CheckCount("image_size (width)", image_size.width, 1, kMaxSide);
  CheckCount("channels", channels);
  CheckCount("num_classes", num_classes, 2);
}

void CheckStages(const std::vector<std::int64_t>& widths, const std::vector<std::int64_t>& blocks) {
  if (widths.size() != blocks.size() || widths.empty()) {
    throw UsageError(
        fmt::format("model: widths has {} entries and blocks {}; each stage has one "
                    "of both, and there is at least one stage",
                    widths.size(), blocks.size()));
  }
  CheckCount("the number of stages", static_cast<std::int64_t>(widths.size()), 1, 64);
  for (std::size_t i = 0; i < widths.size(); ++i) {
    CheckCount(fmt::format("widths[{}]", i), widths[i], 1, kMaxWidth);
    CheckCount(fmt::format("blocks[{}]", i), blocks[i], 1, kMaxLayers);
  }
}

ValueId Composer::Vector(const std::string& name, Role role, std::int64_t columns,
                         const Initial& initial) {
  return graph_.AddParameter(VectorParameter(name, role, columns, initial));
}

ValueId Composer::Linear(const std::string& name, ValueId x, std::int64_t outputs,
                         const LinearStart& start) {
  return Linear(name, name + ".weight", name + ".bias", x, outputs, start);
}

ValueId Composer::Linear(const std::string& name, const std::string& weight_name,
                         const std::string& bias_name, ValueId x, std::int64_t outputs,
                         const LinearStart& start) {
  Parameter weight = MatrixParameter(weight_name, outputs, FeaturesOf(x), start.weight);
  weight.file_layout = start.layout;
  if (start.layout == FileLayout::kTransposed) weight.file_shape = {FeaturesOf(x), outputs};
  std::vector<ValueId> operands{x, graph_.AddParameter(std::move(weight))};
  if (start.bias) operands.push_back(Vector(bias_name, Role::kBias, outputs, *start.bias));
  return graph_.Add(name, model::Linear{}, std::move(operands));
}

ValueId Composer::Table(const std::string& name, std::int64_t rows, std::int64_t columns,
                        const Initial& initial) {
  Parameter table = MatrixParameter(name, rows, columns, initial);
  table.role = Role::kEmbedding;
  return graph_.AddParameter(std::move(table));
}

ValueId Composer::LayerNorm(const std::string& name, ValueId x, float epsilon, bool bias) {
  const std::int64_t features = FeaturesOf(x);
  std::vector<ValueId> operands{x, Vector(name + ".weight", Role::kScale, features, Constant{1})};
  if (bias) operands.push_back(Vector(name + ".bias", Role::kBias, features, Constant{0}));
  return graph_.Add(name, model::LayerNorm{epsilon}, std::move(operands));
}

ValueId Composer::RmsNorm(const std::string& name, ValueId x, float epsilon) {
  const ValueId scale = Vector(name + ".weight", Role::kScale, FeaturesOf(x), Constant{1});
  return graph_.Add(name, model::RmsNorm{epsilon}, {x, scale});
}

ValueId Composer::BatchNorm(const std::string& name, ValueId x) {
  const std::int64_t channels = FeaturesOf(x);
  const ValueId scale = Vector(name + ".weight", Role::kScale, channels, Constant{1});
  const ValueId bias = Vector(name + ".bias", Role::kBias, channels, Constant{0});
  const ValueId mean = Vector(name + ".running_mean", Role::kStatistic, channels, Constant{0});
  const ValueId variance = Vector(name + ".running_var", Role::kStatistic, channels, Constant{1});
  graph_.AddStepCounter(name + ".num_batches_tracked");
  if (!training()) {
    return graph_.Add(name, BatchNormInference{}, {x, scale, bias, mean, variance});
  }
  const std::vector<ValueId> results =
      graph_.node(graph_.AddNode(name, model::BatchNorm{}, {x, scale, bias})).results;
  RunningAverage average;
  average.positions = graph_.value(x).shape.rows;
  graph_.AddAssignment(graph_.value(mean).index,
                       graph_.Add(name + ".new_mean", average, {mean, results[1]}));
  average.correction = Correction::kUnbiased;
  graph_.AddAssignment(graph_.value(variance).index,
                       graph_.Add(name + ".new_var", average, {variance, results[2]}));
  return results[0];
}

ValueId Composer::GroupNorm(const std::string& name, ValueId x, std::int64_t groups) {
  const std::int64_t channels = FeaturesOf(x);
  const ValueId scale = Vector(name + ".weight", Role::kScale, channels, Constant{1});
  const ValueId bias = Vector(name + ".bias", Role::kBias, channels, Constant{0});
  return graph_.Add(name, model::GroupNorm{groups}, {x, scale, bias});
}

Image Composer::Convolution(const std::string& name, const Image& x, std::int64_t outputs,
                            const ConvolutionShape& shape, const LinearStart& start) {
  model::Convolution op;
  op.window = {x.size,
               {shape.kernel, shape.kernel},
               {shape.stride, shape.stride},
               {shape.padding, shape.padding}};
  op.groups = shape.groups;
  const std::int64_t inputs = FeaturesOf(x.value) / shape.groups;
  Parameter weight =
      MatrixParameter(name + ".weight", outputs, inputs * op.window.kernel.area(), start.weight);
  weight.file_shape = {outputs, inputs, shape.kernel, shape.kernel};
  weight.file_layout = FileLayout::kConvolution;
  std::vector<ValueId> operands{x.value, graph_.AddParameter(std::move(weight))};
  if (start.bias) operands.push_back(Vector(name + ".bias", Role::kBias, outputs, *start.bias));
  return {graph_.Add(name, op, std::move(operands)), op.window.output()};
}

ValueId Composer::Activation(const std::string& name, ValueId x, ActivationKind kind) {
  return graph_.Add(name, model::Activation{kind}, {x});
}

ValueId Composer::Dropout(const std::string& name, ValueId x, float rate, DropoutUnit unit) {
  if (!training() || rate == 0.0f) return x;
  return graph_.Add(name, model::Dropout{rate, unit, dropout_streams_++}, {x});
}

Attention Composer::AttentionOf(AttentionMask mask, std::int64_t heads,
                                std::int64_t key_value_heads, std::int64_t head_size,
                                float dropout) {
  Attention attention;
  attention.mask = mask;
  attention.heads = heads;
  attention.key_value_heads = key_value_heads;
  attention.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_size)));
  if (training() && dropout != 0.0f) {
    attention.dropout = dropout;
    attention.dropout_stream = dropout_streams_++;
  }
  return attention;
}

ValueId Composer::FusedAttention(const std::string& name, ValueId x, const Attention& attention) {
  const std::int64_t width = FeaturesOf(x) / 3;
  std::vector<ValueId> parts;
  for (const char* part : {".q", ".k", ".v"}) {
    const std::int64_t begin = static_cast<std::int64_t>(parts.size()) * width;
    parts.push_back(
        graph_.Add(name + part, Slice{SliceAxis::kFeatures, begin, begin + width}, {x}));
  }
  return graph_.Add(name, attention, parts);
}

void Composer::Classify(ValueId logits, std::int64_t classes, float label_smoothing) {
  CheckRate("label_smoothing", label_smoothing);
  graph_.AddOutput("logits", logits);
  const std::int64_t rows = graph_.value(logits).shape.rows;
  const ValueId labels = graph_.AddInput("labels", InputRole::kLabels, rows, 1, classes);
  graph_.AddLoss(graph_.Add("loss", CrossEntropy{label_smoothing, -100}, {logits, labels}));
}

}  // namespace acan::model
