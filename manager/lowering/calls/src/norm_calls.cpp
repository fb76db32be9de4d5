#include "norm_calls.h"

#include <cassert>

#include "acan/core/operators/kernel_constants.h"

namespace acan {
namespace {

View Row(View view, std::int32_t row) {
  view.row += row;
  view.rows = 1;
  return view;
}

}  // namespace

void NormCalls::operator()(const model::LayerNorm& op) const {
  Launch(Kernel::kNorm, {Out(0), Out(1), In(0), MaybeIn(1), MaybeIn(2)},
         Scalars({op.epsilon}, {ACAN_LAYER_NORM}));
}

void NormCalls::operator()(const model::LayerNormGradient&) const {
  NormGradient(ACAN_LAYER_NORM);
}

void NormCalls::operator()(const model::LayerNormScaleGradient&) const {
  NormScaleGradient();
}

void NormCalls::operator()(const model::RmsNorm& op) const {
  Launch(Kernel::kNorm, {Out(0), Out(1), In(0), MaybeIn(1), View{}},
         Scalars({op.epsilon}, {ACAN_RMS_NORM}));
}

void NormCalls::operator()(const model::RmsNormGradient&) const {
  NormGradient(ACAN_RMS_NORM);
}

void NormCalls::operator()(const model::RmsNormScaleGradient&) const {
  NormScaleGradient();
}

void NormCalls::operator()(const model::GroupNorm& op) const {
  Launch(Kernel::kGroupNorm, {Out(0), Out(1), In(0), MaybeIn(1), MaybeIn(2)},
         Scalars({op.epsilon}, {Value(0).rows, op.groups}));
}

// Operands: x, scale, dy, statistics.
void NormCalls::operator()(const model::GroupNormGradient& op) const {
  Launch(Kernel::kGroupNormGradient, {Out(0), In(0), In(3), In(2), MaybeIn(1)},
         Scalars({}, {Value(0).rows, op.forward.groups}));
}

// Operands: x, dy, statistics.
void NormCalls::operator()(const model::GroupNormScaleGradient& op) const {
  Launch(Kernel::kGroupNormScaleGradient, {Out(0), View{}, In(0), In(2), In(1)},
         Scalars({}, {block(), Order(0).group_rows(), Value(0).rows, op.forward.groups}));
}

void NormCalls::operator()(const model::BatchNorm& op) const {
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

// Operands: x, sums, squares, dy; in inference: x, mean, variance, dy.
void NormCalls::operator()(const model::BatchNormSums& op) const {
  const View statistics = Value(1).kind == ValueKind::kParameter
                              ? GivenStatistics(In(1), In(2), op.epsilon)
                              : Statistics(In(1), In(2), op.epsilon);
  Launch(Kernel::kColumnNormSums, {Out(0), Out(1), In(0), statistics, In(3)},
         Scalars({}, {block(), Order(0).group_rows()}));
}

// Operands: x, scale, sums, squares, dscale, dbias, dy.
void NormCalls::operator()(const model::BatchNormGradient& op) const {
  const View statistics = Statistics(In(2), In(3), op.epsilon);
  const View mean_scale = MeanOf(In(4), 0), mean_bias = MeanOf(In(5), 0);
  Launch(Kernel::kColumnNormGradient,
         {Out(0), In(0), statistics, In(6), In(1), mean_scale, mean_bias});
}

void NormCalls::operator()(const model::BatchNormInference& op) const {
  const View statistics = GivenStatistics(In(3), In(4), op.epsilon);
  Launch(Kernel::kColumnNorm, {Out(0), In(0), statistics, In(1), In(2)});
}

// Operands: scale, variance, dy.
void NormCalls::operator()(const model::BatchNormInferenceGradient& op) const {
  const View slopes = task_.Scratch(1, In(1).cols);
  Launch(Kernel::kInverseRoot, {slopes, In(1)}, Scalars({op.epsilon}, {}));
  Launch(Kernel::kMultiply, {slopes, slopes, In(0)});
  Launch(Kernel::kScaleColumns, {Out(0), In(2), slopes});
}

View NormCalls::MeanOf(const View& sum, std::size_t operand) const {
  const View mean = task_.Scratch(1, sum.cols);
  Divide(mean, sum, operand);
  return mean;
}

void NormCalls::Divide(const View& out, const View& sum, std::size_t operand) const {
  const std::int64_t rows = task_.context().pass.rows * Value(operand).rows;
  Launch(Kernel::kDivide, {out, sum}, Scalars({static_cast<float>(rows)}, {}));
}

View NormCalls::Statistics(const View& sums, const View& squares, float epsilon) const {
  const View statistics = task_.Scratch(2, sums.cols);
  const View inverse = Row(statistics, 1);
  Divide(Row(statistics, 0), sums, 0);
  Divide(inverse, squares, 0);
  Launch(Kernel::kInverseRoot, {inverse, inverse}, Scalars({epsilon}, {}));
  return statistics;
}

View NormCalls::GivenStatistics(const View& mean, const View& variance, float epsilon) const {
  const View statistics = task_.Scratch(2, mean.cols);
  Launch(Kernel::kScale, {Row(statistics, 0), mean}, Scalars({1.0f}, {}));
  Launch(Kernel::kInverseRoot, {Row(statistics, 1), variance}, Scalars({epsilon}, {}));
  return statistics;
}

void NormCalls::NormGradient(std::int64_t kind) const {
  Launch(Kernel::kNormGradient, {Out(0), In(0), In(3), In(2), MaybeIn(1)}, Scalars({}, {kind}));
}

void NormCalls::NormScaleGradient() const {
  Launch(Kernel::kNormScaleGradient, {Out(0), View{}, In(0), In(2), In(1)},
         Scalars({}, {block(), Order(0).group_rows()}));
}

}  // namespace acan
