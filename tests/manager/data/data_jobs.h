// Jobs over files in a test folder.
#pragma once

#include <string>

#include "acan/manager/dataset.h"
#include "test_files.h"

namespace acan {

inline Job ClassJob(std::int64_t inputs, std::int64_t classes, const std::string& train_inputs,
                    const std::string& train_labels) {
  Job job;
  job.perceptron().layers = {inputs, classes};
  job.data.train_inputs = train_inputs;
  job.data.train_targets = train_labels;
  return job;
}

inline Job ValueJob(std::int64_t inputs, std::int64_t outputs, const std::string& train_inputs,
                    const std::string& train_targets) {
  Job job = ClassJob(inputs, outputs, train_inputs, train_targets);
  job.perceptron().loss = Loss::kMeanSquaredError;
  return job;
}

inline std::vector<float> Inputs(const DataSet& set) {
  std::vector<float> all(static_cast<std::size_t>(set.samples * set.inputs));
  for (std::int64_t row = 0; row < set.samples; ++row) {
    set.CopyInputs(row, 0,
                   std::span(all).subspan(static_cast<std::size_t>(row * set.inputs),
                                          static_cast<std::size_t>(set.inputs)));
  }
  return all;
}

// Two samples of two inputs from `inputs`, labels 0 and 1 from a file that is right.
class TwoByTwo {
 public:
  TwoByTwo() { folder_.Write("y", "0\n1\n"); }
  DataSet Load(const std::string& inputs) const {
    folder_.Write("x", inputs);
    return LoadData(ClassJob(2, 2, folder_.Path("x"), folder_.Path("y"))).train;
  }
  void Refused(const std::string& inputs, std::vector<std::string> parts) const {
    parts.push_back(folder_.Path("x"));
    ExpectError([&] { Load(inputs); }, parts);
  }

 private:
  TestFolder folder_;
};

}  // namespace acan
