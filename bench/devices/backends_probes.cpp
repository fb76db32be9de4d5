#include "backends_probes.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "acan/core/operators/operators.h"

namespace acan::bench {
namespace {

constexpr std::int64_t kBlock = 64;
constexpr std::size_t kRows = 2;
constexpr std::size_t kColumns = 4;

// A kernel with what its speed may depend on.
struct KernelCase {
  Kernel kernel;
  bool of_weights;  // the shape: of weights, or of a batch's activations
  bool in_place;    // results replace operands, as updates of weights do
  bool optional;    // with the results that may be absent
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

// Activations: the cheapest and the dearest. kFill and kAdd do nothing but move bytes, so the
// faster of them is the limit of the others; they are there at both shapes, since small ones stay
// in caches.
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

// Attention of one sequence over a batch's activations: its heads are as wide as most models'.
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

// Of a kernel whose matrices are as large as `shape`: four samples, heads and groups of 64 columns,
// a table of as many words as there are rows, images of 8 x 8 with so many channels that what is
// unfolded has `shape`. Dimensions that only scalars give are in no operand.
Dimensions DimensionsOf(const OperatorRow& row, MatrixShape shape) {
  const auto named = [&](std::string_view part) { return row.name.find(part) != row.name.npos; };
  const bool depthwise = named("Depthwise"), groups = named("GroupNorm");
  const bool image =
      named("Unfold") || row.name == "kFold" || depthwise || (named("Pooling") && !named("Global"));
  const std::int64_t samples = image ? std::max<std::int64_t>(1, shape.rows / 64) : 4;
  const std::int64_t positions = std::max<std::int64_t>(1, shape.rows / 4);
  const std::int64_t heads = std::max<std::int64_t>(1, shape.cols / 64);
  return DimensionsNamed(
      row, std::array<NamedDimension, 26>{
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
                {"classes", 1}}});
}

// Sizes that a case leaves at 0 are those of the dimensions.
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

// Of attention: one sequence, as long as there are rows, and as many heads as fit.
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

// The operands of a case, and in `bytes` what it must at least read and write. Results that replace
// nothing go to the last wide matrices.
KernelArgs Operands(const WorkArea& area, const KernelCase& of, MatrixShape shape, double& bytes) {
  const OperatorRow& row = RowOf(of.kernel);
  const bool attention = IsAttention(of.kernel);
  if (attention) shape.cols = shape.cols / kHeadWidth * kHeadWidth;
  const Dimensions dimensions =
      attention ? AttentionDimensions(row, shape) : DimensionsOf(row, shape);
  std::size_t read = 0, written = of.in_place ? 0 : WorkArea::kWide - 2, column_written = 1;
  std::size_t attended = 0;
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
      // What is written overlaps nothing else; what is read may be one matrix.
      args.m[i] = area.Wide(operand.writes() ? ++attended : 0, {shapes[i].rows, shapes[i].cols});
    } else if (shapes[i].cols == 1) {
      args.m[i] = area.Column(operand.writes() ? column_written++ : 0, shapes[i].rows);
    } else if (shapes[i].rows == 1) {
      args.m[i] = area.Row(operand.writes() ? 1 : 0, shapes[i].cols);
    } else {
      args.m[i] =
          area.Wide(operand.writes() ? written++ : read++, {shapes[i].rows, shapes[i].cols});
    }
  }
  const std::span<const OperandShape> all(shapes.data(), row.operands.size());
  bytes += static_cast<double>(CostOf(row, all, args.scalars).bytes);
  return args;
}

// `facts` null: only a limit.
Probe KernelProbe(const std::shared_ptr<WorkArea>& area, const KernelCase& of, MatrixShape shape,
                  nlohmann::json facts) {
  Probe probe;
  probe.facts = std::move(facts);
  probe.limit = of.kernel == Kernel::kFill || of.kernel == Kernel::kAdd;
  const KernelArgs args = Operands(*area, of, shape, probe.work);
  probe.run = [area, args, kernel = of.kernel](int runs) {
    for (int i = 0; i < runs; ++i) area->device().Launch(kernel, args);
    area->device().Synchronize();
  };
  return probe;
}

Group KernelGroup(const std::shared_ptr<WorkArea>& area, const std::shared_ptr<WorkArea>& library,
                  bool of_weights, MatrixShape shape) {
  // Faster than one into a third matrix, where a cache reads what it is about to write.
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

struct Product {
  GemmForm form;
  std::int64_t batch;
  LayerShape layer;
};

std::function<void(int)> ProductRun(const std::shared_ptr<WorkArea>& area, const Product& of,
                                    Precision precision) {
  const Matrix x = area->Wide(0, {of.batch, of.layer.inputs});
  const Matrix w = area->Wide(1, {of.layer.outputs, of.layer.inputs});
  const Matrix y = area->Wide(2, {of.batch, of.layer.outputs});
  const bool forward = of.form == GemmForm::kForward;
  const bool gradient = of.form == GemmForm::kGradient;
  const Matrix& a = forward ? x : y;
  const Matrix& b = gradient ? x : w;
  const Matrix& like = forward ? y : gradient ? w : x;
  const Matrix c = area->Wide(3, {like.rows, like.cols});
  return [=](int runs) {
    Device& device = area->device();
    for (int i = 0; i < runs; ++i) device.Gemm(of.form, precision, kBlock, a, b, c);
    device.Synchronize();
  };
}

Group ProductGroup(const std::shared_ptr<WorkArea>& area, const std::shared_ptr<WorkArea>& library,
                   bool own_library, const Product& of) {
  constexpr std::array<const char*, 3> kForms{"forward", "backward", "gradient"};
  const double flops =
      2.0 * static_cast<double>(of.batch) * static_cast<double>(of.layer.inputs * of.layer.outputs);
  const auto facts = [&](const char* precision) -> nlohmann::json {
    return {{"form", kForms[static_cast<std::size_t>(of.form)]},
            {"precision", precision},
            {"batch", of.batch},
            {"inputs", of.layer.inputs},
            {"outputs", of.layer.outputs}};
  };
  const DeviceInfo& info = area->device().info();
  Group group{"products", {}};
  if (info.exact) {
    group.probes.push_back({facts("exact"), flops, false, ProductRun(area, of, Precision::kExact)});
  }
  if (info.fast) {
    group.probes.push_back(
        {facts("fast"), flops, own_library, ProductRun(area, of, Precision::kFast)});
  }
  if (library) {
    group.probes.push_back({nullptr, flops, true, ProductRun(library, of, Precision::kFast)});
  }
  return group;
}

Group TransferGroup(const std::shared_ptr<WorkArea>& area, std::int64_t bytes, bool shares) {
  const auto size = static_cast<std::size_t>(bytes);
  const auto work = static_cast<double>(bytes);
  Device& device = area->device();
  const auto from = std::make_shared<std::vector<char>>(size, '\1');
  const auto to = std::make_shared<std::vector<char>>(size);
  const tuplespace::Payload payload(from, from->data(), size);
  // One word more than is copied: whole buffers are not copied where the memory is the host's.
  const BufferPtr buffer = device.Allocate(size + 4);
  const Matrix part{buffer.get(), 0, 1, bytes / 4, bytes / 4};
  device.CopyIn(payload, part);
  Group group{"transfers", {}};
  group.probes.push_back({nullptr, work, true, [=](int runs) {
                            for (int i = 0; i < runs; ++i) {
                              std::memcpy(to->data(), from->data(), size);
                              asm volatile("" : : "r"(to->data()) : "memory");  // it is read
                            }
                          }});
  group.probes.push_back({{{"direction", "up"}, {"bytes", bytes}}, work, false, [=](int runs) {
                            Device& to_device = area->device();
                            for (int i = 0; i < runs; ++i) {
                              if (shares) {
                                to_device.CopyIn(payload, part);
                              } else {
                                to_device.Upload(payload);
                              }
                            }
                            to_device.Synchronize();
                          }});
  group.probes.push_back({{{"direction", "down"}, {"bytes", bytes}}, work, false, [=](int runs) {
                            for (int i = 0; i < runs; ++i) area->device().Download(buffer, part);
                          }});
  return group;
}

Group OverheadGroup(const std::shared_ptr<WorkArea>& area) {
  constexpr std::int64_t kWords = 64;
  Probe probe;
  probe.facts = {{"task", "allocate, fill 64 values, download"}};
  probe.run = [area](int runs) {
    Device& device = area->device();
    for (int i = 0; i < runs; ++i) {
      const BufferPtr buffer = device.Allocate(4 * kWords);
      KernelArgs args;
      args.m[0] = {buffer.get(), 0, 1, kWords, kWords};
      device.Launch(Kernel::kFill, args);
      device.Download(buffer, args.m[0]);
    }
  };
  return {"overhead", {std::move(probe)}};
}

}  // namespace

WorkArea::WorkArea(Device& device, const ProbeSizes& sizes) : device_(device) {
  std::vector<MatrixShape> shapes = {sizes.weights, sizes.activations};
  for (const LayerShape& layer : sizes.layers) {
    shapes.push_back({layer.outputs, layer.inputs});
    for (const std::int64_t batch : sizes.batches) {
      shapes.push_back({batch, std::max(layer.inputs, layer.outputs)});
    }
  }
  const auto area = [](const MatrixShape& each) { return each.rows * each.cols; };
  MatrixShape widest{0, 0};
  std::int64_t most_cols = 0;
  most_rows_ = 0;
  for (const MatrixShape& each : shapes) {
    if (area(each) > area(widest)) widest = each;
    most_rows_ = std::max(most_rows_, each.rows);
    most_cols = std::max(most_cols, each.cols);
  }
  const auto allocate = [&](std::int64_t words) {
    return device.Allocate(4 * static_cast<std::uint64_t>(words));
  };
  for (std::size_t i = 0; i < kWide; ++i) wide_.push_back(allocate(area(widest)));
  for (std::size_t i = 0; i < kRows; ++i) rows_.push_back(allocate(most_cols));
  columns_ = allocate(most_rows_ * static_cast<std::int64_t>(kColumns));
  KernelArgs args;
  args.scalars = {.f = {0.01f, 1.0f}, .i = {1, 0, 0, 0, widest.cols}};
  const auto fill = [&](Kernel kernel, const Matrix& matrix) {
    args.m[0] = matrix;
    device_.Launch(kernel, args);
    ++args.scalars.i[1];
  };
  for (std::size_t i = 0; i < kWide; ++i) fill(Kernel::kUniform, Wide(i, widest));
  for (std::size_t i = 0; i < kRows; ++i) fill(Kernel::kUniform, Row(i, most_cols));
  args.scalars.f = {};
  for (std::size_t i = 0; i < kColumns; ++i) fill(Kernel::kFill, Column(i, most_rows_));
  device_.Synchronize();
}

Matrix WorkArea::Wide(std::size_t index, MatrixShape shape) const {
  assert(index < kWide);
  return {wide_[index].get(), 0, shape.rows, shape.cols, shape.cols};
}

Matrix WorkArea::Row(std::size_t index, std::int64_t cols) const {
  assert(index < kRows);
  return {rows_[index].get(), 0, 1, cols, cols};
}

Matrix WorkArea::Column(std::size_t index, std::int64_t rows) const {
  assert(index < kColumns);
  return {columns_.get(), static_cast<std::int64_t>(index) * most_rows_, rows, 1, 1};
}

std::vector<Group> MakeGroups(const std::shared_ptr<WorkArea>& area,
                              const std::shared_ptr<WorkArea>& library, bool own_library,
                              const ProbeSizes& sizes) {
  std::vector<Group> groups;
  for (const std::int64_t batch : sizes.batches) {
    for (const LayerShape& layer : sizes.layers) {
      for (const GemmForm form : {GemmForm::kForward, GemmForm::kBackward, GemmForm::kGradient}) {
        groups.push_back(ProductGroup(area, library, own_library, {form, batch, layer}));
      }
    }
  }
  groups.push_back(KernelGroup(area, library, true, sizes.weights));
  groups.push_back(KernelGroup(area, library, false, sizes.activations));
  const bool shares = SharesHostMemory(area->device());
  for (const std::int64_t bytes : sizes.transfer_bytes) {
    groups.push_back(TransferGroup(area, bytes, shares));
  }
  groups.push_back(OverheadGroup(area));
  return groups;
}

bool HasOwnLibrary(WorkArea& area) {
  Device& device = area.device();
  if (!device.info().fast || !device.info().exact) return device.info().fast;
  // Long enough sums that no other order of additions gives the same bits in all of them.
  constexpr std::int64_t kEdge = 256;
  const BufferPtr result = device.Allocate(4 * kEdge * kEdge);
  const Matrix c{result.get(), 0, kEdge, kEdge, kEdge};
  const Matrix part{result.get(), 0, kEdge - 1, kEdge, kEdge};  // copied on every device
  std::array<tuplespace::Payload, 2> bits;
  for (const Precision precision : {Precision::kExact, Precision::kFast}) {
    device.Gemm(GemmForm::kForward, precision, kBlock, area.Wide(0, {kEdge, kEdge}),
                area.Wide(1, {kEdge, kEdge}), c);
    bits[static_cast<std::size_t>(precision)] = device.Download(result, part);
  }
  return bits[0].text() != bits[1].text();
}

bool SharesHostMemory(Device& device) {
  constexpr std::int64_t kWords = 16;
  const tuplespace::Payload payload = tuplespace::Payload::Copy(std::string(4 * kWords, '\0'));
  const BufferPtr buffer = device.Upload(payload);
  const Matrix whole{buffer.get(), 0, 1, kWords, kWords};
  return device.Download(buffer, whole).data() == payload.data();
}

}  // namespace acan::bench
