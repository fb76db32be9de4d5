// Jobs that use files in a test folder.
#pragma once

#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "acan/manager/load_data.h"
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

// All values of an input, sample by sample, as a pass in `epoch` puts them.
inline std::vector<std::uint32_t> Words(const SampleSet& set, const std::string& input,
                                        std::int64_t epoch = 0) {
  const WantedInput* of = FindInput(set.inputs(), input);
  if (of == nullptr) return {};
  const auto count = static_cast<std::size_t>(of->positions * of->features);
  std::vector<std::uint32_t> all(static_cast<std::size_t>(set.samples()) * count);
  for (std::int64_t sample = 0; sample < set.samples(); ++sample) {
    set.Copy({input, sample, epoch, {0, of->positions}, {0, of->features}},
             std::span(all).subspan(static_cast<std::size_t>(sample) * count, count));
  }
  return all;
}

inline std::vector<float> Floats(const SampleSet& set, const std::string& input,
                                 std::int64_t epoch = 0) {
  std::vector<float> all;
  for (const std::uint32_t word : Words(set, input, epoch)) {
    all.push_back(std::bit_cast<float>(word));
  }
  return all;
}

inline std::vector<std::int32_t> Integers(const SampleSet& set, const std::string& input,
                                          std::int64_t epoch = 0) {
  const std::vector<std::uint32_t> words = Words(set, input, epoch);
  return {words.begin(), words.end()};
}

inline std::vector<float> Inputs(const SampleSet& set) {
  return Floats(set, "x");
}

// Two samples of two inputs from `inputs`, with the labels 0 and 1 from a valid file.
class TwoByTwo {
 public:
  TwoByTwo() { folder_.Write("y", "0\n1\n"); }
  std::shared_ptr<const SampleSet> Load(const std::string& inputs) const {
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
