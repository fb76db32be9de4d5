#include "kernel_probes.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "acan/core/operators/operators.h"

namespace acan::bench {
namespace {

constexpr std::int64_t kBlock = 64;

// A kernel and the choices on which its speed may depend.
struct KernelCase {
  Kernel kernel;
  bool of_weights;  // the matrices are weights, or a batch's activations
  bool in_place;    // results overwrite operands, as updates of weights do
  bool optional;    // with the optional results
  const char* variant;
  KernelScalars scalars;
};

constexpr auto kRelu = static_cast<std::int64_t>(Activation::kRelu);
constexpr auto kGelu = static_cast<std::int64_t>(Activation::kGelu);
constexpr auto kGeluTanh = static_cast<std::int64_t>(Activation::kGeluTanh);
constexpr auto kSilu = static_cast<std::int64_t>(Activation::kSilu);
constexpr std::int64_t kOneGroup = 1 << 30;  // all rows of a batch
constexpr std::int64_t kClasses = 1 << 20;

// Images of 8 x 8 under windows of 3 x 3, padded by 1.
constexpr KernelScalars kWindow{.f = {}, .i = {8, 8, 3, 3, 1, 1, 1, 1}};
constexpr KernelScalars kDepthwise{.f = {}, .i = {8, 8, 3, 3, 1, 1, 1, 1, kBlock, kOneGroup}};

// Activations: the cheapest and the most expensive. kFill and kAdd only move bytes, so the faster
// of them is the limit of the others. Both run at both shapes, because small matrices stay in
// caches.
constexpr KernelCase kKernelCases[] = {
    {Kernel::kFill, true, false, false, "", {.f = {0.5f}, .i = {}}},
    {Kernel::kAdd, true, false, false, "", {}},
    {Kernel::kUniform, true, false, false, "", {.f = {0.01f, 1.0f}, .i = {1, 0, 0, 0, 4096}}},
    {Kernel::kNormal, true, false, false, "", {.f = {0.0f, 1.0f}, .i = {1, 0, 0, 0, 4096}}},
    {Kernel::kTruncatedNormal,
     true,
     false,
     false,
     "",
     {.f = {0.0f, 1.0f, -2.0f, 2.0f}, .i = {1, 0, 0, 0, 4096}}},
    {Kernel::kSgd, true, true, false, "", {.f = {1e-6f, 1e-4f}, .i = {}}},
    {Kernel::kMomentum, true, true, false, "", {.f = {1e-6f, 0.9f, 1e-4f}, .i = {}}},
    {Kernel::kAdamW,
     true,
     true,
     false,
     "",
     {.f = {1e-6f, 0.1f, 1e-3f, 1e-8f, 0.01f, 0.1f, 0.0316f}, .i = {}}},
    {Kernel::kFill, false, false, false, "", {.f = {0.5f}, .i = {}}},
    {Kernel::kAdd, false, false, false, "", {}},
    {Kernel::kBiasActivation, false, false, false, "relu", {.f = {}, .i = {kRelu}}},
    {Kernel::kBiasActivation, false, false, false, "gelu", {.f = {}, .i = {kGelu}}},
    {Kernel::kActivationGradient, false, false, false, "relu", {.f = {}, .i = {kRelu}}},
    {Kernel::kActivationGradient, false, false, false, "gelu", {.f = {}, .i = {kGelu}}},
    {Kernel::kColumnSums, false, false, false, "", {.f = {}, .i = {kBlock}}},
    {Kernel::kSoftmaxCrossEntropy, false, false, true, "", {.f = {0.01f}, .i = {kBlock}}},
    {Kernel::kSquaredError, false, false, true, "", {.f = {0.01f}, .i = {kBlock}}},
    {Kernel::kActivation, false, false, false, "silu", {.f = {}, .i = {kSilu}}},
    {Kernel::kActivation, false, false, false, "gelu_tanh", {.f = {}, .i = {kGeluTanh}}},
    {Kernel::kMultiply, false, false, false, "", {}},
    {Kernel::kScale, false, false, false, "", {.f = {0.5f}, .i = {}}},
    {Kernel::kScaleBy, true, false, false, "", {}},
    {Kernel::kScaleColumns, false, false, false, "", {}},
    {Kernel::kSwiGlu, false, false, false, "", {}},
    {Kernel::kSwiGluGradient, false, false, false, "", {}},
    {Kernel::kColumnDots, false, false, true, "", {.f = {}, .i = {kBlock, kOneGroup}}},
    {Kernel::kNorm, false, false, true, "layer norm", {.f = {1e-5f}, .i = {0}}},
    {Kernel::kNorm, false, false, true, "RMS norm", {.f = {1e-5f}, .i = {1}}},
    {Kernel::kNormGradient, false, false, true, "layer norm", {.f = {}, .i = {0}}},
    {Kernel::kNormScaleGradient, false, false, true, "", {.f = {}, .i = {kBlock, kOneGroup}}},
    {Kernel::kRotary, false, false, false, "", {}},
    {Kernel::kEmbedding, false, false, false, "", {}},
    {Kernel::kEmbeddingGradient, false, false, false, "", {.f = {}, .i = {kBlock, kOneGroup}}},
    {Kernel::kPositions, false, false, true, "", {}},
    {Kernel::kPositionsGradient, false, false, false, "", {.f = {}, .i = {1}}},
    {Kernel::kDropout,
     false,
     false,
     false,
     "",
     {.f = {0.1f, 1.11111116f}, .i = {0, 1, 1, 0, 0, 4096, 1}}},
    {Kernel::kClassMaxima, false, false, false, "", {}},
    {Kernel::kCombineMaxima, false, false, false, "", {}},
    {Kernel::kClassSums, false, false, false, "", {}},
    {Kernel::kCrossEntropyLoss, false, false, false, "", {.f = {}, .i = {kClasses, -1}}},
    {Kernel::kCrossEntropyGradient,
     false,
     false,
     false,
     "",
     {.f = {0.01f}, .i = {0, kClasses, -1}}},
    {Kernel::kRowSquares, true, false, false, "", {}},
    {Kernel::kClipFactor, false, false, false, "", {.f = {1.0f, 1e-6f}, .i = {}}},
    {Kernel::kAttention, false, false, false, "causal", {.f = {0.125f, 0.0f, 1.0f}, .i = {1}}},
    {Kernel::kAttentionJoin, false, false, false, "", {}},
    {Kernel::kAttentionFinish, false, false, false, "", {}},
    {Kernel::kAttentionGradient,
     false,
     false,
     false,
     "causal",
     {.f = {0.125f, 0.0f, 1.0f}, .i = {1}}},
    {Kernel::kDivide, false, false, false, "", {.f = {3.0f}, .i = {}}},
    {Kernel::kInverseRoot, false, false, false, "", {.f = {1e-5f}, .i = {}}},
    {Kernel::kBlend, true, false, false, "", {.f = {0.9f, 0.1f}, .i = {}}},
    {Kernel::kColumnSquares, false, false, false, "", {.f = {}, .i = {kBlock, kOneGroup}}},
    {Kernel::kColumnNorm, false, false, false, "", {}},
    {Kernel::kColumnNormSums, false, false, true, "", {.f = {}, .i = {kBlock, kOneGroup}}},
    {Kernel::kColumnNormGradient, false, false, false, "", {}},
    {Kernel::kUnfold, false, false, false, "3 x 3", kWindow},
    {Kernel::kFold, false, false, false, "3 x 3", kWindow},
    {Kernel::kMaxPooling, false, false, false, "3 x 3", kWindow},
    {Kernel::kMaxPoolingGradient, false, false, false, "3 x 3", kWindow},
    {Kernel::kAveragePooling, false, false, false, "3 x 3", kWindow},
    {Kernel::kAveragePoolingGradient, false, false, false, "3 x 3", kWindow},
    {Kernel::kPlacePositions, false, false, false, "", {}},
    {Kernel::kCopyPositions, false, false, false, "", {}},
    {Kernel::kGroupNorm, false, false, true, "", {.f = {1e-5f}, .i = {}}},
    {Kernel::kGroupNormGradient, false, false, true, "", {}},
    {Kernel::kGroupNormScaleGradient, false, false, true, "", {.f = {}, .i = {kBlock, kOneGroup}}},
    {Kernel::kGlobalMaxPooling, false, false, false, "", {}},
    {Kernel::kGlobalMaxPoolingGradient, false, false, false, "", {}},
    {Kernel::kGlobalAveragePooling, false, false, false, "", {.f = {}, .i = {kBlock}}},
    {Kernel::kGlobalAveragePoolingGradient, false, false, false, "", {}},
    {Kernel::kTranspose, true, false, false, "", {}},
    {Kernel::kDepthwise, false, false, false, "3 x 3", kDepthwise},
    {Kernel::kDepthwiseInputGradient, false, false, false, "3 x 3", kDepthwise},
    {Kernel::kDepthwiseWeightGradient, false, false, false, "3 x 3", kDepthwise},
    {Kernel::kBiasResidual, false, false, false, "", {}},
};

// Attention of one sequence over a batch's activations. Its heads are as wide as those of most
// models.
constexpr std::int64_t kHeadWidth = 64;
bool IsAttention(Kernel kernel) {
  return kernel == Kernel::kAttention || kernel == Kernel::kAttentionJoin ||
         kernel == Kernel::kAttentionFinish || kernel == Kernel::kAttentionGradient;
}
void SetHeads(Kernel kernel, MatrixShape shape, KernelScalars& scalars) {
  const std::int64_t heads = shape.cols / kHeadWidth;
  if (kernel == Kernel::kAttentionJoin || kernel == Kernel::kAttentionFinish) {
    scalars.i[0] = heads;
  } else {
    scalars.i[1] = scalars.i[2] = shape.rows;
    scalars.i[3] = heads;
    scalars.i[4] = scalars.i[13] = 1;
  }
}

constexpr bool EveryKernelHasACase() {
  for (std::size_t kernel = 0; kernel < kKernels; ++kernel) {
    bool found = false;
    for (const KernelCase& each : kKernelCases) {
      found |= static_cast<std::size_t>(each.kernel) == kernel;
    }
    if (!found) return false;
  }
  return true;
}
static_assert(EveryKernelHasACase(), "a kernel of the table has no row in kKernelCases");

// The dimensions of a kernel whose matrices have `shape`: four samples, heads and groups of 64
// columns, a table of as many words as there are rows, and images of 8 x 8 with so many channels
// that the unfolded matrix has `shape`. Dimensions that only scalars define are in no operand.
Dimensions DimensionsOf(const OperatorRow& row, MatrixShape shape) {
  const auto named = [&](std::string_view part) {
    return row.name.find(part) != std::string_view::npos;
  };
  const bool depthwise = named("Depthwise"), groups = named("GroupNorm");
  const bool image =
      named("Unfold") || row.name == "kFold" || depthwise || (named("Pooling") && !named("Global"));
  const std::int64_t samples = image ? std::max<std::int64_t>(1, shape.rows / 64) : 4;
  const std::int64_t positions = std::max<std::int64_t>(1, shape.rows / 4);
  const std::int64_t heads = std::max<std::int64_t>(1, shape.cols / 64);
  return DimensionsNamed(
      row, std::array<NamedDimension, 27>{
               {{"rows", shape.rows},
                {"cols", shape.cols},
                {"samples", samples},
                {"positions", positions},
                {"to", positions},
                {"from", positions},
                {"heads", heads},
                {"groups", heads},
                {"half", 32},
                {"words", shape.rows},
                {"group", 1},
                {"first", 1},
                {"row", 1},
                {"col", 1},
                {"width", groups ? shape.cols / heads : 8},
                {"height", 8},
                {"window_height", 3},
                {"window_width", 3},
                {"stride_y", 1},
                {"stride_x", 1},
                {"padding_y", 1},
                {"padding_x", 1},
                {"out_height", 8},
                {"out_width", 8},
                {"channels", depthwise ? shape.cols : std::max<std::int64_t>(1, shape.cols / 9)},
                {"classes", 1},
                {"all", 1}}});
}

// Sizes that a case leaves at 0 are taken from the dimensions.
void SetSizes(const OperatorRow& row, const Dimensions& dimensions, KernelScalars& scalars) {
  for (const OperatorRow::FromScalar& from : row.from_scalars) {
    const std::string_view name = row.dimensions[from.dimension];
    for (const Scalar& scalar : row.scalars) {
      if (scalar.name != name || scalar.rule != ScalarRule::kSize) continue;
      std::int64_t& value = scalars.i[from.integer];
      if (value == 0) value = dimensions[from.dimension];
    }
  }
}

// For attention: one sequence, as long as there are rows, and as many heads as fit.
Dimensions AttentionDimensions(const OperatorRow& row, MatrixShape shape) {
  const std::int64_t heads = shape.cols / kHeadWidth;
  return DimensionsNamed(row, std::array<NamedDimension, 11>{{{"rows", shape.rows},
                                                              {"cols", shape.cols},
                                                              {"sequences", 1},
                                                              {"queries", shape.rows},
                                                              {"keys", shape.rows},
                                                              {"first_query", 0},
                                                              {"first_key", 0},
                                                              {"key_value_heads", heads},
                                                              {"shared", 1},
                                                              {"heads", heads},
                                                              {"width", kHeadWidth}}});
}

// The operands of a case, and in `bytes` the minimum that it reads and writes. Results that
// overwrite no operand go to the last wide matrices.
KernelArgs Operands(const WorkArea& area, const KernelCase& of, MatrixShape shape, double& bytes) {
  const OperatorRow& row = RowOf(of.kernel);
  const bool attention = IsAttention(of.kernel);
  if (attention) shape.cols = shape.cols / kHeadWidth * kHeadWidth;
  const Dimensions dimensions =
      attention ? AttentionDimensions(row, shape) : DimensionsOf(row, shape);
  std::size_t read = 0, written = of.in_place ? 0 : WorkArea::kWide - 2, column_written = 1;
  std::size_t row_written = 1, attended = 0;
  std::array<OperandShape, kMaxKernelMatrices> shapes{};
  KernelArgs args;
  args.scalars = of.scalars;
  if (attention) {
    SetHeads(of.kernel, shape, args.scalars);
  } else {
    SetSizes(row, dimensions, args.scalars);
  }
  for (std::size_t i = 0; i < row.operands.size(); ++i) {
    const Operand& operand = row.operands[i];
    if (operand.optional && !of.optional) continue;
    shapes[i] = ShapeOf(operand, dimensions);
    if (attention) {
      // Outputs overlap nothing else; inputs may be the same matrix.
      args.m[i] = area.Wide(operand.writes() ? ++attended : 0, {shapes[i].rows, shapes[i].cols});
    } else if (shapes[i].cols == 1) {
      args.m[i] = area.Column(operand.writes() ? column_written++ : 0, shapes[i].rows);
    } else if (shapes[i].rows == 1) {
      args.m[i] = area.Row(operand.writes() ? row_written++ : 0, shapes[i].cols);
    } else {
      args.m[i] =
          area.Wide(operand.writes() ? written++ : read++, {shapes[i].rows, shapes[i].cols});
    }
  }
  const std::span<const OperandShape> all(shapes.data(), row.operands.size());
  bytes += static_cast<double>(CostOf(row, all, args.scalars).bytes);
  return args;
}

// `facts` null: the probe is only a limit.
Probe KernelProbe(const std::shared_ptr<WorkArea>& area, const KernelCase& of, MatrixShape shape,
                  nlohmann::json facts) {
  Probe probe;
  probe.facts = std::move(facts);
  probe.limit = of.kernel == Kernel::kFill || of.kernel == Kernel::kAdd;
  const KernelArgs args = Operands(*area, of, shape, probe.work);
  probe.launch = [area, args, kernel = of.kernel] { area->device().Launch(kernel, args); };
  probe.run = [area, launch = probe.launch](int runs) {
    for (int i = 0; i < runs; ++i) launch();
    area->device().Synchronize();
  };
  return probe;
}

}  // namespace

Group KernelGroup(const std::shared_ptr<WorkArea>& area, const std::shared_ptr<WorkArea>& library,
                  bool of_weights, MatrixShape shape) {
  // This is faster than adding into a third matrix, which a cache reads before it is written.
  constexpr KernelCase kAddInPlace{Kernel::kAdd, true, true, false, "", {}};
  Group group{"kernels", {}};
  for (const KernelCase& each : kKernelCases) {
    if (each.of_weights != of_weights) continue;
    group.probes.push_back(KernelProbe(area, each, shape,
                                       {{"kernel", RowOf(each.kernel).name},
                                        {"variant", each.variant},
                                        {"rows", shape.rows},
                                        {"cols", shape.cols}}));
    if (group.probes.back().limit && library) {
      group.probes.push_back(KernelProbe(library, each, shape, nullptr));
    }
  }
  for (const auto& each : {area, library}) {
    if (each) group.probes.push_back(KernelProbe(each, kAddInPlace, shape, nullptr));
  }
  return group;
}

}  // namespace acan::bench
