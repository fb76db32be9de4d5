#include "acan/manager/safetensors_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/core/text/system_error_text.h"
#include "acan/manager/sha256.h"
#include "acan/manager/unreadable.h"
#include "model_layout.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxTensorRank = 8;

// The types that a file may have. Tensors that are read are checked for theirs; a file may have
// others, such as masks.
struct ElementType {
  std::string_view name;
  std::int64_t bytes;
};
constexpr ElementType kTypes[] = {{"F64", 8},     {"F32", 4},     {"F16", 2}, {"BF16", 2},
                                  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I64", 8}, {"I32", 4},
                                  {"I16", 2},     {"I8", 1},      {"U64", 8}, {"U32", 4},
                                  {"U16", 2},     {"U8", 1},      {"BOOL", 1}};
constexpr std::int64_t kMaxElements = std::int64_t{1} << 48;  // far more than any model has

}  // namespace

void SafetensorsFile::Refuse(const std::string& what) const {
  throw UsageError(fmt::format("{}: {}", path_, what));
}

std::string SafetensorsFile::ShardsHint() const {
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  std::error_code ignored;
  const bool has_index = path_.ends_with(".index.json") ||
                         std::filesystem::exists(folder / "model.safetensors.index.json", ignored);
  return has_index ? "; the weights are in shards: save the model in one file with "
                     "save_pretrained(..., max_shard_size=\"1TB\")"
                   : "";
}

void SafetensorsFile::Open() {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) {
    const int error = errno;
    throw Unreadable(
        error, fmt::format("{}: cannot open: {}{}", path_, SystemErrorText(error), ShardsHint()));
  }
  const struct stat status = Status();
  if (!S_ISREG(status.st_mode)) {
    Refuse("is a directory or device, expected a safetensors file");
  }
  file_bytes_ = status.st_size;
  modified_ = status.st_mtim;
}

struct stat SafetensorsFile::Status() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) {
    const int error = errno;
    throw Unreadable(error, fmt::format("{}: cannot read: {}", path_, SystemErrorText(error)));
  }
  return status;
}

void SafetensorsFile::ThrowChanged(const std::string& how) const {
  throw Unreadable(EAGAIN, fmt::format("{}: {} while it was in use", path_, how));
}

void SafetensorsFile::ReadAt(std::int64_t offset, void* data, std::size_t bytes) const {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_, to, bytes, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const int error = errno;
      throw Unreadable(error, fmt::format("{}: cannot read: {}", path_, SystemErrorText(error)));
    }
    if (got == 0) ThrowChanged(fmt::format("was truncated to {} bytes", offset));
    to += got;
    offset += got;
    bytes -= static_cast<std::size_t>(got);
  }
  // Checked after the read, so that earlier changes are noticed: the hash that was computed would
  // not be that of the values.
  const struct stat status = Status();
  if (status.st_mtim.tv_sec != modified_.tv_sec || status.st_mtim.tv_nsec != modified_.tv_nsec) {
    ThrowChanged("was changed");
  }
}

// Reads the header while the file is opened.
class SafetensorsFile::Header {
 public:
  explicit Header(SafetensorsFile& file) : file_(file) {}

  void Read() {
    const json header = Parse();
    if (!header.is_object()) file_.Refuse("the header is not a JSON object");
    for (const auto& [name, value] : header.items()) {
      if (name != "__metadata__") {
        file_.tensors_.emplace(name, ParseTensor(name, value));
      } else {
        ReadMetadata(value);
      }
    }
    CheckPlaces();
  }

 private:
  json Parse();
  StoredTensor ParseTensor(const std::string& name, const json& value) const;
  std::vector<std::int64_t> Sizes(const std::string& name, const char* key, const json& list,
                                  std::size_t fewest, std::size_t most) const;
  void ReadMetadata(const json& value);
  void CheckPlaces() const;

  SafetensorsFile& file_;
};

json SafetensorsFile::Header::Parse() {
  std::array<std::uint8_t, 8> length_bytes{};
  if (file_.file_bytes_ < static_cast<std::int64_t>(length_bytes.size())) {
    file_.Refuse(fmt::format("truncated: has {} bytes, fewer than a safetensors file's first 8",
                             file_.file_bytes_));
  }
  file_.ReadAt(0, length_bytes.data(), length_bytes.size());
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) length |= std::uint64_t{length_bytes[i]} << (8 * i);
  if (length > static_cast<std::uint64_t>(kMaxModelHeaderBytes)) {
    file_.Refuse(
        fmt::format("its first 8 bytes say that the header has {} bytes; the limit is {}: is it a "
                    "safetensors file?{}",
                    length, kMaxModelHeaderBytes, file_.ShardsHint()));
  }
  file_.data_begin_ = 8 + static_cast<std::int64_t>(length);
  if (file_.data_begin_ > file_.file_bytes_) {
    file_.Refuse(fmt::format("truncated: the header should have {} bytes, the file has {}", length,
                             file_.file_bytes_));
  }
  std::string text(length, '\0');
  file_.ReadAt(8, text.data(), text.size());
  std::set<std::string> names;
  const auto check_names = [&](int depth, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::key && depth == 1 &&
        !names.insert(parsed.get<std::string>()).second) {
      file_.Refuse(fmt::format("the header has {} twice", JsonText(parsed)));
    }
    // No valid header is deep; a malicious one must not exhaust the stack.
    if (depth > 8) file_.Refuse("the header is nested too deeply");
    return true;
  };
  try {
    return json::parse(text, check_names);
  } catch (const json::exception& error) {
    file_.Refuse(fmt::format("the header is not valid JSON: {}", error.what()));
  }
}

std::vector<std::int64_t> SafetensorsFile::Header::Sizes(const std::string& name, const char* key,
                                                         const json& list, std::size_t fewest,
                                                         std::size_t most) const {
  std::vector<std::int64_t> values;
  bool good = list.is_array() && list.size() >= fewest && list.size() <= most;
  for (std::size_t i = 0; good && i < list.size(); ++i) {
    good = list[i].is_number_unsigned() && list[i].get<std::uint64_t>() <= INT64_MAX;
    if (good) values.push_back(list[i].get<std::int64_t>());
  }
  if (!good) {
    file_.Refuse(fmt::format("tensor '{}' has {} {}, expected {} to {} sizes", name, key,
                             JsonText(list), fewest, most));
  }
  return values;
}

StoredTensor SafetensorsFile::Header::ParseTensor(const std::string& name,
                                                  const json& value) const {
  const auto field = [&](const char* key) -> const json& {
    if (!value.is_object() || !value.contains(key)) {
      file_.Refuse(fmt::format("tensor '{}' has no '{}'", name, key));
    }
    return value.at(key);
  };
  const json& type = field("dtype");
  const auto of_type = std::ranges::find(kTypes, type.is_string() ? type.get<std::string>() : "",
                                         &ElementType::name);
  if (of_type == std::end(kTypes)) {
    file_.Refuse(fmt::format("tensor '{}' has dtype {}, expected \"F32\"", name, JsonText(type)));
  }
  const std::vector<std::int64_t> offsets =
      Sizes(name, "data_offsets", field("data_offsets"), 2, 2);
  StoredTensor tensor;
  tensor.type = type.get<std::string>();
  tensor.shape = Sizes(name, "shape", field("shape"), 0, kMaxTensorRank);
  std::int64_t elements = 1;
  for (const std::int64_t size : tensor.shape) {
    // PyTorch also stores tensors without elements.
    if (elements > 0 && size > kMaxElements / elements) {
      file_.Refuse(fmt::format("tensor '{}' has a dimension of {}, expected at most {} elements",
                               name, size, kMaxElements));
    }
    elements *= size;
  }
  const std::int64_t bytes = elements * of_type->bytes;
  const std::int64_t data_bytes = file_.file_bytes_ - file_.data_begin_;
  if (offsets[0] > offsets[1] || offsets[1] > data_bytes) {
    file_.Refuse(
        fmt::format("tensor '{}' lies at {} to {} of {} bytes: the file is truncated or its "
                    "header wrong",
                    name, offsets[0], offsets[1], data_bytes));
  }
  if (offsets[1] - offsets[0] != bytes) {
    file_.Refuse(fmt::format("tensor '{}' has {} bytes, but its shape {} of {} needs {}", name,
                             offsets[1] - offsets[0], JsonText(field("shape")), JsonText(type),
                             bytes));
  }
  tensor.begin = file_.data_begin_ + offsets[0];
  tensor.end = file_.data_begin_ + offsets[1];
  return tensor;
}

void SafetensorsFile::Header::CheckPlaces() const {
  // A tensor without elements comes before the one that begins at the same byte.
  std::vector<std::tuple<std::int64_t, std::int64_t, std::string>> order;
  for (const auto& [name, tensor] : file_.tensors_) {
    order.emplace_back(tensor.begin, tensor.end, name);
  }
  std::sort(order.begin(), order.end());
  std::int64_t end = file_.data_begin_;
  for (const auto& [begin, own_end, name] : order) {
    if (begin != end) {
      file_.Refuse(
          fmt::format("tensor '{}' begins at data byte {}, expected {}: tensors must neither "
                      "overlap nor leave gaps",
                      name, begin - file_.data_begin_, end - file_.data_begin_));
    }
    end = own_end;
  }
  if (end != file_.file_bytes_) {
    file_.Refuse(fmt::format("has {} bytes after its last tensor", file_.file_bytes_ - end));
  }
}

void SafetensorsFile::Header::ReadMetadata(const json& value) {
  if (!value.is_object()) file_.Refuse("__metadata__ is not a JSON object");
  for (const auto& [name, text] : value.items()) {
    if (!text.is_string()) file_.Refuse(fmt::format("__metadata__ '{}' is not a string", name));
    file_.metadata_[name] = text.get<std::string>();
  }
}

SafetensorsFile::SafetensorsFile(std::string path) : path_(std::move(path)) {
  try {
    Open();
    Header(*this).Read();
  } catch (...) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool SafetensorsFile::ChecksumIsRight(const std::function<void()>& go_on) const {
  const auto checksum = metadata_.find(kChecksumName);
  if (checksum == metadata_.end() || checksum->second.size() != kNoChecksum.size()) return false;
  std::string header(static_cast<std::size_t>(data_begin_), '\0');
  ReadAt(0, header.data(), header.size());
  const std::size_t at = ChecksumPlace(header);
  if (at == std::string::npos || header.compare(at, kNoChecksum.size(), checksum->second) != 0) {
    return false;
  }
  header.replace(at, kNoChecksum.size(), kNoChecksum);
  std::vector<TensorPlace> places;
  for (const auto& [name, tensor] : tensors_) places.push_back({tensor.begin, tensor.end});
  Sha256 hash;
  hash.Add(header.data(), header.size());
  HashTensors(
      places,
      [&](std::int64_t offset, void* data, std::size_t bytes) {
        ReadAt(offset, data, bytes);
        if (go_on) go_on();
      },
      &hash);
  return hash.Hex() == checksum->second;
}

}  // namespace acan
