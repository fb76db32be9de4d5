#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <map>
#include <optional>
#include <stdexcept>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/manager/atomic_file.h"
#include "acan/manager/model_file.h"
#include "acan/manager/sha256.h"
#include "model_layout.h"
#include "nlohmann/json.hpp"

namespace acan {

static_assert(std::endian::native == std::endian::little,
              "safetensors holds little-endian values, written here as they lie in memory");

namespace {

using nlohmann::json;

constexpr const char* kMetadata = "__metadata__";

// Cannot happen for a graph whose names differ in files (model::Validate).
[[noreturn]] void RefuseSecond(const std::string& name) {
  throw std::logic_error(
      fmt::format("model file: two of its entries would have the name '{}'", name));
}

TensorInfo TensorOf(const model::Parameter& parameter, ParameterId id) {
  TensorInfo tensor;
  tensor.name = parameter.name;
  tensor.matrix = {id, ParameterState::kValue};
  tensor.rows = parameter.rows;
  tensor.cols = parameter.columns;
  tensor.shape = parameter.file_shape;
  tensor.layout = parameter.file_layout;
  tensor.frozen = parameter.frozen;
  return tensor;
}

// Rows of the matrix, or columns if the file has it transposed, follow each other in the file.
void HashTensor(std::size_t index, const TensorInfo& tensor, const ReadTensorPart& read,
                std::int64_t part_bytes, Sha256* hash) {
  const bool by_cols = tensor.layout == model::FileLayout::kTransposed;
  const std::int64_t lines = by_cols ? tensor.cols : tensor.rows;
  const std::int64_t in_part = std::max<std::int64_t>(1, part_bytes * lines / TensorBytes(tensor));
  for (std::int64_t begin = 0; begin < lines; begin += in_part) {
    const Range part{begin, std::min(begin + in_part, lines)};
    const Range rows = by_cols ? Range{0, tensor.rows} : part;
    const Range cols = by_cols ? part : Range{0, tensor.cols};
    const std::vector<float> values = read(index, rows, cols);
    WriteRectangle(
        tensor, TensorPlace{}, {rows.begin, cols.begin, rows.size(), cols.size()}, values,
        [hash](std::int64_t, const void* data, std::size_t bytes) { hash->Add(data, bytes); });
  }
}

}  // namespace

std::vector<TensorInfo> ModelTensors(const TrainedModel& model, int states) {
  std::map<std::string, TensorInfo> by_name;
  const std::vector<model::Parameter>& parameters = model.training.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto id = ParameterId{static_cast<std::int64_t>(i)};
    TensorInfo tensor = TensorOf(parameters[i], id);
    for (const ParameterState state : StatesOf(parameters[i].trained() ? states : 0)) {
      tensor.name = parameters[i].name + StateSuffix(state);
      tensor.matrix.state = state;
      if (!by_name.emplace(tensor.name, tensor).second) RefuseSecond(tensor.name);
    }
  }
  std::vector<TensorInfo> tensors;
  for (auto& [name, tensor] : by_name) tensors.push_back(std::move(tensor));
  return tensors;
}

struct ModelWriter::Impl {
  explicit Impl(const std::string& path) : file(path) {}

  void Begin(const TrainedModel& model, const SnapshotExtras& extras);
  json PlaceTensors(const std::vector<std::string>& counters, std::int64_t* end);
  void WriteHeader(json entries, std::map<std::string, std::string> metadata, std::int64_t end);
  // Reads all tensors back into `hash`, and calls `go_on`, if set, after each MiB.
  void HashValues(const std::function<void()>& go_on, Sha256* hash) const;
  void WriteChecksum(const std::function<void()>& go_on);

  AtomicFile file;
  std::string header;
  bool checksum = false;
  std::vector<TensorInfo> tensors;
  std::vector<TensorPlace> places;             // of `tensors`
  std::map<std::string, TensorPlace> by_name;  // including step counters
  std::int64_t values_left = 0;
};

// The header's entries, with places relative to the end of the header. Step counters come first, so
// that their 8 bytes are aligned.
json ModelWriter::Impl::PlaceTensors(const std::vector<std::string>& counters, std::int64_t* end) {
  json entries = json::object();
  *end = 0;
  const auto place = [&](const std::string& name, const char* type, const json& shape,
                         std::int64_t bytes) {
    const TensorPlace at{*end, *end + bytes};
    if (name == kMetadata || !by_name.emplace(name, at).second) RefuseSecond(name);
    entries[name] = {{"dtype", type}, {"shape", shape}, {"data_offsets", {at.begin, at.end}}};
    *end = at.end;
    return at;
  };
  for (const std::string& counter : counters) {
    place(counter, "I64", json::array(), sizeof(std::int64_t));
  }
  for (const TensorInfo& tensor : tensors) {
    places.push_back(place(tensor.name, "F32", tensor.shape, TensorBytes(tensor)));
  }
  return entries;
}

// The file begins with the header's length and the header, padded with blanks to a multiple of 8.
void ModelWriter::Impl::WriteHeader(json entries, std::map<std::string, std::string> metadata,
                                    std::int64_t end) {
  metadata["format"] = "pt";
  entries[kMetadata] = metadata;
  std::string text = JsonText(entries);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (static_cast<std::int64_t>(text.size()) > kMaxModelHeaderBytes) {
    throw UsageError(
        fmt::format("the model has too many tensors for a safetensors file: the header for its {} "
                    "tensors has {} bytes; the limit is {}",
                    tensors.size(), text.size(), kMaxModelHeaderBytes));
  }
  for (int i = 0; i < 8; ++i) header += static_cast<char>(text.size() >> (8 * i) & 0xff);
  header += text;
  const auto begin = static_cast<std::int64_t>(header.size());
  const auto move = [begin](TensorPlace& place) {
    place.begin += begin;
    place.end += begin;
  };
  for (TensorPlace& place : places) move(place);
  for (auto& [name, place] : by_name) move(place);
  file.Reserve(begin + end);
  file.WriteAt(0, header.data(), header.size());
}

void ModelWriter::Impl::Begin(const TrainedModel& model, const SnapshotExtras& extras) {
  tensors = ModelTensors(model, extras.states);
  for (const TensorInfo& tensor : tensors) values_left += tensor.rows * tensor.cols;
  const std::vector<std::string>& counters = model.training.step_counters();
  std::int64_t end = 0;
  json entries = PlaceTensors(counters, &end);
  WriteHeader(std::move(entries), extras.metadata, end);
  for (const std::string& counter : counters) {
    file.WriteAt(by_name.at(counter).begin, &extras.steps, sizeof(extras.steps));
  }
}

void ModelWriter::Impl::HashValues(const std::function<void()>& go_on, Sha256* hash) const {
  std::vector<TensorPlace> all;
  for (const auto& [name, place] : by_name) all.push_back(place);
  HashTensors(
      all,
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

ModelWriter::ModelWriter(const std::string& path, const TrainedModel& model, std::int64_t steps)
    : impl_(std::make_unique<Impl>(path)) {
  SnapshotExtras extras;
  extras.steps = steps;
  impl_->Begin(model, extras);
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
  WriteRectangle(impl_->tensors[index], impl_->places[index], {row, col, rows, cols}, values,
                 [this](std::int64_t offset, const void* data, std::size_t bytes) {
                   impl_->file.WriteAt(offset, data, bytes);
                 });
  impl_->values_left -= rows * cols;
}

std::string ModelWriter::Finish(const std::function<void()>& go_on,
                                const std::function<void()>& before_rename) {
  if (impl_->values_left != 0) {
    throw std::logic_error(
        fmt::format("model file: {} values were not written exactly once", impl_->values_left));
  }
  Sha256 hash;
  impl_->HashValues(go_on, &hash);
  if (impl_->checksum) impl_->WriteChecksum(go_on);
  impl_->file.Commit(before_rename);
  return hash.Hex();
}

std::string HashModel(const TrainedModel& model, std::int64_t steps, const ReadTensorPart& read,
                      std::int64_t part_bytes) {
  const std::vector<TensorInfo> tensors = ModelTensors(model);
  std::map<std::string, std::optional<std::size_t>> entries;  // nullopt: a step counter
  for (const std::string& counter : model.training.step_counters()) entries[counter] = std::nullopt;
  for (std::size_t index = 0; index < tensors.size(); ++index) entries[tensors[index].name] = index;
  Sha256 hash;
  for (const auto& [name, index] : entries) {
    if (index) {
      HashTensor(*index, tensors[*index], read, part_bytes, &hash);
    } else {
      hash.Add(&steps, sizeof(steps));
    }
  }
  return hash.Hex();
}

}  // namespace acan
