// Models in safetensors files: the output of a run, and its snapshots, which have the optimizer's
// state beside the parameters. Tensors lie as the model's framework has them (model/README.md);
// rectangles of our matrices are written and read piece by piece.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "acan/core/parameter.h"
#include "acan/manager/safetensors_file.h"
#include "acan/manager/trained_model.h"

namespace acan {

// A tensor of a file: a parameter, or the optimizer's state for it.
struct TensorInfo {
  std::string name;  // in the file; of a state: "layers.0.weight.state0"
  MatrixId matrix;
  // Of the matrix as tiles cover it. A vector is a row.
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<std::int64_t> shape;  // in the file
  model::FileLayout layout = model::FileLayout::kSame;
  bool frozen = false;
};

// Tensors of a model in the order of their names as strings ("layers.10.bias" before
// "layers.2.bias"): the order of the hash. With `states` matrices of optimizer state for each
// parameter that is trained.
std::vector<TensorInfo> ModelTensors(const TrainedModel& model, int states = 0);

// What a snapshot has beside the parameters.
struct SnapshotExtras {
  int states = 0;
  std::int64_t steps = 0;                       // behind it: what step counters say
  std::map<std::string, std::string> metadata;  // texts in the file's header
};

// Writes a safetensors file without ever holding the model: rectangles of tensors in any order. The
// file appears under its name only when Finish succeeds (written beside it, synced, renamed); the
// destructor removes what is unfinished. Its space is reserved at the start where the file system
// can.
class ModelWriter {
 public:
  // A model after `steps` training steps, which its step counters say. Throws Error (failure)
  // naming the path and the system's words (not writable, disk full). With an empty path no file is
  // kept, and Finish's hash is all that comes of it.
  ModelWriter(const std::string& path, const TrainedModel& model, std::int64_t steps = 0);
  // A snapshot: also carries a checksum of the whole file in its header.
  ModelWriter(const std::string& path, const TrainedModel& model, const SnapshotExtras& extras);
  ~ModelWriter();
  // Writes the rectangle [row, row + rows) x [col, col + cols) of tensor `index` of ModelTensors.
  // `values` is row-major [rows, cols]. Every value must be written exactly once.
  void Write(std::size_t index, std::int64_t row, std::int64_t col, std::int64_t rows,
             std::int64_t cols, std::span<const float> values);
  // REQUIRES: everything was written. Returns the SHA-256 over the raw little-endian bytes of all
  // tensors in name order, read back from the file: without optimizer state, weights_sha256.
  // `go_on`, if there is one, is called after each MiB that was read, and may throw to end it; then
  // comes the wait for the disk, which for a large file is long.
  std::string Finish(const std::function<void()>& go_on = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Reads a model's tensors out of a safetensors file piece by piece; values may lie in any order.
// The constructor throws Error (usage) for a file that cannot be read (SafetensorsFile) or does not
// have the model's tensors: it names the tensor, its shape and what was expected. A file may lack
// step counters, may have the optimizer's state, may have masks and tables that classes of
// transformers make anew, may lack the prefix of a base model ("bert."), and may have a tied tensor
// a second time if it is equal, which takes the time of reading both. Const methods may run on
// several threads.
class ModelReader {
 public:
  ModelReader(const std::string& path, const TrainedModel& model);
  ModelReader(std::shared_ptr<const SafetensorsFile> file, const TrainedModel& model);
  // `model` is the base of the file's model: `prefix` ("bert.") may stand before its names, and
  // what the file has beside them, such as a head, is not read.
  ModelReader(const std::string& path, const TrainedModel& model, const std::string& prefix);
  ~ModelReader();
  // ModelTensors of the model, with as many states as the file has.
  const std::vector<TensorInfo>& Tensors() const;
  int states() const;
  void Read(std::size_t index, std::int64_t row, std::int64_t col, std::int64_t rows,
            std::int64_t cols, std::span<float> out) const;
  std::string WeightsSha256() const;  // of the parameters and step counters

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace acan
