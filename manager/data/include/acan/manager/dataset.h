// DataSet: samples from IDX, NPY or CSV files, or generated.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "acan/manager/job.h"

namespace acan {

// All samples in memory. Immutable after loading: safe to read from any thread.
struct DataSet {
  std::int64_t samples = 0;
  std::int64_t inputs = 0;           // values of one sample
  std::int64_t targets = 0;          // values of one target; 0: class labels
  std::vector<std::uint8_t> bytes;   // [samples, inputs] if the file had uint8, else empty
  std::vector<float> floats;         // [samples, inputs] otherwise
  std::vector<std::int32_t> labels;  // [samples] if targets == 0
  std::vector<float> target_values;  // [samples, targets] otherwise
  std::string sha256;                // of the values in memory: shapes, then inputs, then targets

  // Writes sample `row`'s inputs as floats (uint8 is scaled: value / 255.0f, correctly rounded).
  void CopyInputs(std::int64_t row, std::int64_t first, std::span<float> out) const;
};

struct Data {
  DataSet train;
  DataSet test;  // samples == 0: none
};

// Reads and checks the job's data. `model` says what must come out: inputs, outputs, labels in
// [0, outputs). Throws Error (usage) that names the file, the place in it, the value found and what
// would be right.
Data LoadData(const Job& job);

// The order of an epoch: a permutation of [0, samples), a pure function of (seed, epoch) by Philox
// (Fisher-Yates from the end with unbiased bounded draws); file order if !shuffle.
std::vector<std::int64_t> EpochOrder(std::int64_t samples, std::uint64_t seed, std::int64_t epoch,
                                     bool shuffle);

}  // namespace acan
