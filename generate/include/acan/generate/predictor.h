// Predictor: computes a model's outputs for whole samples on one device. It runs the same calls
// that training's tasks are made of, always in exact precision, so its outputs have the same bits
// on every device. It computes several samples at once, because the weights are then read once for
// all of them; how many does not change a bit.
//
// The whole model and one sample must fit into the device's memory. For one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "acan/core/device.h"
#include "acan/generate/output_graph.h"
#include "acan/manager/model_file.h"
#include "acan/manager/row_calls.h"
#include "acan/manager/sample_set.h"

namespace acan {

class Predictor {
 public:
  // Uploads the weights. `output` is one of the outputs of `graph`; if it is not, the constructor
  // throws Error (usage) that lists them, and so it does if the output needs labels or targets.
  // `training` is that of the job; its block decides the order of sums. Throws OutOfMemory as
  // Device does.
  Predictor(std::unique_ptr<Device> device, const model::Graph& graph, const ModelReader& weights,
            const std::string& output, Training training = {});

  std::int64_t rows() const { return rows_; }  // of the output for one sample
  std::int64_t features() const { return features_; }

  // The most samples that are computed at once. It falls when they do not fit into the device's
  // memory.
  std::int64_t samples_at_once() const { return samples_at_once_; }

  // The outputs for some samples, [samples x rows, features]. Throws OutOfMemory if a single one
  // does not fit. REQUIRES: `samples` has the graph's inputs that the output depends on.
  std::vector<float> Predict(const SampleSet& samples, const Range& of);

 private:
  // The calls for one number of samples, and their buffers: weights and tables are set, others are
  // null.
  struct Calls {
    RowCalls rows;
    std::vector<BufferPtr> buffers;
  };
  const Calls& CallsFor(std::int64_t samples);
  std::vector<float> Compute(const SampleSet& samples, const Range& of);

  const std::unique_ptr<Device> device_;
  const Training training_;
  const OutputGraph graph_;
  std::int64_t rows_ = 0;
  std::int64_t features_ = 0;
  std::vector<BufferPtr> of_parameters_;
  std::vector<BufferPtr> of_tables_;
  std::int64_t samples_at_once_ = 1;
  std::map<std::int64_t, Calls> calls_;  // by the number of samples
};

}  // namespace acan
