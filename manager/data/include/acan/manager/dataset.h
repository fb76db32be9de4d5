// DataSet: samples in memory, each with numbers and a label or targets, as a multi-layer perceptron
// takes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "acan/manager/sample_set.h"

namespace acan {

struct SampleValues {
  std::int64_t samples = 0;
  std::int64_t inputs = 0;           // values of one sample
  std::int64_t targets = 0;          // values of one target; 0: class labels
  std::vector<std::uint8_t> bytes;   // [samples, inputs] if the file had uint8, else empty
  std::vector<float> floats;         // [samples, inputs] otherwise
  std::vector<std::int32_t> labels;  // [samples] if targets == 0
  std::vector<float> target_values;  // [samples, targets] otherwise
  bool scaled_targets = false;       // the file had uint8
};

// The hash of the values in memory: shapes, then inputs, then targets.
std::string HashOf(const SampleValues& values);

class DataSet final : public SampleSet {
 public:
  // `inputs` are "x", and "labels" or "targets". A sample of `values` has (positions x features)
  // values of each input, row by row. uint8 inputs are scaled: value / 255.0f, correctly rounded.
  DataSet(SampleValues values, std::vector<WantedInput> inputs, std::string sha256);

  std::int64_t samples() const override { return values_.samples; }
  const std::string& sha256() const override { return sha256_; }
  const std::vector<WantedInput>& inputs() const override { return inputs_; }
  void Copy(const SamplePart& part, std::span<std::uint32_t> out) const override;

 private:
  void CopyRow(std::string_view input, std::int64_t first, std::span<std::uint32_t> out) const;

  SampleValues values_;
  std::string sha256_;
  std::vector<WantedInput> inputs_;
};

}  // namespace acan
