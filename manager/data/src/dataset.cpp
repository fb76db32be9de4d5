#include "acan/manager/dataset.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <utility>

#include "acan/manager/sha256.h"

namespace acan {
namespace {

using model::InputRole;

template <typename T>
void AddValues(const std::vector<T>& values, Sha256* hash) {
  if (!values.empty()) hash->Add(values.data(), values.size() * sizeof(T));
}

}  // namespace

std::string HashOf(const SampleValues& values) {
  Sha256 hash;
  const std::int64_t shape[] = {values.samples, values.inputs, values.targets};
  hash.Add(shape, sizeof shape);
  AddValues(values.bytes, &hash);
  AddValues(values.floats, &hash);
  AddValues(values.labels, &hash);
  AddValues(values.target_values, &hash);
  return hash.Hex();
}

DataSet::DataSet(SampleValues values, std::int64_t classes, std::string sha256)
    : values_(std::move(values)), sha256_(std::move(sha256)) {
  inputs_.push_back({"x", InputRole::kNumbers, 1, values_.inputs});
  if (values_.targets == 0) {
    inputs_.push_back({"labels", InputRole::kLabels, 1, 1, classes});
  } else {
    inputs_.push_back({"targets", InputRole::kTargets, 1, values_.targets});
  }
}

void DataSet::Copy(const SamplePart& part, std::span<std::uint32_t> out) const {
  assert(part.sample >= 0 && part.sample < samples());
  assert(FindInput(inputs_, part.input) != nullptr);
  assert(part.positions == Range({0, 1}) || part.positions.size() == 0);
  assert(static_cast<std::int64_t>(out.size()) == part.positions.size() * part.features.size());
  const auto copy = [&](const auto& values, std::int64_t columns) {
    std::memcpy(out.data(), values.data() + part.sample * columns + part.features.begin,
                out.size_bytes());
  };
  if (part.input == "labels") return copy(values_.labels, 1);
  if (part.input == "targets") return copy(values_.target_values, values_.targets);
  if (values_.bytes.empty()) return copy(values_.floats, values_.inputs);
  const std::uint8_t* from =
      values_.bytes.data() + part.sample * values_.inputs + part.features.begin;
  std::transform(from, from + out.size(), out.data(), [](std::uint8_t byte) {
    return std::bit_cast<std::uint32_t>(static_cast<float>(byte) / 255.0f);
  });
}

}  // namespace acan
