#include "operator_calls.h"

#include <array>
#include <cassert>
#include <initializer_list>
#include <utility>

#include "acan/model/dropout.h"
#include "convolution_calls.h"

namespace acan {
namespace {

namespace graph = model;

Activation ActivationOf(graph::ActivationKind kind) {
  switch (kind) {
    case graph::ActivationKind::kRelu:
      return Activation::kRelu;
    case graph::ActivationKind::kClippedRelu:
      return Activation::kClippedRelu;
    case graph::ActivationKind::kGelu:
      return Activation::kGelu;
    case graph::ActivationKind::kGeluTanh:
      return Activation::kGeluTanh;
    case graph::ActivationKind::kSilu:
      return Activation::kSilu;
    case graph::ActivationKind::kTanh:
      return Activation::kTanh;
    case graph::ActivationKind::kSigmoid:
      return Activation::kSigmoid;
  }
  assert(false);
  return Activation::kIdentity;
}

constexpr std::int64_t kLayerNormKind = 0;
constexpr std::int64_t kRmsNormKind = 1;

// One overload for each operator that has calls.
class Calls {
 public:
  explicit Calls(SegmentTask& task) : task_(task) {}

  // ---- products and tables ----
  void operator()(const graph::Linear&) const {
    const View y = Out(0);
    task_.builder().Product(GemmForm::kForward, In(0), In(1), y);
    if (task_.Has(2)) AddBias(y, In(2));
  }
  void operator()(const graph::LinearInputGradient&) const {
    task_.builder().Product(GemmForm::kBackward, In(0), In(1), Out(0));
  }
  void operator()(const graph::LinearWeightGradient&) const {
    AddRowProduct(task_.builder(), Order(0), task_.box(), In(0), In(1), Out(0));
  }
  void operator()(const graph::ColumnSums&) const { ColumnDots(In(0), View{}); }
  void operator()(const graph::ColumnDots&) const { ColumnDots(In(0), In(1)); }
  void operator()(const graph::Embedding&) const {
    Launch(Kernel::kEmbedding, {Out(0), In(0), In(1)});
  }
  void operator()(const graph::EmbeddingGradient& op) const {
    Launch(Kernel::kEmbeddingGradient, {Out(0), In(0), In(1)},
           Scalars({}, {block(), Order(0).group_rows(), 0, op.forward.padding_id}));
  }
  void operator()(const graph::LearnedPositions& op) const {
    // Within a sample the operand has just the rows of the box.
    const View table = In(0);
    const bool is_whole = task_.box().HasWholeSamples();
    Launch(Kernel::kPositions, {Out(0), View{}, is_whole ? Rows(table, op.first, op.rows) : table},
           Scalars({}, {0}));
  }
  // The rows of the table that are not looked up have no gradient.
  void operator()(const graph::LearnedPositionsGradient& op) const {
    const View table = Out(0);
    const Box& box = task_.box();
    const std::int64_t positions = box.HasWholeSamples() ? Value(0).rows : box.positions.size();
    if (table.rows != positions) Launch(Kernel::kFill, {table}, Scalars({0.0f}, {}));
    Launch(Kernel::kPositionsGradient, {Rows(table, op.first, positions), In(0)},
           Scalars({}, {Order(0).group_samples()}));
  }

  // ---- attention ----
  void operator()(const graph::Rotary& op) const {
    const std::int64_t positions = Value(0).rows;
    const std::int64_t back = op.rotation == graph::Rotation::kBack ? 1 : 0;
    const std::int64_t first = task_.box().RowsOf(positions).begin % positions;
    Launch(Kernel::kRotary, {Out(0), In(0), In(1), In(2)}, Scalars({}, {back, first}));
  }
  void operator()(const graph::Attention& op) const {
    KernelScalars scalars = ScalarsOf(op);
    scalars.i[13] = 1;  // finish: all keys are here
    Launch(Kernel::kAttention, {Out(0), Out(1), In(0), In(1), In(2), MaybeIn(3)}, scalars);
  }
  void operator()(const graph::AttentionGradient& op) const {
    Launch(Kernel::kAttentionGradient,
           {Out(0), Out(1), Out(2), In(0), In(1), In(2), MaybeIn(3), In(4), In(5), In(6)},
           ScalarsOf(op.forward));
  }

  // ---- norms ----
  void operator()(const graph::LayerNorm& op) const {
    Launch(Kernel::kNorm, {Out(0), Out(1), In(0), MaybeIn(1), MaybeIn(2)},
           Scalars({op.epsilon}, {kLayerNormKind}));
  }
  void operator()(const graph::LayerNormGradient&) const { NormGradient(kLayerNormKind); }
  void operator()(const graph::LayerNormScaleGradient&) const { NormScaleGradient(); }
  void operator()(const graph::RmsNorm& op) const {
    Launch(Kernel::kNorm, {Out(0), Out(1), In(0), MaybeIn(1), View{}},
           Scalars({op.epsilon}, {kRmsNormKind}));
  }
  void operator()(const graph::RmsNormGradient&) const { NormGradient(kRmsNormKind); }
  void operator()(const graph::RmsNormScaleGradient&) const { NormScaleGradient(); }

  // ---- element by element ----
  void operator()(const graph::Add&) const { Launch(Kernel::kAdd, {Out(0), In(0), In(1)}); }
  void operator()(const graph::Multiply&) const {
    Launch(Kernel::kMultiply, {Out(0), In(0), In(1)});
  }
  void operator()(const graph::Scale& op) const {
    Launch(Kernel::kScale, {Out(0), In(0)}, Scalars({op.factor}, {}));
  }
  void operator()(const graph::ScaleColumns&) const {
    Launch(Kernel::kScaleColumns, {Out(0), In(0), In(1)});
  }
  void operator()(const graph::Activation& op) const {
    Launch(Kernel::kActivation, {Out(0), In(0)}, ActivationScalars(op));
  }
  void operator()(const graph::ActivationGradient& op) const {
    Launch(Kernel::kActivationGradient, {Out(0), In(1), In(0)}, ActivationScalars(op.forward));
  }
  void operator()(const graph::SwiGlu&) const { Launch(Kernel::kSwiGlu, {Out(0), In(0), In(1)}); }
  void operator()(const graph::SwiGluGradient&) const {
    Launch(Kernel::kSwiGluGradient, {Out(0), Out(1), In(0), In(1), In(2)});
  }
  void operator()(const graph::Dropout& op) const {
    const LoweredValue& value = Value(0);
    Launch(Kernel::kDropout, {Out(0), In(0)},
           Scalars({op.rate, graph::DropoutScale(op.rate)},
                   {op.unit == graph::DropoutUnit::kSample ? 1 : 0, seed(), Draws(op.stream),
                    task_.box().RowsOf(value.rows).begin, task_.OperandColumns(0).begin,
                    value.columns, value.rows}));
  }
  // What could not become a part of the whole is copied into it.
  void operator()(const graph::Concat& op) const {
    if (op.axis == graph::SliceAxis::kPositions) return ConcatPositions();
    View part = Out(0);
    for (std::size_t i = 0; i < task_.node().operands.size(); ++i) {
      const View x = In(i);
      part.cols = x.cols;
      Launch(Kernel::kScale, {part, x}, Scalars({1.0f}, {}));
      part.col += x.cols;
    }
  }
  void operator()(const graph::Slice& op) const {
    if (op.axis == graph::SliceAxis::kPositions) return Place(op.end - op.begin, -op.begin);
    View x = In(0);
    x.col += static_cast<std::int32_t>(op.begin);
    x.cols = static_cast<std::int32_t>(op.end - op.begin);
    Launch(Kernel::kScale, {Out(0), x}, Scalars({1.0f}, {}));
  }

  void operator()(const graph::SliceGradient& op) const {
    if (op.axis == graph::SliceAxis::kPositions) return Place(op.size, op.begin);
    const View dx = Out(0), dy = In(0);
    View part = dx;
    part.col += static_cast<std::int32_t>(op.begin);
    part.cols = dy.cols;
    Launch(Kernel::kFill, {dx}, Scalars({0.0f}, {}));
    Launch(Kernel::kScale, {part, dy}, Scalars({1.0f}, {}));
  }

  // ---- images ----
  void operator()(const graph::Patches& op) const {
    Launch(Kernel::kUnfold, {Out(0), In(0)}, OfWindow(WindowOf(op)));
  }
  void operator()(const graph::PatchesGradient& op) const {
    Launch(Kernel::kFold, {Out(0), In(0)}, OfWindow(WindowOf(op.forward)));
  }
  // Positions that are joined are patches of one row, and patches that come apart are positions.
  // Else a sample becomes one row first. (An element that is -0 becomes 0.)
  void operator()(const graph::Reshape& op) const {
    const std::int64_t rows = Value(0).rows;
    if (rows % op.positions == 0) return Unfold(Out(0), In(0), op.positions, rows / op.positions);
    if (op.positions % rows == 0) return Fold(Out(0), In(0), rows, op.positions / rows);
    const View x = In(0);
    const View one = task_.Scratch(x.rows / rows, x.cols * rows);
    Unfold(one, x, 1, rows);
    Fold(Out(0), one, 1, op.positions);
  }
  void operator()(const graph::Pooling& op) const {
    const bool maximum = op.kind == graph::PoolingKind::kMaximum;
    Launch(maximum ? Kernel::kMaxPooling : Kernel::kAveragePooling, {Out(0), In(0)},
           OfWindow(op.window));
  }
  void operator()(const graph::PoolingGradient& op) const {
    const KernelScalars window = OfWindow(op.forward.window);
    if (op.forward.kind == graph::PoolingKind::kMaximum) {
      Launch(Kernel::kMaxPoolingGradient, {Out(0), In(0), In(1)}, window);
    } else {
      Launch(Kernel::kAveragePoolingGradient, {Out(0), In(1)}, window);
    }
  }
  void operator()(const graph::GlobalPooling& op) const {
    if (op.kind == graph::PoolingKind::kMaximum) {
      Launch(Kernel::kGlobalMaxPooling, {Out(0), In(0), MaybeIn(1)}, Scalars({}, {Value(0).rows}));
    } else {
      Launch(Kernel::kGlobalAveragePooling, {Out(0), In(0), MaybeIn(1)},
             Scalars({}, {block(), Value(0).rows}));
    }
  }
  void operator()(const graph::GlobalPoolingGradient& op) const {
    const KernelScalars positions = Scalars({}, {op.positions});
    if (op.forward.kind == graph::PoolingKind::kMaximum) {
      Launch(Kernel::kGlobalMaxPoolingGradient, {Out(0), In(0), MaybeIn(1), In(2)}, positions);
    } else {
      Launch(Kernel::kGlobalAveragePoolingGradient, {Out(0), MaybeIn(1), In(2)}, positions);
    }
  }
  void operator()(const graph::GroupNorm& op) const {
    Launch(Kernel::kGroupNorm, {Out(0), Out(1), In(0), MaybeIn(1), MaybeIn(2)},
           Scalars({op.epsilon}, {Value(0).rows, op.groups}));
  }
  // Operands: x, scale, dy, statistics.
  void operator()(const graph::GroupNormGradient& op) const {
    Launch(Kernel::kGroupNormGradient, {Out(0), In(0), In(3), In(2), MaybeIn(1)},
           Scalars({}, {Value(0).rows, op.forward.groups}));
  }
  // Operands: x, dy, statistics.
  void operator()(const graph::GroupNormScaleGradient& op) const {
    Launch(Kernel::kGroupNormScaleGradient, {Out(0), View{}, In(0), In(2), In(1)},
           Scalars({}, {block(), Order(0).group_rows(), Value(0).rows, op.forward.groups}));
  }
  // ---- batch norm ----
  void operator()(const graph::BatchNorm& op) const {
    switch (task_.node().part) {
      case NodePart::kBatchSums:
        return ColumnDots(In(0), View{});
      case NodePart::kBatchSquares:
        return Launch(Kernel::kColumnSquares, {Out(0), In(1), MeanOf(In(0), 1)},
                      Scalars({}, {block(), Order(1).group_rows()}));
      case NodePart::kBatchNorm:
        return Launch(Kernel::kColumnNorm,
                      {Out(0), In(0), Statistics(In(3), In(4), op.epsilon), In(1), In(2)});
      case NodePart::kAll:
        break;
    }
    assert(false);
  }
  // Operands: x, sums, squares, dy; of inference: x, mean, variance, dy.
  void operator()(const graph::BatchNormSums& op) const {
    const View statistics = Value(1).kind == ValueKind::kParameter
                                ? GivenStatistics(In(1), In(2), op.epsilon)
                                : Statistics(In(1), In(2), op.epsilon);
    Launch(Kernel::kColumnNormSums, {Out(0), Out(1), In(0), statistics, In(3)},
           Scalars({}, {block(), Order(0).group_rows()}));
  }
  // Operands: x, scale, sums, squares, dscale, dbias, dy.
  void operator()(const graph::BatchNormGradient& op) const {
    const View statistics = Statistics(In(2), In(3), op.epsilon);
    const View mean_scale = MeanOf(In(4), 0), mean_bias = MeanOf(In(5), 0);
    Launch(Kernel::kColumnNormGradient,
           {Out(0), In(0), statistics, In(6), In(1), mean_scale, mean_bias});
  }
  void operator()(const graph::BatchNormInference& op) const {
    const View statistics = GivenStatistics(In(3), In(4), op.epsilon);
    Launch(Kernel::kColumnNorm, {Out(0), In(0), statistics, In(1), In(2)});
  }
  // Operands: scale, variance, dy.
  void operator()(const graph::BatchNormInferenceGradient& op) const {
    const View slopes = task_.Scratch(1, In(1).cols);
    Launch(Kernel::kInverseRoot, {slopes, In(1)}, Scalars({op.epsilon}, {}));
    Launch(Kernel::kMultiply, {slopes, slopes, In(0)});
    Launch(Kernel::kScaleColumns, {Out(0), In(2), slopes});
  }

  void operator()(const graph::Convolution& op) const {
    const View y = Out(0);
    Convolve(task_, op, In(0), In(1), y);
    if (task_.Has(2)) AddBias(y, In(2));
  }
  void operator()(const graph::ConvolutionInputGradient& op) const {
    ConvolveInputGradient(task_, op.forward, In(0), In(1), Out(0));
  }
  void operator()(const graph::ConvolutionWeightGradient& op) const {
    ConvolveWeightGradient(task_, op.forward, Order(0), In(0), In(1), Out(0));
  }

  // ---- losses ----
  void operator()(const graph::CrossEntropy& op) const {
    if (op.order == graph::ExponentialOrder::kLeaves) {
      const View per_row = task_.Scratch(task_.RowsOf(0), 2);
      SoftmaxCrossEntropy(View{}, per_row, 0.0f);
      return PutLoss(per_row);
    }
    const View logits = In(0), labels = In(1), largest = Out(2), sums = Out(3);
    const std::int64_t classes = Value(0).columns, rows = logits.rows;
    const View column = task_.Scratch(rows, 1);
    Launch(Kernel::kClassMaxima, {largest, column, logits});
    Launch(Kernel::kClassSums, {sums, logits, largest, labels});
    const View per_row = task_.Scratch(rows, 2);
    Launch(Kernel::kCrossEntropyLoss,
           {Column(per_row, 0), Column(per_row, 1), sums, column, labels},
           Scalars({op.label_smoothing}, {classes, op.ignored_label}));
    PutLoss(per_row);
  }
  void operator()(const graph::CrossEntropyGradient& op) const {
    const float scale = 1.0f / static_cast<float>(CountedRows());
    if (op.forward.order == graph::ExponentialOrder::kLeaves) {
      return SoftmaxCrossEntropy(Out(0), task_.Scratch(task_.RowsOf(0), 2), scale);
    }
    Launch(Kernel::kCrossEntropyGradient, {Out(0), In(0), In(2), In(3), In(1)},
           Scalars({scale, op.forward.label_smoothing},
                   {task_.OperandColumns(0).begin, Value(0).columns, op.forward.ignored_label}));
  }
  void operator()(const graph::SquaredError&) const {
    const View per_row = task_.Scratch(task_.RowsOf(0), 1);
    Launch(Kernel::kSquaredError, {View{}, In(0), In(1), per_row}, Scalars({0.0f}, {block()}));
    PutLoss(per_row);
  }
  void operator()(const graph::SquaredErrorGradient&) const {
    const View per_row = task_.Scratch(task_.RowsOf(0), 1);
    const float values = static_cast<float>(CountedRows()) * static_cast<float>(Value(0).columns);
    Launch(Kernel::kSquaredError, {Out(0), In(0), In(1), per_row},
           Scalars({2.0f / values}, {block()}));
  }

  // AddNode makes it a part of its batch norm (lowered_graph.cpp), and updates compute it.
  void operator()(const graph::RunningAverage&) const { assert(false); }

 private:
  View In(std::size_t operand) const { return task_.Operand(operand); }
  View MaybeIn(std::size_t operand) const { return task_.Has(operand) ? In(operand) : View{}; }
  View Out(std::size_t result) const { return task_.Result(result); }
  static View Column(View view, std::int32_t column) {
    view.col += column;
    view.cols = 1;
    return view;
  }
  static View Row(View view, std::int32_t row) {
    view.row += row;
    view.rows = 1;
    return view;
  }
  // Of a sum over all rows of the batch's value that `operand` is.
  View MeanOf(const View& sum, std::size_t operand) const {
    const View mean = task_.Scratch(1, sum.cols);
    Divide(mean, sum, operand);
    return mean;
  }
  void Divide(const View& out, const View& sum, std::size_t operand) const {
    const std::int64_t rows = task_.context().pass.rows * Value(operand).rows;
    Launch(Kernel::kDivide, {out, sum}, Scalars({static_cast<float>(rows)}, {}));
  }
  // Each column's mean and 1 / sqrt(variance + epsilon), of the rows of the first operand.
  View Statistics(const View& sums, const View& squares, float epsilon) const {
    const View statistics = task_.Scratch(2, sums.cols);
    const View inverse = Row(statistics, 1);
    Divide(Row(statistics, 0), sums, 0);
    Divide(inverse, squares, 0);
    Launch(Kernel::kInverseRoot, {inverse, inverse}, Scalars({epsilon}, {}));
    return statistics;
  }
  // The same of a mean and a variance that are parameters.
  View GivenStatistics(const View& mean, const View& variance, float epsilon) const {
    const View statistics = task_.Scratch(2, mean.cols);
    Launch(Kernel::kScale, {Row(statistics, 0), mean}, Scalars({1.0f}, {}));
    Launch(Kernel::kInverseRoot, {Row(statistics, 1), variance}, Scalars({epsilon}, {}));
    return statistics;
  }
  const LoweredValue& Value(std::size_t operand) const {
    return task_.context().Value(task_.node().operands[operand]);
  }
  RowOrder Order(std::size_t operand) const {
    return task_.context().OrderOf(task_.node().operands[operand]);
  }
  std::int64_t block() const { return task_.context().cuts.block; }
  std::int64_t seed() const { return static_cast<std::int64_t>(task_.context().training.seed); }
  std::int64_t Draws(std::int64_t stream) const {
    return static_cast<std::int64_t>(graph::DropoutCounterHigh(task_.context().pass.step, stream));
  }
  std::int64_t CountedRows() const {
    const Pass& pass = task_.context().pass;
    return pass.counted_rows >= 0 ? pass.counted_rows : pass.rows * Value(0).rows;
  }
  void Launch(Kernel kernel, std::vector<View> views, KernelScalars scalars = {}) const {
    task_.builder().Launch(kernel, std::move(views), scalars);
  }
  KernelScalars ActivationScalars(const graph::Activation& op) const {
    return Scalars({op.bound}, {static_cast<std::int64_t>(ActivationOf(op.kind))});
  }
  // The positions of x from `first` on in a result of `positions`, zeros around them.
  void Place(std::int64_t positions, std::int64_t first) const {
    Launch(Kernel::kPlacePositions, {Out(0), In(0)},
           Scalars({}, {positions, Value(0).rows, first}));
  }
  void ConcatPositions() const {
    const std::int64_t all = task_.context().Value(task_.node().results[0]).rows;
    const View out = Out(0);
    std::int64_t first = 0;
    for (std::size_t i = 0; i < task_.node().operands.size(); ++i) {
      Launch(i == 0 ? Kernel::kPlacePositions : Kernel::kCopyPositions, {out, In(i)},
             Scalars({}, {all, Value(i).rows, first}));
      first += Value(i).rows;
    }
  }
  // Of `rows` rows a sample, each of `joined` rows of x.
  void Unfold(const View& out, const View& x, std::int64_t rows, std::int64_t joined) const {
    Launch(Kernel::kUnfold, {out, x}, OfWindow(RowsJoined(rows, joined)));
  }
  // Each of the `rows` rows a sample comes apart into `parts` rows.
  void Fold(const View& out, const View& x, std::int64_t rows, std::int64_t parts) const {
    Launch(Kernel::kFold, {out, x}, OfWindow(RowsJoined(rows, parts)));
  }
  static graph::Window RowsJoined(std::int64_t rows, std::int64_t joined) {
    return {{rows, joined}, {1, joined}, {1, joined}, {0, 0}};
  }
  static graph::Window WindowOf(const graph::Patches& op) {
    return {op.input, op.patch, op.patch, {0, 0}};
  }
  void AddBias(const View& y, const View& bias) const {
    Launch(Kernel::kBiasActivation, {y, y, bias, View{}},
           Scalars({0.0f}, {static_cast<std::int64_t>(Activation::kIdentity)}));
  }
  void ColumnDots(const View& x, const View& y) const {
    Launch(Kernel::kColumnDots, {Out(0), x, y}, Scalars({}, {block(), Order(0).group_rows()}));
  }
  // Operands: x, scale, dy, statistics.
  void NormGradient(std::int64_t kind) const {
    Launch(Kernel::kNormGradient, {Out(0), In(0), In(3), In(2), MaybeIn(1)}, Scalars({}, {kind}));
  }
  // Operands: x, dy, statistics.
  void NormScaleGradient() const {
    Launch(Kernel::kNormScaleGradient, {Out(0), View{}, In(0), In(2), In(1)},
           Scalars({}, {block(), Order(0).group_rows()}));
  }
  KernelScalars ScalarsOf(const graph::Attention& op) const {
    const std::int64_t positions = Value(0).rows;
    const std::int64_t width = Value(0).columns / op.heads;
    const Range q = task_.OperandColumns(0);
    const Box& box = task_.box();
    const Range all{0, positions}, queries = box.HasWholeSamples() ? all : box.positions;
    return AttentionScalars(task_.context(), op, positions,
                            {box.samples,
                             queries,
                             box.HasWholeSamples() ? all : KeysSeenBy(op, queries, positions),
                             {q.begin / width, q.end / width}});
  }
  // Each row's loss and whether it was right, and the gradient, where there is an `out`.
  void SoftmaxCrossEntropy(const View& out, const View& per_row, float scale) const {
    Launch(Kernel::kSoftmaxCrossEntropy,
           {out, In(0), In(1), Column(per_row, 0), Column(per_row, 1)},
           Scalars({scale}, {block()}));
  }
  // Each row's loss and, for classes, whether it was right: one tuple has their sums.
  void PutLoss(const View& per_row) const {
    const View sums = task_.builder().All(task_.builder().NewBuffer(1, per_row.cols));
    Launch(Kernel::kColumnDots, {sums, per_row, View{}},
           Scalars({}, {block(), Order(0).group_rows()}));
    const PassContext& context = task_.context();
    task_.builder().Put(context.keys.Rows(StepTuple::kLoss, Order(0).PlaceOf(task_.box())), sums);
  }

  SegmentTask& task_;
};

}  // namespace

Range KeysSeenBy(const model::Attention& op, const Range& queries, std::int64_t positions) {
  return {0, op.mask == graph::AttentionMask::kCausal ? queries.end : positions};
}

KernelScalars AttentionScalars(const PassContext& context, const model::Attention& op,
                               std::int64_t positions, const AttentionCall& call) {
  const std::int64_t shared = op.heads / op.key_value_heads;
  const float kept = op.dropout > 0 ? graph::DropoutScale(op.dropout) : 1.0f;
  const auto draws =
      static_cast<std::int64_t>(graph::DropoutCounterHigh(context.pass.step, op.dropout_stream));
  return Scalars({op.scale, op.dropout, kept},
                 {op.mask == graph::AttentionMask::kCausal ? 1 : 0, call.queries.size(),
                  call.keys.size(), call.heads.size() / shared, shared, call.queries.begin,
                  call.keys.begin, static_cast<std::int64_t>(context.training.seed), draws,
                  call.samples.begin, positions, call.heads.begin, op.heads});
}

void AddCalls(SegmentTask& task) {
  std::visit(Calls(task), task.node().node->op);
}

void AddRowProduct(TaskBuilder& builder, const RowOrder& order, const Box& box, const View& dy,
                   const View& x, const View& d) {
  const std::int64_t group_rows = order.group_rows();
  if (order.IsPlain() || dy.rows <= group_rows) {
    builder.Product(GemmForm::kGradient, dy, x, d);
    return;
  }
  assert(order.NodesOf(box, box.samples.end).size() == 1);
  // Leaves end with their groups. A sum is added to its left sibling as soon as both are there, so
  // that there are few buffers: as RunCalls knows it from (run_calls.h).
  std::vector<int> open, spare;  // sums of nodes whose siblings are missing; buffers without a sum
  const auto add_last = [&] {
    const View left = builder.All(open[open.size() - 2]), right = builder.All(open.back());
    builder.Launch(Kernel::kAdd, {left, left, right});
    spare.push_back(open.back());
    open.pop_back();
  };
  std::uint64_t groups = 0;
  for (std::int64_t row = 0; row < dy.rows; row += group_rows) {
    const std::int64_t rows = std::min<std::int64_t>(group_rows, dy.rows - row);
    int part = d.buffer;
    if (groups > 0 && !spare.empty()) {
      part = spare.back();
      spare.pop_back();
    } else if (groups > 0) {
      part = builder.NewBuffer(d.rows, d.cols);
    }
    builder.Product(GemmForm::kGradient, Rows(dy, row, rows), Rows(x, row, rows),
                    builder.All(part));
    open.push_back(part);
    for (std::uint64_t bits = groups++; (bits & 1) != 0; bits >>= 1) add_last();
  }
  while (open.size() > 1) add_last();
}

}  // namespace acan
