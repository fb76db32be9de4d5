// NormCalls: the calls of layer, RMS, group and batch norms, and of their gradients.
#pragma once

#include <cstdint>

#include "node_calls.h"

namespace acan {

class NormCalls : public NodeCalls {
 public:
  explicit NormCalls(SegmentTask& task) : NodeCalls(task) {}

  void operator()(const model::LayerNorm& op) const;
  void operator()(const model::LayerNormGradient& op) const;
  void operator()(const model::LayerNormScaleGradient& op) const;
  void operator()(const model::RmsNorm& op) const;
  void operator()(const model::RmsNormGradient& op) const;
  void operator()(const model::RmsNormScaleGradient& op) const;
  void operator()(const model::GroupNorm& op) const;
  void operator()(const model::GroupNormGradient& op) const;
  void operator()(const model::GroupNormScaleGradient& op) const;
  void operator()(const model::BatchNorm& op) const;
  void operator()(const model::BatchNormSums& op) const;
  void operator()(const model::BatchNormGradient& op) const;
  void operator()(const model::BatchNormInference& op) const;
  void operator()(const model::BatchNormInferenceGradient& op) const;

 private:
  // Divides a sum over all rows of the batch by the number of rows that `operand` has.
  View MeanOf(const View& sum, std::size_t operand) const;
  void Divide(const View& out, const View& sum, std::size_t operand) const;
  // Each column's mean and 1 / sqrt(variance + epsilon), over the rows of the first operand.
  View Statistics(const View& sums, const View& squares, float epsilon) const;
  // As Statistics, with a mean and a variance that are parameters.
  View GivenStatistics(const View& mean, const View& variance, float epsilon) const;
  // Operands: x, scale, dy, statistics.
  void NormGradient(std::int64_t kind) const;
  // Operands: x, dy, statistics.
  void NormScaleGradient() const;
};

}  // namespace acan
