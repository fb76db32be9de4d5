#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <map>
#include <stdexcept>

#include "acan/core/json_text.h"
#include "acan/manager/atomic_file.h"
#include "acan/manager/model_file.h"
#include "acan/manager/sha256.h"
#include "model_layout.h"
#include "nlohmann/json.hpp"

namespace acan {

static_assert(std::endian::native == std::endian::little,
              "safetensors holds little-endian values, written here as they lie in memory");

std::vector<TensorInfo> ModelTensors(const TrainedModel& model, int states) {
  std::map<std::string, TensorInfo> by_name;
  for (const Parameter& parameter : ParametersOf(*model.perceptron)) {
    for (const ParameterState state : StatesOf(states)) {
      by_name.emplace(parameter.Name(state), TensorInfo{parameter, state});
    }
  }
  std::vector<TensorInfo> tensors;
  for (const auto& [name, tensor] : by_name) tensors.push_back(tensor);
  return tensors;
}

void ForEachRun(const TensorInfo& tensor, const TensorPlace& place, std::int64_t row,
                std::int64_t col, std::int64_t rows, std::int64_t cols,
                const std::function<void(std::int64_t, std::size_t, std::size_t)>& run) {
  assert(row >= 0 && rows >= 0 && row + rows <= tensor.rows());
  assert(col >= 0 && cols >= 0 && col + cols <= tensor.cols());
  if (rows == 0 || cols == 0) return;
  // Whole rows lie one after the other: one stretch.
  const std::int64_t stretches = cols == tensor.cols() ? 1 : rows;
  const std::int64_t count = cols == tensor.cols() ? rows * cols : cols;
  for (std::int64_t i = 0; i < stretches; ++i) {
    const std::int64_t element = (row + i) * tensor.cols() + col;
    run(place.begin + element * static_cast<std::int64_t>(sizeof(float)),
        static_cast<std::size_t>(i * cols), static_cast<std::size_t>(count));
  }
}

void HashTensors(const std::vector<TensorPlace>& places, const ReadBytes& read, Sha256* hash) {
  constexpr std::int64_t kChunkBytes = 1 << 20;
  std::vector<char> chunk(kChunkBytes);
  for (const TensorPlace& place : places) {
    for (std::int64_t at = place.begin; at < place.end; at += kChunkBytes) {
      const auto bytes = static_cast<std::size_t>(std::min(kChunkBytes, place.end - at));
      read(at, chunk.data(), bytes);
      hash->Add(chunk.data(), bytes);
    }
  }
}

namespace {

// The file's beginning: the header's length, the header, blanks up to a multiple of 8.
std::string HeaderBytes(const std::vector<TensorInfo>& tensors,
                        std::map<std::string, std::string> metadata) {
  metadata["format"] = "pt";
  nlohmann::json header = {{"__metadata__", metadata}};
  std::int64_t offset = 0;
  for (const TensorInfo& tensor : tensors) {
    const std::int64_t end = offset + TensorBytes(tensor);
    nlohmann::json shape = {tensor.rows()};
    if (!tensor.parameter.IsBias()) shape.push_back(tensor.cols());
    header[tensor.Name()] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = JsonText(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(text.size() >> (8 * i) & 0xff);
  return bytes + text;
}

}  // namespace

struct ModelWriter::Impl {
  explicit Impl(const std::string& path) : file(path) {}

  void Begin(const TrainedModel& model, const SnapshotExtras& extras);
  // Reads all tensors back into `hash`, and calls `go_on`, if there is one, after each MiB.
  void HashValues(const std::function<void()>& go_on, Sha256* hash) const;
  void WriteChecksum(const std::function<void()>& go_on);

  AtomicFile file;
  std::string header;
  bool checksum = false;
  std::vector<TensorInfo> tensors;
  std::vector<TensorPlace> places;
  std::int64_t values_left = 0;
};

void ModelWriter::Impl::Begin(const TrainedModel& model, const SnapshotExtras& extras) {
  tensors = ModelTensors(model, extras.states);
  header = HeaderBytes(tensors, extras.metadata);
  auto offset = static_cast<std::int64_t>(header.size());
  for (const TensorInfo& tensor : tensors) {
    places.push_back({offset, offset + TensorBytes(tensor)});
    offset += TensorBytes(tensor);
    values_left += tensor.rows() * tensor.cols();
  }
  file.Reserve(offset);
  file.WriteAt(0, header.data(), header.size());
}

void ModelWriter::Impl::HashValues(const std::function<void()>& go_on, Sha256* hash) const {
  HashTensors(
      places,
      [&](std::int64_t offset, void* data, std::size_t bytes) {
        file.ReadAt(offset, data, bytes);
        if (go_on) go_on();
      },
      hash);
}

void ModelWriter::Impl::WriteChecksum(const std::function<void()>& go_on) {
  Sha256 hash;
  hash.Add(header.data(), header.size());
  HashValues(go_on, &hash);
  const std::string digits = hash.Hex();
  file.WriteAt(static_cast<std::int64_t>(ChecksumPlace(header)), digits.data(), digits.size());
}

ModelWriter::ModelWriter(const std::string& path, const TrainedModel& model)
    : impl_(std::make_unique<Impl>(path)) {
  impl_->Begin(model, {});
}

ModelWriter::ModelWriter(const std::string& path, const TrainedModel& model,
                         const SnapshotExtras& extras)
    : impl_(std::make_unique<Impl>(path)) {
  SnapshotExtras with_checksum = extras;
  with_checksum.metadata[kChecksumName] = kNoChecksum;
  impl_->checksum = true;
  impl_->Begin(model, with_checksum);
}

ModelWriter::~ModelWriter() = default;

void ModelWriter::Write(std::size_t index, std::int64_t row, std::int64_t col, std::int64_t rows,
                        std::int64_t cols, std::span<const float> values) {
  assert(index < impl_->tensors.size());
  assert(static_cast<std::int64_t>(values.size()) == rows * cols);
  ForEachRun(impl_->tensors[index], impl_->places[index], row, col, rows, cols,
             [&](std::int64_t offset, std::size_t first, std::size_t count) {
               impl_->file.WriteAt(offset, values.data() + first, count * sizeof(float));
             });
  impl_->values_left -= rows * cols;
}

std::string ModelWriter::Finish(const std::function<void()>& go_on) {
  if (impl_->values_left != 0) {
    throw std::logic_error(
        fmt::format("model file: {} values were not written exactly once", impl_->values_left));
  }
  Sha256 hash;
  impl_->HashValues(go_on, &hash);
  if (impl_->checksum) impl_->WriteChecksum(go_on);
  impl_->file.Commit();
  return hash.Hex();
}

}  // namespace acan
