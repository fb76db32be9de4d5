// Models in safetensors files: the output of a run, and its snapshots, which contain the
// optimizer's state besides the parameters. Tensors have the layout of the model's framework
// (model/README.md); rectangles of the matrices are written and read piece by piece.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "acan/core/error.h"
#include "acan/core/parameter.h"
#include "acan/core/range.h"
#include "acan/manager/safetensors_file.h"
#include "acan/manager/trained_model.h"

namespace acan {

// A tensor of a file: a parameter, or optimizer state of a parameter.
struct TensorInfo {
  std::string name;  // in the file; of state: "layers.0.weight.state0"
  MatrixId matrix;
  // Of the matrix that tiles cover. A vector is a row.
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<std::int64_t> shape;  // in the file
  model::FileLayout layout = model::FileLayout::kSame;
  bool frozen = false;
};

// The tensors of a model in the order of their names as strings ("layers.10.bias" before
// "layers.2.bias"), which is the order of the hash, with `states` matrices of optimizer state for
// each trained parameter.
std::vector<TensorInfo> ModelTensors(const TrainedModel& model, int states = 0);

// What a snapshot contains besides the parameters.
struct SnapshotExtras {
  int states = 0;
  std::int64_t steps = 0;                       // steps done, for step counters
  std::map<std::string, std::string> metadata;  // texts in the file's header
};

// Writes a safetensors file from rectangles of tensors in any order, without ever holding the
// model. The file is written beside its path, synced and renamed: it appears under its name only
// when Finish succeeds, and the destructor removes an unfinished file. Its space is reserved at the
// start if the file system can do that.
class ModelWriter {
 public:
  // A model after `steps` training steps, for step counters. Throws Error (failure) with the path
  // and the system's message (not writable, disk full).
  ModelWriter(const std::string& path, const TrainedModel& model, std::int64_t steps = 0);
  // A snapshot, which also has a checksum of the whole file in its header.
  ModelWriter(const std::string& path, const TrainedModel& model, const SnapshotExtras& extras);
  ~ModelWriter();
  // Writes the rectangle [row, row + rows) x [col, col + cols) of tensor `index` of ModelTensors.
  // `values` is row-major [rows, cols]. Every value must be written exactly once.
  void Write(std::size_t index, std::int64_t row, std::int64_t col, std::int64_t rows,
             std::int64_t cols, std::span<const float> values);
  // REQUIRES: everything was written. Returns the SHA-256 over the raw little-endian bytes of all
  // tensors in name order, read back from the file: without optimizer state, this is
  // weights_sha256. `go_on`, if set, is called after each MiB read, and may throw to end it; then
  // follows the wait for the disk, which is long for a large file. `before_rename`: as for
  // AtomicFile::Commit.
  std::string Finish(const std::function<void()>& go_on = {},
                     const std::function<void()>& before_rename = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Returns the values [rows.size(), cols.size()] of tensor `index` of ModelTensors, row-major.
using ReadTensorPart =
    std::function<std::vector<float>(std::size_t index, const Range& rows, const Range& cols)>;
inline constexpr std::int64_t kHashedPartBytes = 16 << 20;
// The hash that ModelWriter::Finish returns for a model after `steps` training steps, without a
// file. Calls `read`, which may throw, for parts of at most `part_bytes`, or of one row or column.
std::string HashModel(const TrainedModel& model, std::int64_t steps, const ReadTensorPart& read,
                      std::int64_t part_bytes = kHashedPartBytes);

// The file lacks tensors of the model, or has others, or other shapes: it may be that of another
// model.
class OtherTensors : public Error {
 public:
  explicit OtherTensors(const std::string& text) : Error(Kind::kUsage, text) {}
};

// Reads a model's tensors from a safetensors file piece by piece, in any order. The constructor
// throws Error (usage) for a file that cannot be read (SafetensorsFile) or does not have the
// tensors of the model (OtherTensors); it names the tensor, its shape and what was expected. A file
// may lack step counters, may have the optimizer's state, may have masks and tables that classes of
// transformers recreate (of models of their kinds), may lack the prefix of a base model ("bert."),
// may have the names that TensorFlow gives to layer norms ("LayerNorm.gamma"), and may have a tied
// tensor under any of its names, or under several if they are equal; this check reads both. Const
// methods may run on several threads.
class ModelReader {
 public:
  // Only the run that wrote a snapshot needs the state of its optimizer. A new job that starts from
  // the weights has its own optimizer, and may train other parameters.
  enum class Take : std::uint8_t {
    kWeights,     // the optimizer's state, if the file has any, is not read
    kWithStates,  // if the file has state, it must have that of all trained parameters and no other
  };
  ModelReader(const std::string& path, const TrainedModel& model);
  ModelReader(std::shared_ptr<const SafetensorsFile> file, const TrainedModel& model,
              Take take = Take::kWeights);
  // `model` is the base of the file's model: its names may have the prefix `prefix` ("bert.") in
  // the file, and other tensors of the file, such as a head, are not read.
  ModelReader(const std::string& path, const TrainedModel& model, const std::string& prefix);
  ~ModelReader();
  // ModelTensors of the model, with states() states.
  const std::vector<TensorInfo>& Tensors() const;
  int states() const;  // as many as the file has; 0 of kWeights
  void Read(std::size_t index, std::int64_t row, std::int64_t col, std::int64_t rows,
            std::int64_t cols, std::span<float> out) const;
  // Over the parameters and step counters. `go_on`, if set, is called after each MiB read.
  std::string WeightsSha256(const std::function<void()>& go_on = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace acan
