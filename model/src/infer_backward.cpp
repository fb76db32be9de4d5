// Shapes of backward operators' results.
#include <fmt/format.h>

#include "infer.h"

namespace acan::model {
namespace {

using Shapes = std::vector<Shape>;

// One overload for each backward operator.
struct Backward {
  const Operands& in;

  Shape Vector(int like) const { return Shared(1, in.features(like)); }

  Shapes operator()(const LinearInputGradient&) const {
    in.ExpectFeatures(0, in.rows(1), fmt::format("as the weight has {} outputs", in.rows(1)));
    return {PerSample(in.rows(0), in.features(1))};
  }
  Shapes operator()(const LinearWeightGradient&) const {
    in.ExpectRows(1, in.rows(0), "those of operand 'dy'");
    return {Shared(in.features(0), in.features(1))};
  }
  Shapes operator()(const ColumnSums&) const { return {Vector(0)}; }
  Shapes operator()(const ColumnDots&) const {
    in.ExpectSame(1, 0);
    return {Vector(0)};
  }

  Shapes operator()(const EmbeddingGradient& op) const {
    in.ExpectRows(1, in.rows(0), "a row for each id");
    in.ExpectAttribute(op.rows >= 1 && op.forward.padding_id < op.rows, "rows",
                       fmt::format("{}", op.rows), "at least 1 and above padding_id");
    return {Shared(op.rows, in.features(1))};
  }
  Shapes operator()(const LearnedPositionsGradient& op) const {
    in.ExpectAttribute(op.first >= 0 && op.first <= op.rows - in.rows(0), "rows",
                       fmt::format("{}", op.rows),
                       fmt::format("at least first + the {} rows of 'dy'", in.rows(0)));
    return {Shared(op.rows, in.features(0))};
  }

  Shapes operator()(const AttentionGradient& op) const {
    CheckHeads(in, op.forward);
    in.ExpectRows(4, in.rows(0), "those of operand 'q'");
    in.ExpectFeatures(4, 2 * op.forward.heads, "two for each head");
    in.ExpectSame(5, 0);
    in.ExpectSame(6, 0);
    return {in[0], in[1], in[2]};
  }

  Shapes operator()(const LayerNormGradient&) const {
    in.ExpectVector(1, in.features(0), "those of operand 'x'");
    in.ExpectSame(2, 0);
    return {in[0]};
  }
  Shapes operator()(const RmsNormGradient&) const {
    in.ExpectVector(1, in.features(0), "those of operand 'x'");
    in.ExpectSame(2, 0);
    return {in[0]};
  }
  Shapes operator()(const LayerNormScaleGradient&) const { return ScaleGradient(); }
  Shapes operator()(const RmsNormScaleGradient&) const { return ScaleGradient(); }
  Shapes ScaleGradient() const {
    in.ExpectSame(1, 0);
    return {Vector(0)};
  }

  void ExpectChannels(int first, int last, std::int64_t channels) const {
    for (int i = first; i <= last; ++i) {
      in.ExpectVector(i, channels, fmt::format("as there are {} channels", channels));
    }
  }
  Shapes operator()(const BatchNormSums&) const {
    ExpectChannels(1, 2, in.features(0));
    in.ExpectSame(3, 0);
    return {Vector(0), Vector(0)};
  }
  Shapes operator()(const BatchNormGradient&) const {
    ExpectChannels(1, 5, in.features(0));
    in.ExpectSame(6, 0);
    return {in[0]};
  }
  Shapes operator()(const BatchNormInferenceGradient&) const {
    ExpectChannels(0, 1, in.features(2));
    return {in[2]};
  }

  void CheckGroupNorm(const GroupNorm& op) const {
    in.ExpectAttribute(op.groups >= 1 && in.features(0) % op.groups == 0, "groups",
                       fmt::format("{}", op.groups),
                       fmt::format("a divisor of the {} channels of 'x'", in.features(0)));
  }
  Shapes operator()(const GroupNormGradient& op) const {
    CheckGroupNorm(op.forward);
    ExpectChannels(1, 1, in.features(0));
    in.ExpectSame(2, 0);
    return {in[0]};
  }
  Shapes operator()(const GroupNormScaleGradient& op) const {
    CheckGroupNorm(op.forward);
    return ScaleGradient();
  }

  Shapes operator()(const ConvolutionInputGradient& op) const {
    const Window& window = op.forward.window;
    CheckWindow(in, window);
    const std::int64_t taps = window.kernel.area();
    const std::int64_t inputs = in.features(1) / taps * op.forward.groups;
    CheckGroups(in, op.forward, inputs, in.rows(1));
    in.ExpectFeatures(1, taps * (inputs / op.forward.groups), "whole kernels");
    in.ExpectRows(0, window.output().area(), "the pixels of the result");
    in.ExpectFeatures(0, in.rows(1), fmt::format("as the weight has {} outputs", in.rows(1)));
    return {PerSample(window.input.area(), inputs)};
  }
  Shapes operator()(const ConvolutionWeightGradient& op) const {
    const Window& window = op.forward.window;
    CheckGroups(in, op.forward, in.features(1), in.features(0));
    in.ExpectRows(0, window.output().area(), "the pixels of the result");
    in.ExpectRows(1, window.input.area(), "the pixels of the image");
    return {Shared(in.features(0), window.kernel.area() * (in.features(1) / op.forward.groups))};
  }

  // The gradient of maximum pooling finds the maximum in x.
  void CheckReads(PoolingKind kind) const {
    in.ExpectAttribute(in.Has(0) == (kind == PoolingKind::kMaximum), "operand 'x'",
                       in.Has(0) ? "there" : "missing", "there exactly for maximum pooling");
  }
  Shapes operator()(const PoolingGradient& op) const {
    const Window& window = op.forward.window;
    CheckWindow(in, window);
    CheckReads(op.forward.kind);
    in.ExpectRows(0, window.input.area(), "the pixels of the image");
    in.ExpectFeatures(0, in.features(1), "those of operand 'dy'");
    in.ExpectRows(1, window.output().area(), "the pixels of the result");
    return {PerSample(window.input.area(), in.features(1))};
  }
  Shapes operator()(const GlobalPoolingGradient& op) const {
    CheckReads(op.forward.kind);
    in.ExpectAttribute(op.positions >= 1, "positions", fmt::format("{}", op.positions),
                       "at least 1");
    in.ExpectRows(0, op.positions, "the positions of a sample");
    in.ExpectFeatures(0, in.features(2), "those of operand 'dy'");
    in.ExpectRows(2, 1, "one for each sample");
    return {PerSample(op.positions, in.features(2))};
  }

  Shapes operator()(const PatchesGradient& op) const {
    CheckPatches(in, op.forward);
    const std::int64_t area = op.forward.patch.area();
    in.ExpectRows(0, op.forward.input.area() / area, "one for each patch");
    if (in.features(0) % area != 0) {
      in.Fail(0, fmt::format("a multiple of {} features, the pixels of a patch", area));
    }
    return {PerSample(op.forward.input.area(), in.features(0) / area)};
  }

  Shapes operator()(const SliceGradient& op) const {
    const bool positions = op.axis == SliceAxis::kPositions;
    const std::int64_t part = positions ? in.rows(0) : in.features(0);
    in.ExpectAttribute(op.begin >= 0 && op.begin <= op.size - part, "size",
                       fmt::format("{}", op.size),
                       fmt::format("at least begin + the {} of 'dy'", part));
    return {positions ? PerSample(op.size, in.features(0)) : PerSample(in.rows(0), op.size)};
  }

  Shapes operator()(const ActivationGradient&) const {
    in.ExpectSame(1, 0);
    return {in[0]};
  }
  Shapes operator()(const SwiGluGradient&) const {
    in.ExpectSame(1, 0);
    in.ExpectSame(2, 0);
    return {in[0], in[0]};
  }
  Shapes operator()(const CrossEntropyGradient&) const {
    in.ExpectRows(1, in.rows(0), "a label for each row of logits");
    return {in[0]};
  }
  Shapes operator()(const SquaredErrorGradient&) const {
    in.ExpectSame(1, 0);
    return {in[0]};
  }

  template <class Forward>
  Shapes operator()(const Forward&) const {
    return {};
  }
};

}  // namespace

std::vector<Shape> InferBackward(const Operator& op, const Operands& in) {
  return std::visit(Backward{in}, op);
}

}  // namespace acan::model
