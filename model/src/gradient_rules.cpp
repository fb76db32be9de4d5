// The gradient of each forward operator, as operators.
#include <fmt/format.h>

#include "acan/core/error.h"
#include "gradient_builder.h"

namespace acan::model {
namespace {

// One overload for each forward operator.
struct Rule {
  GradientBuilder& b;

  ValueId x() const { return b.operand(0); }
  void GiveIfNeeded(int operand, const char* suffix, const Operator& op,
                    const std::vector<ValueId>& operands) const {
    if (b.Needs(operand)) b.Give(operand, b.Emit(suffix, op, operands));
  }
  void Bias(int operand) const { GiveIfNeeded(operand, "bias", ColumnSums{}, {b.dy()}); }

  void operator()(const Linear&) const {
    GiveIfNeeded(1, "weight", LinearWeightGradient{}, {b.dy(), x()});
    Bias(2);
    // Emitted last, so that the nodes that follow it can join its task.
    GiveIfNeeded(0, "x", LinearInputGradient{}, {b.dy(), b.operand(1)});
  }
  void operator()(const Embedding& op) const {
    const std::int64_t rows = b.ShapeOf(b.operand(1)).rows;
    GiveIfNeeded(1, "table", EmbeddingGradient{op, rows}, {b.operand(0), b.dy()});
  }
  void operator()(const LearnedPositions& op) const {
    GiveIfNeeded(0, "table", LearnedPositionsGradient{op.first, b.ShapeOf(x()).rows}, {b.dy()});
  }
  void operator()(const Rotary& op) const {
    Rotary other = op;
    other.rotation = op.rotation == Rotation::kForward ? Rotation::kBack : Rotation::kForward;
    GiveIfNeeded(0, "x", other, {b.dy()});
  }
  void operator()(const Attention& op) const {
    if (!b.NeedsAny(0, 2)) return;
    const std::vector<ValueId> gradients = b.EmitAll(
        "qkv", AttentionGradient{op},
        {b.operand(0), b.operand(1), b.operand(2), b.operand(3), b.result(1), b.result(0), b.dy()});
    for (int i = 0; i < 3; ++i) {
      if (b.Needs(i)) b.Give(i, gradients[static_cast<std::size_t>(i)]);
    }
  }

  void operator()(const LayerNorm& op) const {
    GiveIfNeeded(0, "x", LayerNormGradient{op.epsilon}, {x(), b.operand(1), b.dy()});
    GiveIfNeeded(1, "scale", LayerNormScaleGradient{op.epsilon}, {x(), b.dy()});
    Bias(2);
  }
  void operator()(const RmsNorm& op) const {
    GiveIfNeeded(0, "x", RmsNormGradient{op.epsilon}, {x(), b.operand(1), b.dy()});
    GiveIfNeeded(1, "scale", RmsNormScaleGradient{op.epsilon}, {x(), b.dy()});
  }
  // The operand's gradient needs both sums, even if scale and bias are frozen.
  void operator()(const BatchNorm& op) const {
    const std::vector<ValueId> sums =
        b.EmitAll("sums", BatchNormSums{op.epsilon}, {x(), b.result(1), b.result(2), b.dy()});
    GiveIfNeeded(0, "x", BatchNormGradient{op.epsilon},
                 {x(), b.operand(1), b.result(1), b.result(2), sums[0], sums[1], b.dy()});
    if (b.Needs(1)) b.Give(1, sums[0]);
    if (b.Needs(2)) b.Give(2, sums[1]);
  }
  void operator()(const BatchNormInference& op) const {
    if (b.NeedsAny(3, 4)) NoGradient("a mean or a variance that is trained");
    GiveIfNeeded(0, "x", BatchNormInferenceGradient{op.epsilon},
                 {b.operand(1), b.operand(4), b.dy()});
    if (b.Needs(1)) {
      const std::vector<ValueId> sums =
          b.EmitAll("sums", BatchNormSums{op.epsilon}, {x(), b.operand(3), b.operand(4), b.dy()});
      b.Give(1, sums[0]);
      if (b.Needs(2)) b.Give(2, sums[1]);
    } else {
      Bias(2);
    }
  }
  void operator()(const RunningAverage&) const { NoGradient("a running average"); }
  void operator()(const GroupNorm& op) const {
    GiveIfNeeded(0, "x", GroupNormGradient{op}, {x(), b.operand(1), b.dy()});
    GiveIfNeeded(1, "scale", GroupNormScaleGradient{op}, {x(), b.dy()});
    Bias(2);
  }

  void operator()(const Convolution& op) const {
    GiveIfNeeded(0, "x", ConvolutionInputGradient{op}, {b.dy(), b.operand(1)});
    GiveIfNeeded(1, "weight", ConvolutionWeightGradient{op}, {b.dy(), x()});
    Bias(2);
  }
  void operator()(const Pooling& op) const {
    const bool maximum = op.kind == PoolingKind::kMaximum;
    GiveIfNeeded(0, "x", PoolingGradient{op}, {maximum ? x() : kNoValue, b.dy()});
  }
  void operator()(const GlobalPooling& op) const {
    const bool maximum = op.kind == PoolingKind::kMaximum;
    GiveIfNeeded(0, "x", GlobalPoolingGradient{op, b.ShapeOf(x()).rows},
                 {maximum ? x() : kNoValue, b.operand(1), b.dy()});
  }
  void operator()(const Patches& op) const { GiveIfNeeded(0, "x", PatchesGradient{op}, {b.dy()}); }
  void operator()(const Reshape&) const {
    GiveIfNeeded(0, "x", Reshape{b.ShapeOf(x()).rows}, {b.dy()});
  }
  void operator()(const Slice& op) const {
    if (b.Needs(0)) b.GiveSlice(0, op);
  }
  void operator()(const Concat& op) const {
    std::int64_t begin = 0;
    for (int i = 0; i < static_cast<int>(b.node().operands.size()); ++i) {
      const Shape& shape = b.ShapeOf(b.operand(i));
      const std::int64_t end =
          begin + (op.axis == SliceAxis::kPositions ? shape.rows : shape.features);
      if (b.Needs(i)) {
        b.Give(i, b.Emit(fmt::format("x{}", i), Slice{op.axis, begin, end}, {b.dy()}));
      }
      begin = end;
    }
  }

  void operator()(const Add&) const {
    for (int i = 0; i < 2; ++i) {
      if (b.Needs(i)) b.Give(i, b.dy());
    }
  }
  void operator()(const Multiply&) const {
    GiveIfNeeded(0, "a", Multiply{}, {b.dy(), b.operand(1)});
    GiveIfNeeded(1, "b", Multiply{}, {b.dy(), b.operand(0)});
  }
  void operator()(const Scale& op) const { GiveIfNeeded(0, "x", op, {b.dy()}); }
  void operator()(const ScaleColumns& op) const {
    GiveIfNeeded(0, "x", op, {b.dy(), b.operand(1)});
    GiveIfNeeded(1, "scale", ColumnDots{}, {x(), b.dy()});
  }
  void operator()(const Activation& op) const {
    const bool operand = ReadsFor(op.kind) == GradientReads::kOperand;
    GiveIfNeeded(0, "x", ActivationGradient{op}, {operand ? x() : b.result(0), b.dy()});
  }
  void operator()(const SwiGlu&) const {
    if (!b.NeedsAny(0, 1)) return;
    const std::vector<ValueId> gradients =
        b.EmitAll("gate", SwiGluGradient{}, {b.operand(0), b.operand(1), b.dy()});
    for (int i = 0; i < 2; ++i) {
      if (b.Needs(i)) b.Give(i, gradients[static_cast<std::size_t>(i)]);
    }
  }
  void operator()(const Dropout& op) const { GiveIfNeeded(0, "x", op, {b.dy()}); }

  void operator()(const CrossEntropy& op) const {
    if (b.dy() != kNoValue) NoGradient("a loss that the graph's loss does not name");
    GiveIfNeeded(0, "logits", CrossEntropyGradient{op}, {x(), b.operand(1)});
  }
  void operator()(const SquaredError&) const {
    if (b.dy() != kNoValue) NoGradient("a loss that the graph's loss does not name");
    if (b.Needs(1)) NoGradient("targets that are trained");
    GiveIfNeeded(0, "x", SquaredErrorGradient{}, {x(), b.operand(1)});
  }

  template <class Backward>
  void operator()(const Backward&) const {
    NoGradient("a gradient");
  }

  [[noreturn]] void NoGradient(const char* what) const {
    throw UsageError(fmt::format("node '{}' ({}): there is no gradient of {}", b.node().name,
                                 RowOf(b.node().op).name, what));
  }
};

}  // namespace

void ApplyGradientRule(GradientBuilder* builder) {
  const Operator op = builder->node().op;
  std::visit(Rule{*builder}, op);
}

}  // namespace acan::model
