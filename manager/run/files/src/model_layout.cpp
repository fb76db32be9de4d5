#include "model_layout.h"

#include <algorithm>
#include <cassert>

namespace acan {
namespace {

using model::FileLayout;

constexpr std::int64_t kFloatBytes = sizeof(float);
constexpr std::int64_t kChunkBytes = 1 << 20;

// `count` values of the file, beginning at element `element`.
FileRun RunAt(const TensorPlace& place, std::int64_t element, std::int64_t first,
              std::int64_t stride, std::int64_t count) {
  return {place.begin + element * kFloatBytes, static_cast<std::size_t>(first),
          static_cast<std::size_t>(stride), static_cast<std::size_t>(count)};
}

void RunsOfSame(const TensorInfo& tensor, const TensorPlace& place, const Rectangle& r,
                const std::function<void(const FileRun&)>& run) {
  // Whole rows are contiguous: one run.
  const std::int64_t stretches = r.cols == tensor.cols ? 1 : r.rows;
  const std::int64_t count = r.cols == tensor.cols ? r.rows * r.cols : r.cols;
  for (std::int64_t i = 0; i < stretches; ++i) {
    run(RunAt(place, (r.row + i) * tensor.cols + r.col, i * r.cols, 1, count));
  }
}

// The file has [cols, rows].
void RunsOfTransposed(const TensorInfo& tensor, const TensorPlace& place, const Rectangle& r,
                      const std::function<void(const FileRun&)>& run) {
  for (std::int64_t i = 0; i < r.cols; ++i) {
    run(RunAt(place, (r.col + i) * tensor.rows + r.row, i, r.cols, r.rows));
  }
}

// The smallest n >= 0 with n x step + first >= bound.
std::int64_t FirstAtLeast(std::int64_t bound, std::int64_t first, std::int64_t step) {
  return bound <= first ? 0 : (bound - first + step - 1) / step;
}

// The file has [outputs, inputs, taps], the matrix [outputs, (taps, inputs)]: the columns of one
// input are `inputs` apart, and its taps are contiguous in the file.
void RunsOfConvolution(const TensorInfo& tensor, const TensorPlace& place, const Rectangle& r,
                       const std::function<void(const FileRun&)>& run) {
  const std::int64_t inputs = tensor.shape.at(1);
  const std::int64_t taps = tensor.cols / inputs;
  for (std::int64_t row = 0; row < r.rows; ++row) {
    for (std::int64_t input = 0; input < inputs; ++input) {
      const std::int64_t begin = FirstAtLeast(r.col, input, inputs);
      const std::int64_t end = FirstAtLeast(r.col + r.cols, input, inputs);
      if (begin >= end) continue;
      run(RunAt(place, (r.row + row) * tensor.cols + input * taps + begin,
                row * r.cols + begin * inputs + input - r.col, inputs, end - begin));
    }
  }
}

// Collects consecutive runs of the file, and passes them on in large pieces.
class Batch {
 public:
  explicit Batch(std::function<void(const std::vector<FileRun>&, std::int64_t bytes)> take)
      : take_(std::move(take)) {}

  void Add(const FileRun& run) {
    if (!runs_.empty() && (run.offset != end_ || end_ - runs_.front().offset >= kChunkBytes)) {
      Flush();
    }
    runs_.push_back(run);
    end_ = run.offset + static_cast<std::int64_t>(run.count) * kFloatBytes;
  }
  void Flush() {
    if (!runs_.empty()) take_(runs_, end_ - runs_.front().offset);
    runs_.clear();
  }

 private:
  const std::function<void(const std::vector<FileRun>&, std::int64_t bytes)> take_;
  std::vector<FileRun> runs_;
  std::int64_t end_ = 0;  // of the last run
};

bool IsInOnePiece(const std::vector<FileRun>& runs) {
  return runs.size() == 1 && (runs.front().stride == 1 || runs.front().count == 1);
}

}  // namespace

void ForEachRun(const TensorInfo& tensor, const TensorPlace& place, const Rectangle& rectangle,
                const std::function<void(const FileRun&)>& run) {
  assert(rectangle.row >= 0 && rectangle.row + rectangle.rows <= tensor.rows);
  assert(rectangle.col >= 0 && rectangle.col + rectangle.cols <= tensor.cols);
  if (rectangle.rows <= 0 || rectangle.cols <= 0) return;
  switch (tensor.layout) {
    case FileLayout::kSame:
      return RunsOfSame(tensor, place, rectangle, run);
    case FileLayout::kTransposed:
      return RunsOfTransposed(tensor, place, rectangle, run);
    case FileLayout::kConvolution:
      return RunsOfConvolution(tensor, place, rectangle, run);
  }
}

void WriteRectangle(const TensorInfo& tensor, const TensorPlace& place, const Rectangle& rectangle,
                    std::span<const float> values, const WriteBytes& write) {
  std::vector<float> piece;
  Batch batch([&](const std::vector<FileRun>& runs, std::int64_t bytes) {
    const float* from = values.data() + runs.front().first;
    if (!IsInOnePiece(runs)) {
      piece.clear();
      for (const FileRun& run : runs) {
        for (std::size_t k = 0; k < run.count; ++k) {
          piece.push_back(values[run.first + k * run.stride]);
        }
      }
      from = piece.data();
    }
    write(runs.front().offset, from, static_cast<std::size_t>(bytes));
  });
  ForEachRun(tensor, place, rectangle, [&batch](const FileRun& run) { batch.Add(run); });
  batch.Flush();
}

void ReadRectangle(const TensorInfo& tensor, const TensorPlace& place, const Rectangle& rectangle,
                   std::span<float> out, const ReadBytes& read) {
  std::vector<float> piece;
  Batch batch([&](const std::vector<FileRun>& runs, std::int64_t bytes) {
    if (IsInOnePiece(runs)) {
      read(runs.front().offset, out.data() + runs.front().first, static_cast<std::size_t>(bytes));
      return;
    }
    piece.resize(static_cast<std::size_t>(bytes / kFloatBytes));
    read(runs.front().offset, piece.data(), static_cast<std::size_t>(bytes));
    std::size_t next = 0;
    for (const FileRun& run : runs) {
      for (std::size_t k = 0; k < run.count; ++k) out[run.first + k * run.stride] = piece[next++];
    }
  });
  ForEachRun(tensor, place, rectangle, [&batch](const FileRun& run) { batch.Add(run); });
  batch.Flush();
}

void HashTensors(const std::vector<TensorPlace>& places, const ReadBytes& read, Sha256* hash) {
  std::vector<char> chunk(kChunkBytes);
  for (const TensorPlace& place : places) {
    for (std::int64_t at = place.begin; at < place.end; at += kChunkBytes) {
      const auto bytes = static_cast<std::size_t>(std::min(kChunkBytes, place.end - at));
      read(at, chunk.data(), bytes);
      hash->Add(chunk.data(), bytes);
    }
  }
}

}  // namespace acan
