#include "value_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "acan/core/error.h"
#include "acan/core/ieee_mode.h"
#include "acan/manager/input_file.h"
#include "acan/manager/job.h"

namespace acan {
namespace {

std::string Place(std::size_t index, std::int64_t values_per_sample) {
  const auto at = static_cast<std::int64_t>(index);
  return fmt::format("sample {}, value {}", at / values_per_sample, at % values_per_sample);
}

// Converts any number type to finite floats.
std::vector<float> ToFloats(Array&& array) {
  const IeeeMode ieee;  // the same values in every process
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

void SetInputs(Array&& array, std::int64_t inputs, SampleValues* set) {
  CheckSamples(array);
  if (array.values_per_sample() != inputs) {
    throw UsageError(
        fmt::format("{}: has {} values per sample (shape {}), but the model "
                    "takes {} (model.layers, or the input \"x\" of a graph file)",
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
    // Beyond 2^24, fp32 skips whole numbers.
    const auto wide = static_cast<double>(values[i]);
    const bool whole = std::is_integral_v<T> || (wide == std::floor(wide) && wide < (1 << 24));
    if (!whole) {
      throw UsageError(fmt::format("{}: the label of sample {} is {}, expected a whole number",
                                   path, i, values[i]));
    }
    if (!(values[i] >= T{0} && static_cast<double>(values[i]) < static_cast<double>(classes))) {
      throw UsageError(
          fmt::format("{}: the label of sample {} is {}, but the model has {} classes "
                      "(model.layers, or the bound of \"labels\"): expected 0 to {}",
                      path, i, values[i], classes, classes - 1));
    }
    labels[i] = static_cast<std::int32_t>(static_cast<double>(values[i]));
  }
  return labels;
}

void SetTargets(Array&& array, const std::string& inputs_path, const WantedValues& wanted,
                SampleValues* set) {
  if (array.samples() != set->samples) {
    throw UsageError(fmt::format("{}: has {} samples, but {} has {}", array.path, array.samples(),
                                 inputs_path, set->samples));
  }
  const std::int64_t per_sample = array.values_per_sample();
  if (wanted.labels) {
    if (per_sample != 1) {
      throw UsageError(
          fmt::format("{}: has {} values per sample (shape {}), expected one class label "
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
        fmt::format("{}: has {} values per sample (shape {}), but the model "
                    "takes {} (model.layers, or the input \"targets\" of a graph file)",
                    array.path, per_sample, ShapeText(array.shape), wanted.outputs));
  }
  set->targets = per_sample;
  if (const auto* bytes = std::get_if<std::vector<std::uint8_t>>(&array.values)) {
    // Scaled like inputs, because an autoencoder's targets are its inputs.
    set->scaled_targets = true;
    set->target_values.resize(bytes->size());
    std::transform(bytes->begin(), bytes->end(), set->target_values.begin(),
                   [](std::uint8_t byte) { return static_cast<float>(byte) / 255.0f; });
  } else {
    set->target_values = ToFloats(std::move(array));
  }
}

}  // namespace

SampleValues ReadValueFiles(const std::string& inputs, const std::string& targets,
                            const WantedValues& wanted) {
  SampleValues values;
  SetInputs(ReadArray(inputs), wanted.inputs, &values);
  if (!targets.empty()) SetTargets(ReadArray(targets), inputs, wanted, &values);
  return values;
}

}  // namespace acan
