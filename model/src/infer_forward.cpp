// Shapes of forward operators' results.
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "acan/core/error.h"
#include "acan/core/rotary_angles.h"
#include "infer.h"

namespace acan::model {

Extent Window::output() const {
  return {(input.height + 2 * padding.height - kernel.height) / stride.height + 1,
          (input.width + 2 * padding.width - kernel.width) / stride.width + 1};
}

GradientReads ReadsFor(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kGelu:
    case ActivationKind::kGeluTanh:
    case ActivationKind::kSilu:
      return GradientReads::kOperand;
    case ActivationKind::kRelu:
    case ActivationKind::kClippedRelu:
    case ActivationKind::kTanh:
    case ActivationKind::kSigmoid:
      break;
  }
  return GradientReads::kResult;
}

namespace {

using Shapes = std::vector<Shape>;

// Labels are words of 32 bits in batches.
constexpr std::int64_t kLeastLabel = std::numeric_limits<std::int32_t>::min();

std::string Pixels(const Extent& extent) {
  return fmt::format("as the image has {}x{} pixels", extent.height, extent.width);
}

void CheckEpsilon(const Operands& in, float epsilon) {
  in.ExpectAttribute(std::isfinite(epsilon) && epsilon >= 0.0f, "epsilon",
                     fmt::format("{}", epsilon), "finite and not negative");
}

// One overload for each forward operator.
struct Forward {
  const Operands& in;

  Shape Same() const { return in[0]; }

  Shapes operator()(const Linear&) const {
    const std::int64_t outputs = in.rows(1);
    in.ExpectFeatures(1, in.features(0),
                      fmt::format("as operand 'x' has {} features", in.features(0)));
    in.ExpectVector(2, outputs, fmt::format("as the weight has {} outputs", outputs));
    return {PerSample(in.rows(0), outputs)};
  }

  Shapes operator()(const Embedding& op) const {
    in.ExpectAttribute(op.padding_id >= -1 && op.padding_id < in.rows(1), "padding_id",
                       fmt::format("{}", op.padding_id),
                       fmt::format("-1 or below the table's {} rows", in.rows(1)));
    in.ExpectBound(0, 1, in.rows(1), "rows");
    return {PerSample(in.rows(0), in.features(1))};
  }

  Shapes operator()(const LearnedPositions& op) const {
    in.ExpectAttribute(op.first >= 0 && op.first < in.rows(0), "first", fmt::format("{}", op.first),
                       fmt::format("a row of the table's {}", in.rows(0)));
    in.ExpectAttribute(op.rows >= 1, "rows", fmt::format("{}", op.rows), "at least 1");
    if (op.rows > in.rows(0) - op.first) {
      in.Fail(0, fmt::format("{} rows from row {} on, one for each position", op.rows, op.first));
    }
    return {PerSample(op.rows, in.features(0))};
  }

  Shapes operator()(const Rotary& op) const {
    in.ExpectAttribute(
        op.head_size >= 2 && op.head_size % 2 == 0 && in.features(0) % op.head_size == 0,
        "head_size", fmt::format("{}", op.head_size),
        fmt::format("even and a divisor of the {} features of 'x'", in.features(0)));
    in.ExpectAttribute(std::isfinite(op.base) && op.base > 0.0f, "base", fmt::format("{}", op.base),
                       "finite and above 0");
    const std::int64_t most = MostRotaryPositions(op.head_size, static_cast<double>(op.base));
    if (in.rows(0) > most) {
      in.Fail(0, fmt::format("at most {} rows, the positions that have angles with the base {} and "
                             "heads of {} features",
                             most, op.base, op.head_size));
    }
    return {Same()};
  }

  Shapes operator()(const Attention& op) const {
    CheckHeads(in, op);
    if (in.size() > 3 && in.Has(3)) in.ExpectBound(3, 1, in.rows(1), "rows");
    return {Same(), PerSample(in.rows(0), 2 * op.heads)};
  }

  Shapes operator()(const LayerNorm& op) const {
    CheckEpsilon(in, op.epsilon);
    const std::string why = fmt::format("as operand 'x' has {}", in.features(0));
    in.ExpectVector(1, in.features(0), why);
    in.ExpectVector(2, in.features(0), why);
    return {Same()};
  }

  Shapes operator()(const RmsNorm& op) const {
    CheckEpsilon(in, op.epsilon);
    in.ExpectVector(1, in.features(0), fmt::format("as operand 'x' has {}", in.features(0)));
    return {Same()};
  }

  void ExpectChannels(int first, int last) const {
    for (int i = first; i <= last; ++i) {
      in.ExpectVector(i, in.features(0), fmt::format("as operand 'x' has {}", in.features(0)));
    }
  }

  Shapes operator()(const BatchNorm& op) const {
    CheckEpsilon(in, op.epsilon);
    ExpectChannels(1, 2);
    return {Same(), Shared(1, in.features(0)), Shared(1, in.features(0))};
  }

  Shapes operator()(const BatchNormInference& op) const {
    CheckEpsilon(in, op.epsilon);
    ExpectChannels(1, 4);
    return {Same()};
  }

  Shapes operator()(const RunningAverage& op) const {
    in.ExpectAttribute(op.momentum >= 0.0f && op.momentum <= 1.0f, "momentum",
                       fmt::format("{}", op.momentum), "from 0 to 1");
    in.ExpectAttribute(op.positions >= 1 && op.positions <= kMaxRows, "positions",
                       fmt::format("{}", op.positions), fmt::format("from 1 to {}", kMaxRows));
    in.ExpectSame(1, 0);
    return {Same()};
  }

  Shapes operator()(const GroupNorm& op) const {
    CheckEpsilon(in, op.epsilon);
    in.ExpectAttribute(op.groups >= 1 && in.features(0) % op.groups == 0, "groups",
                       fmt::format("{}", op.groups),
                       fmt::format("a divisor of the {} channels of 'x'", in.features(0)));
    ExpectChannels(1, 2);
    return {Same()};
  }

  Shapes operator()(const Convolution& op) const {
    const std::int64_t inputs = in.features(0);
    const std::int64_t outputs = in.rows(1);
    CheckGroups(in, op, inputs, outputs);
    in.ExpectRows(0, op.window.input.area(), Pixels(op.window.input));
    const Extent& kernel = op.window.kernel;
    in.ExpectFeatures(1, kernel.area() * (inputs / op.groups),
                      fmt::format("a kernel of {}x{} and {} input channels in a group",
                                  kernel.height, kernel.width, inputs / op.groups));
    in.ExpectVector(2, outputs, fmt::format("as the weight has {} outputs", outputs));
    return {PerSample(op.window.output().area(), outputs)};
  }

  Shapes operator()(const Pooling& op) const {
    const Window& w = op.window;
    CheckWindow(in, w);
    in.ExpectAttribute(
        2 * w.padding.height <= w.kernel.height && 2 * w.padding.width <= w.kernel.width, "padding",
        fmt::format("{}x{}", w.padding.height, w.padding.width), "at most half of the kernel");
    in.ExpectRows(0, w.input.area(), Pixels(w.input));
    return {PerSample(w.output().area(), in.features(0))};
  }

  Shapes operator()(const GlobalPooling&) const {
    if (in.size() > 1 && in.Has(1)) in.ExpectBound(1, 0, in.rows(0), "rows");
    return {PerSample(1, in.features(0))};
  }

  Shapes operator()(const Patches& op) const {
    CheckPatches(in, op);
    in.ExpectRows(0, op.input.area(), Pixels(op.input));
    return {PerSample(op.input.area() / op.patch.area(), in.features(0) * op.patch.area())};
  }

  Shapes operator()(const Reshape& op) const {
    const std::int64_t elements = in.rows(0) * in.features(0);
    in.ExpectAttribute(op.positions >= 1 && elements % op.positions == 0, "positions",
                       fmt::format("{}", op.positions),
                       fmt::format("a divisor of the {} elements of a sample", elements));
    return {PerSample(op.positions, elements / op.positions)};
  }

  Shapes operator()(const Slice& op) const {
    const bool positions = op.axis == SliceAxis::kPositions;
    const std::int64_t size = positions ? in.rows(0) : in.features(0);
    in.ExpectAttribute(op.begin >= 0 && op.begin < op.end && op.end <= size, "[begin, end)",
                       fmt::format("[{}, {})", op.begin, op.end),
                       fmt::format("a range that is not empty inside [0, {})", size));
    const std::int64_t part = op.end - op.begin;
    return {positions ? PerSample(part, in.features(0)) : PerSample(in.rows(0), part)};
  }

  Shapes operator()(const Concat& op) const {
    const bool positions = op.axis == SliceAxis::kPositions;
    std::int64_t size = 0;
    for (int i = 0; i < in.size(); ++i) {
      if (positions) {
        in.ExpectFeatures(i, in.features(0), "those of the first operand");
      } else {
        in.ExpectRows(i, in.rows(0), "those of the first operand");
      }
      size += positions ? in.rows(i) : in.features(i);
    }
    return {positions ? PerSample(size, in.features(0)) : PerSample(in.rows(0), size)};
  }

  Shapes operator()(const Add&) const {
    in.ExpectSame(1, 0);
    return {Same()};
  }
  Shapes operator()(const Multiply&) const {
    in.ExpectSame(1, 0);
    return {Same()};
  }
  Shapes operator()(const Scale& op) const {
    in.ExpectAttribute(std::isfinite(op.factor), "factor", fmt::format("{}", op.factor), "finite");
    return {Same()};
  }
  Shapes operator()(const ScaleColumns&) const {
    ExpectChannels(1, 1);
    return {Same()};
  }
  Shapes operator()(const Activation& op) const {
    in.ExpectAttribute(
        op.kind != ActivationKind::kClippedRelu || (std::isfinite(op.bound) && op.bound > 0.0f),
        "bound", fmt::format("{}", op.bound), "finite and above 0");
    return {Same()};
  }
  Shapes operator()(const SwiGlu&) const {
    in.ExpectSame(1, 0);
    return {Same()};
  }
  Shapes operator()(const Dropout& op) const {
    CheckDropout(in, "rate", op.rate, op.stream);
    return {Same()};
  }

  Shapes operator()(const CrossEntropy& op) const {
    in.ExpectAttribute(op.label_smoothing >= 0.0f && op.label_smoothing < 1.0f, "label_smoothing",
                       fmt::format("{}", op.label_smoothing), "at least 0 and below 1");
    in.ExpectAttribute(
        op.ignored_label >= kLeastLabel && op.ignored_label < 0, "ignored_label",
        fmt::format("{}", op.ignored_label),
        fmt::format("from {} to -1, a label of 32 bits that is no class", kLeastLabel));
    in.ExpectAttribute(op.order == ExponentialOrder::kLanes || op.label_smoothing == 0.0f,
                       "label_smoothing", fmt::format("{}", op.label_smoothing),
                       "0 where the order is that of leaves");
    in.ExpectAttribute(
        op.order == ExponentialOrder::kLanes || op.ignored_label == CrossEntropy{}.ignored_label,
        "ignored_label", fmt::format("{}", op.ignored_label),
        "left out where the order is that of leaves, in which every label is a class");
    in.ExpectRows(1, in.rows(0), "a label for each row of logits");
    in.ExpectBound(1, 0, in.features(0), "features");
    return {PerSample(in.rows(0), 1), PerSample(in.rows(0), 1)};
  }
  Shapes operator()(const SquaredError&) const {
    in.ExpectSame(1, 0);
    return {PerSample(in.rows(0), 1)};
  }

  template <class Backward>
  Shapes operator()(const Backward&) const {
    return {};
  }
};

}  // namespace

bool IsBackward(const Operator& op) {
  static const std::size_t kFirst = Operator(LinearInputGradient{}).index();
  return op.index() >= kFirst;
}

std::vector<Shape> InferForward(const Operator& op, const Operands& in) {
  return std::visit(Forward{in}, op);
}

}  // namespace acan::model
