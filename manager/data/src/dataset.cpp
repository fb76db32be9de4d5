#include "acan/manager/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cmath>
#include <new>
#include <numeric>

#include "acan/core/error.h"
#include "acan/core/philox.h"
#include "acan/core/system_error_text.h"
#include "acan/manager/sha256.h"
#include "generated.h"
#include "input_file.h"

namespace acan {
namespace {

// What the model wants of a data set.
struct Wanted {
  std::int64_t inputs;
  std::int64_t outputs;
  bool labels;
};

std::string Place(std::size_t index, std::int64_t values_per_sample) {
  const auto at = static_cast<std::int64_t>(index);
  return fmt::format("sample {}, value {}", at / values_per_sample, at % values_per_sample);
}

// Any number type to finite floats.
std::vector<float> ToFloats(Array&& array) {
  const std::int64_t per_sample = array.values_per_sample();
  const auto check = [&](float value, auto original, std::size_t index) {
    if (std::isfinite(value)) return;
    throw UsageError(fmt::format("{}: {} is {}, expected a finite 32-bit number", array.path,
                                 Place(index, per_sample), original));
  };
  if (auto* floats = std::get_if<std::vector<float>>(&array.values)) {
    for (std::size_t i = 0; i < floats->size(); ++i) check((*floats)[i], (*floats)[i], i);
    return std::move(*floats);
  }
  std::vector<float> result;
  std::visit(
      [&](const auto& values) {
        result.resize(values.size());
        for (std::size_t i = 0; i < values.size(); ++i) {
          result[i] = static_cast<float>(values[i]);
          check(result[i], values[i], i);
        }
      },
      array.values);
  return result;
}

void CheckSamples(const Array& array) {
  if (array.samples() > kMaxSamples) {
    throw UsageError(fmt::format("{}: has {} samples; the limit is {}", array.path, array.samples(),
                                 kMaxSamples));
  }
}

void SetInputs(Array&& array, std::int64_t inputs, DataSet* set) {
  CheckSamples(array);
  if (array.values_per_sample() != inputs) {
    throw UsageError(
        fmt::format("{}: has {} values a sample (shape {}), but the first entry of "
                    "model.layers says {} inputs",
                    array.path, array.values_per_sample(), ShapeText(array.shape), inputs));
  }
  set->samples = array.samples();
  set->inputs = inputs;
  if (auto* bytes = std::get_if<std::vector<std::uint8_t>>(&array.values)) {
    set->bytes = std::move(*bytes);
  } else {
    set->floats = ToFloats(std::move(array));
  }
}

template <typename T>
std::vector<std::int32_t> ToLabels(const std::string& path, const std::vector<T>& values,
                                   std::int64_t classes) {
  std::vector<std::int32_t> labels(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool whole = std::is_integral_v<T> ||
                       static_cast<double>(values[i]) == std::floor(static_cast<double>(values[i]));
    if (!whole) {
      throw UsageError(fmt::format("{}: the label of sample {} is {}, expected a whole number",
                                   path, i, values[i]));
    }
    if (!(values[i] >= T{0} && static_cast<double>(values[i]) < static_cast<double>(classes))) {
      throw UsageError(
          fmt::format("{}: the label of sample {} is {}, but the model has {} outputs "
                      "(the last entry of model.layers): expected 0 to {}",
                      path, i, values[i], classes, classes - 1));
    }
    labels[i] = static_cast<std::int32_t>(values[i]);
  }
  return labels;
}

void SetTargets(Array&& array, const std::string& inputs_path, const Wanted& wanted, DataSet* set) {
  if (array.samples() != set->samples) {
    throw UsageError(fmt::format("{}: has {} samples, but {} has {}", array.path, array.samples(),
                                 inputs_path, set->samples));
  }
  const std::int64_t per_sample = array.values_per_sample();
  if (wanted.labels) {
    if (per_sample != 1) {
      throw UsageError(
          fmt::format("{}: has {} values a sample (shape {}), expected one class label "
                      "each",
                      array.path, per_sample, ShapeText(array.shape)));
    }
    set->labels =
        std::visit([&](const auto& values) { return ToLabels(array.path, values, wanted.outputs); },
                   array.values);
    return;
  }
  if (per_sample != wanted.outputs) {
    throw UsageError(
        fmt::format("{}: has {} values a sample (shape {}), but the last entry of "
                    "model.layers says {} outputs",
                    array.path, per_sample, ShapeText(array.shape), wanted.outputs));
  }
  set->targets = per_sample;
  if (const auto* bytes = std::get_if<std::vector<std::uint8_t>>(&array.values)) {
    // As for inputs: an autoencoder's targets are its inputs.
    set->target_values.resize(bytes->size());
    std::transform(bytes->begin(), bytes->end(), set->target_values.begin(),
                   [](std::uint8_t byte) { return static_cast<float>(byte) / 255.0f; });
  } else {
    set->target_values = ToFloats(std::move(array));
  }
}

template <typename T>
void AddValues(const std::vector<T>& values, Sha256* hash) {
  if (!values.empty()) hash->Add(values.data(), values.size() * sizeof(T));
}

void SetHash(DataSet* set) {
  Sha256 hash;
  const std::int64_t shape[] = {set->samples, set->inputs, set->targets};
  hash.Add(shape, sizeof shape);
  AddValues(set->bytes, &hash);
  AddValues(set->floats, &hash);
  AddValues(set->labels, &hash);
  AddValues(set->target_values, &hash);
  set->sha256 = hash.Hex();
}

DataSet LoadSet(const std::string& inputs, const std::string& targets, const Wanted& wanted) {
  DataSet set;
  SetInputs(ReadArray(inputs), wanted.inputs, &set);
  SetTargets(ReadArray(targets), inputs, wanted, &set);
  return set;
}

// Unbiased draws below a bound: words of Philox in order, those of the incomplete last round of the
// bound rejected.
class BoundedDraws {
 public:
  BoundedDraws(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}

  std::uint64_t Below(std::uint64_t bound) {
    const std::uint64_t rejected = (0 - bound) % bound;  // 2^64 mod bound
    for (;;) {
      const std::uint64_t word = Next();
      if (word >= rejected) return word % bound;
    }
  }

 private:
  std::uint64_t Next() {
    const acan_philox4 words = acan_philox(seed_, counter_ / 2, stream_);
    const std::size_t at = 2 * (counter_++ % 2);
    return std::uint64_t{words.v[at]} | std::uint64_t{words.v[at + 1]} << 32;
  }

  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t counter_ = 0;
};

}  // namespace

void DataSet::CopyInputs(std::int64_t row, std::int64_t first, std::span<float> out) const {
  assert(row >= 0 && row < samples);
  assert(first >= 0 && first + static_cast<std::int64_t>(out.size()) <= inputs);
  const std::int64_t begin = row * inputs + first;
  if (bytes.empty()) {
    std::copy_n(floats.begin() + begin, out.size(), out.begin());
    return;
  }
  const std::uint8_t* from = bytes.data() + begin;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(from[i]) / 255.0f;
}

namespace {

Data Load(const Job& job) {
  const Wanted wanted{job.perceptron().layers.front(), job.perceptron().layers.back(),
                      job.perceptron().loss == Loss::kCrossEntropy};
  Data data;
  if (!job.data.generated.empty()) {
    data = GenerateRegression(job.data.generated_samples, wanted.inputs, wanted.outputs,
                              job.training.seed);
  } else {
    data.train = LoadSet(job.data.train_inputs, job.data.train_targets, wanted);
    if (!job.data.test_inputs.empty()) {
      data.test = LoadSet(job.data.test_inputs, job.data.test_targets, wanted);
    }
  }
  SetHash(&data.train);
  if (data.test.samples > 0) SetHash(&data.test);
  return data;
}

}  // namespace

Data LoadData(const Job& job) {
  try {
    return Load(job);
  } catch (const std::bad_alloc&) {
    throw FailureError(fmt::format(
        "{}: the data does not fit into this machine's memory: {}",
        job.data.generated.empty()
            ? job.data.train_inputs
            : fmt::format("data.generated, data.samples = {}", job.data.generated_samples),
        SystemErrorText(ENOMEM)));
  }
}

std::vector<std::int64_t> EpochOrder(std::int64_t samples, std::uint64_t seed, std::int64_t epoch,
                                     bool shuffle) {
  assert(samples >= 0 && epoch >= 0);
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), 0);
  if (!shuffle) return order;
  BoundedDraws draws(seed, RandomStream(RandomUse::kEpochOrder, static_cast<std::uint64_t>(epoch)));
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[draws.Below(i)]);
  }
  return order;
}

}  // namespace acan
