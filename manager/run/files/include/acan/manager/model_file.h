// Models in safetensors files: the output of a run, and its snapshots, which have the optimizer's
// state beside the parameters.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "acan/core/model.h"
#include "acan/core/parameter.h"
#include "acan/manager/trained_model.h"

namespace acan {

// A tensor of a file: a parameter, or the optimizer's state for it.
struct TensorInfo {
  Parameter parameter;  // written as [rows, cols], a bias as [rows]
  ParameterState state = ParameterState::kValue;

  std::string Name() const { return parameter.Name(state); }
  std::int64_t rows() const { return parameter.rows; }
  std::int64_t cols() const { return parameter.cols; }
  MatrixId matrix() const { return {parameter.id, state}; }
};

// Tensors of a model in the order of their names as strings ("layers.10.bias" before
// "layers.2.bias"): the order of the file and of the hash. With `states` matrices of optimizer
// state for each parameter.
std::vector<TensorInfo> ModelTensors(const TrainedModel& model, int states = 0);

// What a snapshot has beside the parameters.
struct SnapshotExtras {
  int states = 0;
  std::map<std::string, std::string> metadata;  // texts in the file's header
};

// Writes a safetensors file without ever holding the model: rectangles of tensors in any order. The
// file appears under its name only when Finish succeeds (written beside it, synced, renamed); the
// destructor removes what is unfinished. Its space is reserved at the start where the file system
// can.
class ModelWriter {
 public:
  // Throws Error (failure) naming the path and the system's words (not writable, disk full). With
  // an empty path no file is kept, and Finish's hash is all that comes of it.
  ModelWriter(const std::string& path, const TrainedModel& model);
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

// Reads a safetensors file piece by piece. The constructor throws Error (usage) for files that are
// truncated, malformed, inconsistent, not F32, or do not have the tensors of a perceptron; values
// may lie in any order. Const methods may run on several threads.
class ModelReader {
 public:
  explicit ModelReader(const std::string& path);
  ~ModelReader();
  const std::vector<TensorInfo>& Tensors() const;
  // As given to the writer; empty for files without.
  const std::map<std::string, std::string>& Metadata() const;
  // Whether the file is, bit for bit, the snapshot that was written. Reads all of it, and calls
  // `go_on`, if there is one, after each MiB.
  bool ChecksumIsRight(const std::function<void()>& go_on = {}) const;
  // The layer sizes that the tensors imply (inputs, hidden..., outputs).
  std::vector<std::int64_t> Layers() const;
  void Read(std::size_t index, std::int64_t row, std::int64_t col, std::int64_t rows,
            std::int64_t cols, std::span<float> out) const;
  std::string WeightsSha256() const;  // of the parameters

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace acan
