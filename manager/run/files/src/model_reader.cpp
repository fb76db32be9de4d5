#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "acan/core/error.h"
#include "acan/core/json_text.h"
#include "acan/core/optimizers.h"
#include "acan/manager/job.h"
#include "acan/manager/model_file.h"
#include "acan/manager/sha256.h"
#include "model_layout.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

using nlohmann::json;

// A tensor's entry of the header.
struct Entry {
  std::vector<std::int64_t> shape;
  TensorPlace place;
};

// "layers.3.weight" -> (3, the value); nullopt for any other name.
struct LayerName {
  int layer;
  int states;  // that a file with this tensor must have
};
std::optional<LayerName> ParseName(const std::string& name) {
  constexpr std::string_view kPrefix = "layers.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int layer = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, layer);
  if (error != std::errc() || layer < 0) return std::nullopt;
  Parameter parameter;
  parameter.layer = layer;
  for (const ParameterRole role : {ParameterRole::kWeight, ParameterRole::kBias}) {
    parameter.role = role;
    for (int states = 0; states <= kMostOptimizerStates; ++states) {
      // Written back to refuse "layers.01.weight".
      if (name == parameter.Name(StatesOf(states).back())) return LayerName{layer, states};
    }
  }
  return std::nullopt;
}

}  // namespace

struct ModelReader::Impl {
  ~Impl() {
    if (descriptor >= 0) ::close(descriptor);
  }

  [[noreturn]] void Refuse(const std::string& what) const {
    throw UsageError(fmt::format("{}: {}", path, what));
  }
  void Open();
  void ReadAt(std::int64_t offset, void* data, std::size_t bytes) const;
  json ReadHeader();
  void ReadMetadata(const json& value);
  Entry ParseEntry(const std::string& name, const json& value) const;
  void CheckPlaces(const std::map<std::string, Entry>& entries) const;
  void CheckLayers(const std::map<std::string, Entry>& entries);
  void CheckBias(const std::map<std::string, Entry>& entries, int layer,
                 std::int64_t outputs) const;
  void CheckStates(const std::map<std::string, Entry>& entries) const;

  std::string path;
  int descriptor = -1;
  std::int64_t file_bytes = 0;
  std::int64_t data_begin = 0;
  std::map<std::string, std::string> metadata;
  Model model{.layers = {}, .loss = Loss::kMeanSquaredError};  // only its layers; any fit this loss
  int states = 0;
  std::vector<TensorInfo> tensors;
  std::vector<TensorPlace> places;
};

void ModelReader::Impl::Open() {
  descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) Refuse(fmt::format("cannot open: {}", std::strerror(errno)));
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    Refuse("is a directory or device, expected a safetensors file");
  }
  file_bytes = status.st_size;
}

void ModelReader::Impl::ReadAt(std::int64_t offset, void* data, std::size_t bytes) const {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor, to, bytes, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw FailureError(fmt::format("{}: cannot read: {}", path, std::strerror(errno)));
    }
    if (got == 0) Refuse(fmt::format("was cut short to {} bytes while it was read", offset));
    to += got;
    offset += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

json ModelReader::Impl::ReadHeader() {
  std::array<std::uint8_t, 8> length_bytes{};
  if (file_bytes < static_cast<std::int64_t>(length_bytes.size())) {
    Refuse(fmt::format("truncated: has {} bytes, fewer than a safetensors file's first 8",
                       file_bytes));
  }
  ReadAt(0, length_bytes.data(), length_bytes.size());
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) length |= std::uint64_t{length_bytes[i]} << (8 * i);
  if (length > static_cast<std::uint64_t>(kMaxModelHeaderBytes)) {
    Refuse(
        fmt::format("its first 8 bytes say that the header has {} bytes; the most is {}: is it "
                    "a safetensors file?",
                    length, kMaxModelHeaderBytes));
  }
  data_begin = 8 + static_cast<std::int64_t>(length);
  if (data_begin > file_bytes) {
    Refuse(fmt::format("truncated: the header should have {} bytes, the file has {}", length,
                       file_bytes));
  }
  std::string text(length, '\0');
  ReadAt(8, text.data(), text.size());
  std::set<std::string> names;
  const auto check_names = [&](int depth, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::key && depth == 1 &&
        !names.insert(parsed.get<std::string>()).second) {
      Refuse(fmt::format("the header has {} twice", JsonText(parsed)));
    }
    // Nothing in a header is deep; a file that is must not exhaust anything.
    if (depth > 8) Refuse("the header is nested too deeply");
    return true;
  };
  try {
    return json::parse(text, check_names);
  } catch (const json::exception& error) {
    Refuse(fmt::format("the header is not valid JSON: {}", error.what()));
  }
}

Entry ModelReader::Impl::ParseEntry(const std::string& name, const json& value) const {
  const auto field = [&](const char* key) -> const json& {
    if (!value.is_object() || !value.contains(key)) {
      Refuse(fmt::format("tensor '{}' has no '{}'", name, key));
    }
    return value.at(key);
  };
  const json& type = field("dtype");
  if (type != "F32") {
    Refuse(fmt::format("tensor '{}' has dtype {}, expected \"F32\"", name, JsonText(type)));
  }
  const auto sizes = [&](const char* key, std::size_t fewest, std::size_t most) {
    const json& list = field(key);
    std::vector<std::int64_t> values;
    bool good = list.is_array() && list.size() >= fewest && list.size() <= most;
    for (std::size_t i = 0; good && i < list.size(); ++i) {
      good = list[i].is_number_unsigned() && list[i].get<std::uint64_t>() <= INT64_MAX;
      if (good) values.push_back(list[i].get<std::int64_t>());
    }
    if (!good) {
      Refuse(fmt::format("tensor '{}' has {} {}, expected {} to {} sizes", name, key,
                         JsonText(list), fewest, most));
    }
    return values;
  };
  const std::vector<std::int64_t> offsets = sizes("data_offsets", 2, 2);
  Entry entry{sizes("shape", 1, 2), {}};
  std::int64_t bytes = sizeof(float);
  for (const std::int64_t size : entry.shape) {
    if (size < 1 || size > kMaxLayerSize) {
      Refuse(fmt::format("tensor '{}' has a dimension of {}, expected 1 to {}", name, size,
                         kMaxLayerSize));
    }
    bytes *= size;
  }
  const std::int64_t data_bytes = file_bytes - data_begin;
  if (offsets[0] > offsets[1] || offsets[1] > data_bytes) {
    Refuse(
        fmt::format("tensor '{}' lies at {} to {} of {} bytes: the file is truncated or its "
                    "header wrong",
                    name, offsets[0], offsets[1], data_bytes));
  }
  if (offsets[1] - offsets[0] != bytes) {
    Refuse(fmt::format("tensor '{}' has {} bytes, but its shape {} needs {}", name,
                       offsets[1] - offsets[0], JsonText(field("shape")), bytes));
  }
  entry.place = {data_begin + offsets[0], data_begin + offsets[1]};
  return entry;
}

void ModelReader::Impl::CheckPlaces(const std::map<std::string, Entry>& entries) const {
  std::vector<std::pair<TensorPlace, std::string>> order;
  for (const auto& [name, entry] : entries) order.emplace_back(entry.place, name);
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.first.begin < b.first.begin; });
  std::int64_t end = data_begin;
  for (const auto& [place, name] : order) {
    if (place.begin != end) {
      Refuse(
          fmt::format("tensor '{}' begins at data byte {}, expected {}: tensors must neither "
                      "overlap nor leave gaps",
                      name, place.begin - data_begin, end - data_begin));
    }
    end = place.end;
  }
  if (end != file_bytes) {
    Refuse(fmt::format("has {} bytes after its last tensor", file_bytes - end));
  }
}

void ModelReader::Impl::CheckBias(const std::map<std::string, Entry>& entries, int layer,
                                  std::int64_t outputs) const {
  const std::string name = fmt::format("layers.{}.bias", layer);
  const auto bias = entries.find(name);
  if (bias == entries.end()) Refuse(fmt::format("lacks the tensor '{}'", name));
  if (bias->second.shape != std::vector<std::int64_t>{outputs}) {
    Refuse(fmt::format("tensor '{}' has shape {}, expected [{}] as layers.{}.weight says", name,
                       JsonText(json(bias->second.shape)), outputs, layer));
  }
}

void ModelReader::Impl::CheckLayers(const std::map<std::string, Entry>& entries) {
  int layers = 0;
  for (const auto& [name, entry] : entries) {
    const std::optional<LayerName> parsed = ParseName(name);
    if (!parsed || parsed->layer >= static_cast<int>(kMaxLayerEntries) - 1) {
      Refuse(
          fmt::format("has the tensor '{}'; expected only layers.0.weight, layers.0.bias, "
                      "layers.1.weight, ... up to layers.{}",
                      name, kMaxLayerEntries - 2));
    }
    layers = std::max(layers, parsed->layer + 1);
    states = std::max(states, parsed->states);
  }
  if (layers == 0) Refuse("has no tensors; expected layers.0.weight, layers.0.bias, ...");
  for (int layer = 0; layer < layers; ++layer) {
    const std::string name = fmt::format("layers.{}.weight", layer);
    const auto weight = entries.find(name);
    if (weight == entries.end()) Refuse(fmt::format("lacks the tensor '{}'", name));
    const std::vector<std::int64_t>& shape = weight->second.shape;
    if (shape.size() != 2) {
      Refuse(fmt::format("tensor '{}' has shape {}, expected [outputs, inputs]", name,
                         JsonText(json(shape))));
    }
    if (layer == 0) model.layers.push_back(shape[1]);
    if (shape[1] != model.layers.back()) {
      Refuse(fmt::format("tensor '{}' takes {} inputs, but layer {} before it has {} outputs", name,
                         shape[1], layer - 1, model.layers.back()));
    }
    CheckBias(entries, layer, shape[0]);
    model.layers.push_back(shape[0]);
  }
}

void ModelReader::Impl::CheckStates(const std::map<std::string, Entry>& entries) const {
  for (const TensorInfo& tensor : ModelTensors(*BuildModel(model), states)) {
    const auto found = entries.find(tensor.Name());
    if (found == entries.end()) Refuse(fmt::format("lacks the tensor '{}'", tensor.Name()));
    const Entry& parameter = entries.at(tensor.parameter.Name());
    if (found->second.shape != parameter.shape) {
      Refuse(fmt::format("tensor '{}' has shape {}, expected {}", tensor.Name(),
                         JsonText(json(found->second.shape)), JsonText(json(parameter.shape))));
    }
  }
}

void ModelReader::Impl::ReadMetadata(const json& value) {
  if (!value.is_object()) Refuse("__metadata__ is no JSON object");
  for (const auto& [name, text] : value.items()) {
    if (!text.is_string()) Refuse(fmt::format("__metadata__ '{}' is no string", name));
    metadata[name] = text.get<std::string>();
  }
}

ModelReader::ModelReader(const std::string& path) : impl_(std::make_unique<Impl>()) {
  impl_->path = path;
  impl_->Open();
  const json header = impl_->ReadHeader();
  if (!header.is_object()) impl_->Refuse("the header is no JSON object");
  std::map<std::string, Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name != "__metadata__") {
      entries.emplace(name, impl_->ParseEntry(name, value));
    } else {
      impl_->ReadMetadata(value);
    }
  }
  impl_->CheckLayers(entries);
  impl_->CheckStates(entries);
  impl_->CheckPlaces(entries);
  impl_->tensors = ModelTensors(*BuildModel(impl_->model), impl_->states);
  for (const TensorInfo& tensor : impl_->tensors) {
    impl_->places.push_back(entries.at(tensor.Name()).place);
  }
}

ModelReader::~ModelReader() = default;

std::vector<std::int64_t> ModelReader::Layers() const {
  return impl_->model.layers;
}

void ModelReader::Read(std::size_t index, std::int64_t row, std::int64_t col, std::int64_t rows,
                       std::int64_t cols, std::span<float> out) const {
  assert(index < impl_->tensors.size());
  assert(static_cast<std::int64_t>(out.size()) == rows * cols);
  ForEachRun(impl_->tensors[index], impl_->places[index], row, col, rows, cols,
             [&](std::int64_t offset, std::size_t first, std::size_t count) {
               impl_->ReadAt(offset, out.data() + first, count * sizeof(float));
             });
}

const std::vector<TensorInfo>& ModelReader::Tensors() const {
  return impl_->tensors;
}

const std::map<std::string, std::string>& ModelReader::Metadata() const {
  return impl_->metadata;
}

std::string ModelReader::WeightsSha256() const {
  std::vector<TensorPlace> places;
  for (std::size_t i = 0; i < impl_->tensors.size(); ++i) {
    if (impl_->tensors[i].state == ParameterState::kValue) places.push_back(impl_->places[i]);
  }
  Sha256 hash;
  HashTensors(
      places,
      [this](std::int64_t offset, void* data, std::size_t bytes) {
        impl_->ReadAt(offset, data, bytes);
      },
      &hash);
  return hash.Hex();
}

bool ModelReader::ChecksumIsRight(const std::function<void()>& go_on) const {
  const auto checksum = impl_->metadata.find(kChecksumName);
  if (checksum == impl_->metadata.end() || checksum->second.size() != kNoChecksum.size()) {
    return false;
  }
  std::string header(static_cast<std::size_t>(impl_->data_begin), '\0');
  impl_->ReadAt(0, header.data(), header.size());
  const std::size_t at = ChecksumPlace(header);
  if (at == std::string::npos || header.compare(at, kNoChecksum.size(), checksum->second) != 0) {
    return false;
  }
  header.replace(at, kNoChecksum.size(), kNoChecksum);
  Sha256 hash;
  hash.Add(header.data(), header.size());
  HashTensors(
      impl_->places,
      [&](std::int64_t offset, void* data, std::size_t bytes) {
        impl_->ReadAt(offset, data, bytes);
        if (go_on) go_on();
      },
      &hash);
  return hash.Hex() == checksum->second;
}

}  // namespace acan
