#include "acan/manager/task_builder.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace acan {
namespace {

constexpr std::uint32_t kNoInput = UINT32_MAX;
// Most tasks have so few inputs that it takes less time to compare a key with all of them than to
// use an index.
constexpr std::size_t kFewInputs = 8;
// Room that most tasks need, so that few of their vectors grow.
constexpr std::size_t kUsualBuffers = 4;

std::int32_t Narrow(std::int64_t value) {
  assert(value >= 0 && value <= INT32_MAX);
  return static_cast<std::int32_t>(value);
}

}  // namespace

TaskBuilder::TaskBuilder(TaskKind kind, const Training& training) {
  task_.kind = kind;
  task_.precision = training.precision;
  task_.block = Narrow(training.block);
  task_.buffers.reserve(kUsualBuffers);
  task_.pieces.reserve(kUsualBuffers);
  inputs_.reserve(kUsualBuffers);
}

int TaskBuilder::NewBuffer(std::int64_t rows, std::int64_t cols) {
  assert(rows > 0 && cols > 0);
  task_.buffers.push_back({Narrow(rows), Narrow(cols)});
  is_input_.push_back(false);
  return static_cast<int>(task_.buffers.size()) - 1;
}

int TaskBuilder::Input(tuplespace::Key key, std::int64_t rows, std::int64_t cols) {
  const int buffer = NewBuffer(rows, cols);
  AddPiece(buffer, std::move(key), 0, 0, rows, cols);
  return buffer;
}

void TaskBuilder::AddPiece(int buffer, tuplespace::Key key, std::int64_t row, std::int64_t col,
                           std::int64_t rows, std::int64_t cols) {
  const Piece piece{InputIndex(std::move(key)),
                    static_cast<std::uint32_t>(buffer),
                    Narrow(row),
                    Narrow(col),
                    Narrow(rows),
                    Narrow(cols)};
  task_.pieces.push_back(piece);
  if (CoversBuffer(piece, task_)) is_input_[static_cast<std::size_t>(buffer)] = true;
}

int TaskBuilder::Writable(int buffer) {
  if (!IsInput(buffer)) return buffer;
  const BufferSpec spec = task_.buffers[static_cast<std::size_t>(buffer)];
  return NewBuffer(spec.rows, spec.cols);
}

View TaskBuilder::All(int buffer) const {
  if (buffer < 0) return {};
  const BufferSpec& spec = task_.buffers[static_cast<std::size_t>(buffer)];
  return {buffer, 0, 0, spec.rows, spec.cols};
}

View TaskBuilder::Part(int buffer, std::int64_t row, std::int64_t col, std::int64_t rows,
                       std::int64_t cols) const {
  return {buffer, Narrow(row), Narrow(col), Narrow(rows), Narrow(cols)};
}

void TaskBuilder::Product(GemmForm form, View a, View b, View c) {
  Call call;
  call.gemm = true;
  call.form = form;
  call.views = {a, b, c};
  task_.calls.push_back(std::move(call));
}

void TaskBuilder::Launch(Kernel kernel, std::vector<View> views, KernelScalars scalars) {
  Call call;
  call.kernel = kernel;
  call.views = std::move(views);
  call.scalars = scalars;
  task_.calls.push_back(std::move(call));
}

int TaskBuilder::Sum(const std::vector<int>& parts, const std::vector<Range>& ranges) {
  assert(!parts.empty() && parts.size() == ranges.size());
  std::vector<int> at = parts;  // the buffer that now holds each partial sum
  std::vector<int> spare;       // buffers of sums that were added into others
  for (const Combine& combine : CombineOrder(ranges, task_.block)) {
    const int left = at[combine.left];
    const int right = at[combine.right];
    if (left < 0 || right < 0) {
      at[combine.left] = std::max(left, right);
      continue;
    }
    int out = left;
    if (IsInput(left)) {
      if (!IsInput(right)) {
        out = right;
      } else if (!spare.empty()) {
        out = spare.back();
        spare.pop_back();
      } else {
        out = Writable(left);
      }
    } else if (!IsInput(right)) {
      spare.push_back(right);
    }
    Launch(Kernel::kAdd, {All(out), All(left), All(right)});
    at[combine.left] = out;
  }
  return at.front();
}

void TaskBuilder::Put(tuplespace::Key key, View view, bool keep) {
  task_.outputs.push_back({std::move(key), view, keep});
}

void TaskBuilder::SetAffinity(int input_buffer) {
  for (const Piece& piece : task_.pieces) {
    if (static_cast<int>(piece.buffer) == input_buffer) {
      affinity_ = static_cast<std::int32_t>(piece.input);
    }
  }
}

PlannedTask TaskBuilder::Finish(tuplespace::Key key, std::int64_t priority, int segment) && {
  PlannedTask planned;
  planned.key = std::move(key);
  planned.inputs = std::move(inputs_);
  planned.affinity = affinity_;
  planned.priority = priority;
  planned.segment = segment;
  planned.task = std::move(task_);
  return planned;
}

std::uint32_t TaskBuilder::InputIndex(tuplespace::Key key) {
  if (inputs_.size() < kFewInputs) {
    const auto known = std::find(inputs_.begin(), inputs_.end(), key);
    const auto index = static_cast<std::uint32_t>(known - inputs_.begin());
    if (known == inputs_.end()) inputs_.push_back(std::move(key));
    return index;
  }
  if (2 * inputs_.size() >= index_.size()) GrowIndex();
  const std::size_t mask = index_.size() - 1;
  std::size_t at = std::hash<tuplespace::Key>()(key) & mask;
  for (; index_[at] != kNoInput; at = (at + 1) & mask) {
    if (inputs_[index_[at]] == key) return index_[at];
  }
  index_[at] = static_cast<std::uint32_t>(inputs_.size());
  inputs_.push_back(std::move(key));
  return index_[at];
}

// Keeps at least half of the index, whose size is a power of two, free.
void TaskBuilder::GrowIndex() {
  constexpr std::size_t kLeast = 4 * kFewInputs;
  index_.assign(std::max(kLeast, 2 * index_.size()), kNoInput);
  const std::size_t mask = index_.size() - 1;
  for (std::uint32_t input = 0; input < inputs_.size(); ++input) {
    std::size_t at = std::hash<tuplespace::Key>()(inputs_[input]) & mask;
    while (index_[at] != kNoInput) at = (at + 1) & mask;
    index_[at] = input;
  }
}

}  // namespace acan
