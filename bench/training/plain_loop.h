// The same training as acan's as one plain loop: the same kernels on one device, whole layers, no
// space, no tasks, no other process. It is the reference for the cost of the tuple space. It does
// the same arithmetic in the same order, so its weights must have the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "acan/core/device.h"
#include "acan/manager/job.h"
#include "acan/manager/sample_set.h"

namespace acan::bench {

class PlainLoop {
 public:
  // `device` must have room for the model, its gradients and the activations of one batch.
  // The data must outlive this. Weights are drawn from the seed.
  PlainLoop(Device& device, const Job& job, const SampleSet& data);

  std::int64_t total_steps() const { return total_steps_; }
  // Runs step `step`; steps must come in order from 0. Returns the mean loss.
  double Step(std::int64_t step);
  // SHA-256 of the current weights, as acan prints it.
  std::string WeightsSha256();

 private:
  struct Tensor {
    BufferPtr values, spare, gradient;
    std::vector<BufferPtr> state, spare_state;
    std::int64_t rows = 0, cols = 0;
  };
  struct Layer {
    Tensor weight, bias;
    BufferPtr sums, activation, delta;  // [batch, outputs]; sums only where gelu needs them
  };
  Matrix View(const BufferPtr& buffer, std::int64_t rows, std::int64_t cols) const;
  Tensor MakeTensor(int number, std::int64_t rows, std::int64_t cols, std::int64_t fan_in);
  void LoadBatch(std::int64_t step, std::int64_t rows);
  double ForwardAndLoss(std::int64_t rows);
  void BackwardAndUpdate(std::int64_t rows, const KernelScalars& scalars);
  KernelArgs UpdateArgs(const Tensor& tensor, const BufferPtr& gradient,
                        const KernelScalars& scalars) const;
  void TakeSpares(Tensor& tensor);

  Device& device_;
  const Job& job_;
  const SampleSet& data_;
  std::int64_t total_steps_;
  std::int64_t target_columns_;
  std::vector<Layer> layers_;
  BufferPtr inputs_, targets_, per_row_, loss_;
  std::pair<std::int64_t, std::vector<std::int64_t>> order_{-1, {}};
};

}  // namespace acan::bench
