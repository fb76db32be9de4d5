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

DataSet::DataSet(SampleValues values, std::vector<WantedInput> inputs, std::string sha256)
    : values_(std::move(values)), sha256_(std::move(sha256)), inputs_(std::move(inputs)) {}

void DataSet::Copy(const SamplePart& part, std::span<std::uint32_t> out) const {
  assert(part.sample >= 0 && part.sample < samples());
  const WantedInput* input = FindInput(inputs_, part.input);
  assert(input != nullptr && Range({0, input->positions}).Contains(part.positions));
  assert(static_cast<std::int64_t>(out.size()) == part.positions.size() * part.features.size());
  const auto width = static_cast<std::size_t>(part.features.size());
  for (std::int64_t p = part.positions.begin; p < part.positions.end; ++p) {
    const std::int64_t row = part.sample * input->positions + p;
    CopyRow(part.input, row * input->features + part.features.begin, out.first(width));
    out = out.subspan(width);
  }
}

// Copies consecutive values, beginning at `first`.
void DataSet::CopyRow(std::string_view input, std::int64_t first,
                      std::span<std::uint32_t> out) const {
  const auto copy = [&](const auto& values) {
    std::memcpy(out.data(), values.data() + first, out.size_bytes());
  };
  if (input == "labels") return copy(values_.labels);
  if (input == "targets") return copy(values_.target_values);
  if (values_.bytes.empty()) return copy(values_.floats);
  const std::uint8_t* from = values_.bytes.data() + first;
  std::transform(from, from + out.size(), out.data(), [](std::uint8_t byte) {
    return std::bit_cast<std::uint32_t>(static_cast<float>(byte) / 255.0f);
  });
}

}  // namespace acan
