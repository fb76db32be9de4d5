#include "operator_calls.h"

#include <array>
#include <cassert>
#include <initializer_list>
#include <utility>

#include "acan/core/operators/kernel_constants.h"
#include "acan/model/dropout.h"
#include "convolution_calls.h"
#include "norm_calls.h"
#include "row_product.h"

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

// One overload for each operator that has calls.
class Calls : public NormCalls {
 public:
  explicit Calls(SegmentTask& task) : NormCalls(task) {}
  using NormCalls::operator();

  // ---- products and tables ----
  void operator()(const graph::Linear&) const {
    const View x = In(0), y = Out(0), bias = MaybeIn(2);
    for (const auto& [outputs, weight] : task_.RowsOfWeight(1)) {
      const View part = Columns(y, outputs);
      task_.builder().Product(GemmForm::kForward, x, weight, part);
      if (task_.Has(2)) AddBias(part, Columns(bias, outputs));
    }
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
    // For a box within a sample, the operand has exactly the rows of the box.
    const View table = In(0);
    const bool is_whole = task_.box().HasWholeSamples();
    Launch(Kernel::kPositions, {Out(0), View{}, is_whole ? Rows(table, op.first, op.rows) : table},
           Scalars({}, {0}));
  }
  // Rows of the table that are not looked up have a gradient of 0.
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
    scalars.i[13] = 1;  // finish: the call has all keys
    Launch(Kernel::kAttention, {Out(0), Out(1), In(0), In(1), In(2), MaybeIn(3)}, scalars);
  }
  void operator()(const graph::AttentionGradient& op) const {
    Launch(Kernel::kAttentionGradient,
           {Out(0), Out(1), Out(2), In(0), In(1), In(2), MaybeIn(3), In(4), In(5), In(6)},
           ScalarsOf(op.forward));
  }

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
                   {op.unit == graph::DropoutUnit::kSample ? ACAN_DROP_SAMPLES : ACAN_DROP_ELEMENTS,
                    seed(), Draws(op.stream), task_.box().RowsOf(value.rows).begin,
                    task_.OperandColumns(0).begin, value.columns, value.rows}));
  }
  // Copies the operands that could not become views of the result.
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
  // Joining positions makes patches of one row, and splitting rows is the inverse. Otherwise each
  // sample first becomes one row. (An element -0 becomes 0.)
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

  // AddNode attaches it to its batch norm (lowered_graph.cpp), and update tasks compute it.
  void operator()(const graph::RunningAverage&) const { assert(false); }

 private:
  static View Column(View view, std::int32_t column) {
    view.col += column;
    view.cols = 1;
    return view;
  }
  std::int64_t seed() const { return static_cast<std::int64_t>(task_.context().training.seed); }
  std::int64_t Draws(std::int64_t stream) const {
    return static_cast<std::int64_t>(graph::DropoutCounterHigh(task_.context().pass.step, stream));
  }
  std::int64_t CountedRows() const {
    const Pass& pass = task_.context().pass;
    return pass.counted_rows >= 0 ? pass.counted_rows : pass.rows * Value(0).rows;
  }
  KernelScalars ActivationScalars(const graph::Activation& op) const {
    return Scalars({op.bound}, {static_cast<std::int64_t>(ActivationOf(op.kind))});
  }
  // Copies x to the positions from `first` on in a result of `positions`, with zeros around it.
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
  // Makes `rows` rows per sample, each from `joined` rows of x.
  void Unfold(const View& out, const View& x, std::int64_t rows, std::int64_t joined) const {
    Launch(Kernel::kUnfold, {out, x}, OfWindow(RowsJoined(rows, joined)));
  }
  // Splits each of the `rows` rows per sample into `parts` rows.
  void Fold(const View& out, const View& x, std::int64_t rows, std::int64_t parts) const {
    Launch(Kernel::kFold, {out, x}, OfWindow(RowsJoined(rows, parts)));
  }
  static graph::Window RowsJoined(std::int64_t rows, std::int64_t joined) {
    return {{rows, joined}, {1, joined}, {1, joined}, {0, 0}};
  }
  static graph::Window WindowOf(const graph::Patches& op) {
    return {op.input, op.patch, op.patch, {0, 0}};
  }
  static View Columns(View view, const Range& columns) {
    view.col += static_cast<std::int32_t>(columns.begin);
    view.cols = static_cast<std::int32_t>(columns.size());
    return view;
  }
  void AddBias(const View& y, const View& bias) const {
    Launch(Kernel::kBiasActivation, {y, y, bias, View{}},
           Scalars({0.0f}, {static_cast<std::int64_t>(Activation::kIdentity)}));
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
  // Each row's loss and whether the answer was right, and the gradient if `out` is given.
  void SoftmaxCrossEntropy(const View& out, const View& per_row, float scale) const {
    Launch(Kernel::kSoftmaxCrossEntropy,
           {out, In(0), In(1), Column(per_row, 0), Column(per_row, 1)},
           Scalars({scale}, {block()}));
  }
  // Puts one tuple with the sums of each row's loss and, for classes, of right answers.
  void PutLoss(const View& per_row) const {
    const View sums = task_.builder().All(task_.builder().NewBuffer(1, per_row.cols));
    Launch(Kernel::kColumnDots, {sums, per_row, View{}},
           Scalars({}, {block(), Order(0).group_rows()}));
    const PassContext& context = task_.context();
    task_.builder().Put(context.keys.Rows(StepTuple::kLoss, Order(0).PlaceOf(task_.box())), sums);
  }
};

}  // namespace

Range KeysSeenBy(const model::Attention& op, const Range& queries, std::int64_t positions) {
  return {0, op.mask == graph::AttentionMask::kCausal ? queries.end : positions};
}

KernelScalars AttentionScalars(const PassContext& context, const model::Attention& op,
                               std::int64_t positions, const AttentionCall& call) {
  const std::int64_t shared = op.heads / op.key_value_heads;
  const float kept = op.dropout > 0 ? graph::DropoutScale(op.dropout) : 1.0f;
  // Zero without dropout, so that the calls of all steps are alike.
  const auto draws = static_cast<std::int64_t>(
      op.dropout > 0 ? graph::DropoutCounterHigh(context.pass.step, op.dropout_stream) : 0);
  return Scalars({op.scale, op.dropout, kept},
                 {op.mask == graph::AttentionMask::kCausal ? 1 : 0, call.queries.size(),
                  call.keys.size(), call.heads.size() / shared, shared, call.queries.begin,
                  call.keys.begin, static_cast<std::int64_t>(context.training.seed), draws,
                  call.samples.begin, positions, call.heads.begin, op.heads});
}

void AddCalls(SegmentTask& task) {
  std::visit(Calls(task), task.node().node->op);
}

}  // namespace acan
