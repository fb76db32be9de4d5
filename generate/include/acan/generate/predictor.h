// Predictor: computes a model's outputs for whole samples on one device. It runs the same calls
// that training's tasks are made of, always in exact precision, so its outputs have the same bits
// on every device.
//
// The whole model and one sample must fit into the device's memory. For one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "acan/core/device.h"
#include "acan/manager/lowered_graph.h"
#include "acan/manager/model_file.h"
#include "acan/manager/row_calls.h"
#include "acan/manager/sample_set.h"

namespace acan {

class Predictor {
 public:
  // Uploads the weights. `output` is one of the outputs of `graph`; if it is not, the constructor
  // throws Error (usage) that lists them. `training` is that of the job; its block decides the
  // order of sums. Throws OutOfMemory as Device does.
  Predictor(std::unique_ptr<Device> device, const model::Graph& graph, const ModelReader& weights,
            const std::string& output, Training training = {});

  std::int64_t rows() const { return rows_; }  // of the output for one sample
  std::int64_t features() const { return features_; }

  // The output for one sample, [rows, features]. REQUIRES: `samples` has the graph's inputs that
  // the output depends on.
  std::vector<float> Predict(const SampleSet& samples, std::int64_t sample) const;

 private:
  const std::unique_ptr<Device> device_;
  std::int64_t rows_ = 0;
  std::int64_t features_ = 0;
  std::unique_ptr<const LoweredGraph> graph_;
  RowCalls calls_;
  std::vector<BufferPtr> buffers_;  // for the calls: weights and tables are set, others are null
};

}  // namespace acan
