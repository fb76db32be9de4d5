#include "acan/core/task.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string_view>

#include "acan/core/operators/operators.h"
#include "acan/core/task_limits.h"
#include "fmt/format.h"
#include "task_generated.h"
#include "tuplespace/space_limits.h"
#include "views.h"
#include "written_parts.h"

namespace acan {
namespace {

constexpr std::uint8_t kGemmCall = 255;
static_assert(kKernels < kGemmCall);
constexpr std::size_t kMaxBuffers = 65'536;
constexpr std::size_t kMaxCalls = 65'536;
constexpr std::size_t kMaxPieces = 65'536;
// The space takes no task that declares more.
constexpr std::size_t kMaxOutputs = tuplespace::SpaceLimits{}.task_results;
constexpr std::int32_t kMaxChunk = 1 << 20;
constexpr std::uint64_t kMaxFlops = 1ull << 60;  // as counted; sums of a few cannot overflow
constexpr std::uint64_t kMaxTaskBytes = 1ull
                                        << 60;  // small enough that sums of sizes cannot overflow

[[noreturn]] void Bad(const std::string& what) {
  throw std::invalid_argument("task: " + what);
}

bool Contains(const BufferSpec& buffer, std::int32_t row, std::int32_t col, std::int32_t rows,
              std::int32_t cols) {
  return row >= 0 && col >= 0 && rows > 0 && cols > 0 && rows <= buffer.rows &&
         cols <= buffer.cols && row <= buffer.rows - rows && col <= buffer.cols - cols;
}

const OperatorRow& RowOf(const Call& call) {
  return call.gemm ? acan::RowOf(call.form) : acan::RowOf(call.kernel);
}

// The shapes of a call's operands, stored without heap memory.
class Shapes {
 public:
  // REQUIRES: call.views.size() <= kMaxKernelMatrices.
  explicit Shapes(const Call& call) : count_(call.views.size()) {
    assert(count_ <= shapes_.size());
    for (std::size_t i = 0; i < count_; ++i) {
      const View& view = call.views[i];
      shapes_[i] = {view.buffer >= 0, view.rows, view.cols};
    }
  }
  // NOLINTNEXTLINE(google-explicit-constructor): checks take it as the span that it is
  operator std::span<const OperandShape>() const { return {shapes_.data(), count_}; }

 private:
  std::array<OperandShape, kMaxKernelMatrices> shapes_;  // the first count_ are set
  std::size_t count_;
};

enum class BufferState : std::uint8_t { kEmpty, kInput, kAssembled, kWritten };

// What is known of the buffers at one moment of the task.
class Buffers {
 public:
  explicit Buffers(const Task& task) : specs_(task.buffers), known_(specs_.size()) {}

  BufferState& StateOf(std::size_t buffer) { return known_[buffer].state; }
  void Write(const View& part) {
    const auto index = static_cast<std::size_t>(part.buffer);
    known_[index].written.Write(part, specs_[index]);
  }
  void Read(const View& part) {
    const auto index = static_cast<std::size_t>(part.buffer);
    Known& known = known_[index];
    if (known.state == BufferState::kInput || known.zeroed) return;
    known.zeroed = !known.written.Has(part, specs_[index]);
  }
  // As Task::zeroed.
  std::vector<std::uint32_t> Zeroed() const {
    std::vector<std::uint32_t> list;
    for (std::uint32_t i = 0; i < known_.size(); ++i) {
      if (known_[i].zeroed) list.push_back(i);
    }
    return list;
  }

 private:
  struct Known {
    BufferState state = BufferState::kEmpty;
    bool zeroed = false;
    WrittenParts written;
  };

  const std::vector<BufferSpec>& specs_;
  std::vector<Known> known_;
};

void CheckPieces(const Task& task, std::size_t input_count, Buffers& buffers) {
  for (const Piece& piece : task.pieces) {
    if (piece.input >= input_count)
      Bad(fmt::format("piece of input {} of {}", piece.input, input_count));
    if (piece.buffer >= task.buffers.size()) Bad("piece of a buffer that is not there");
    if (!Contains(task.buffers[piece.buffer], piece.row, piece.col, piece.rows, piece.cols)) {
      Bad("piece outside its buffer");
    }
    BufferState& s = buffers.StateOf(piece.buffer);
    if (CoversBuffer(piece, task)) {
      if (s != BufferState::kEmpty) Bad("buffer with two whole inputs");
      s = BufferState::kInput;
    } else {
      if (s == BufferState::kInput) Bad("buffer with a whole input and a piece");
      s = BufferState::kAssembled;
      buffers.Write(
          {static_cast<std::int32_t>(piece.buffer), piece.row, piece.col, piece.rows, piece.cols});
    }
  }
}

void CheckPlace(const View& view, const Task& task) {
  if (static_cast<std::size_t>(view.buffer) >= task.buffers.size()) Bad("operand of no buffer");
  if (!Contains(task.buffers[static_cast<std::size_t>(view.buffer)], view.row, view.col, view.rows,
                view.cols)) {
    Bad("operand outside its buffer");
  }
}

Meeting MeetingOf(const View& x, const View& y) {
  if (x.buffer < 0 || y.buffer < 0 || !Overlap(x, y)) return Meeting::kApart;
  return x == y ? Meeting::kSame : Meeting::kOverlap;
}

void CheckOperands(const Call& call, const OperatorRow& row) {
  try {
    CheckCall(row, Shapes(call), call.scalars);
    CheckMeetings(
        row, [&](std::size_t i, std::size_t j) { return MeetingOf(call.views[i], call.views[j]); });
  } catch (const std::invalid_argument& error) {
    Bad(error.what());
  }
}

void CheckCalls(const Task& task, Buffers& buffers) {
  for (const Call& call : task.calls) {
    const OperatorRow& row = RowOf(call);
    if (call.views.size() != row.operands.size()) {
      Bad(fmt::format("{} with {} operands, needs {}", row.name, call.views.size(),
                      row.operands.size()));
    }
    for (const View& view : call.views) {
      if (view.buffer >= 0) CheckPlace(view, task);
    }
    CheckOperands(call, row);
    for (std::size_t i = 0; i < call.views.size(); ++i) {
      if (call.views[i].buffer < 0 || !row.operands[i].reads()) continue;
      const auto index = static_cast<std::size_t>(call.views[i].buffer);
      if (buffers.StateOf(index) == BufferState::kEmpty) {
        Bad(fmt::format("buffer {} is read before it is written", index));
      }
      buffers.Read(call.views[i]);
    }
    for (std::size_t i = 0; i < call.views.size(); ++i) {
      if (call.views[i].buffer < 0 || !row.operands[i].writes()) continue;
      BufferState& s = buffers.StateOf(static_cast<std::size_t>(call.views[i].buffer));
      if (s == BufferState::kInput) Bad("an input is written");
      s = BufferState::kWritten;
      buffers.Write(call.views[i]);
    }
  }
}

bool IsTooLong(const BufferSpec& buffer) {
  return buffer.rows > kMaxMatrixAxis || buffer.cols > kMaxMatrixAxis;
}

void CheckSizes(const Task& task) {
  if (task.buffers.empty()) Bad("no buffers");
  for (const BufferSpec& buffer : task.buffers) {
    if (buffer.rows <= 0 || buffer.cols <= 0 || IsTooLong(buffer)) {
      Bad(fmt::format("buffer of [{}, {}], must be 1 to {} of each", buffer.rows, buffer.cols,
                      kMaxMatrixAxis));
    }
  }
}

// A handler keeps one matrix for each key.
void CheckKeys(const Task& task) {
  if (task.outputs.size() < 2) return;
  std::vector<std::string_view> keys;
  keys.reserve(task.outputs.size());
  for (const Output& output : task.outputs) keys.push_back(output.key.bytes());
  std::sort(keys.begin(), keys.end());
  if (std::adjacent_find(keys.begin(), keys.end()) != keys.end()) Bad("two results with one key");
}

// The bytes of all matrices, which are at least what the task needs; a little more than
// kMaxTaskBytes if there are more than that.
std::uint64_t AllBytes(const Task& task) {
  std::uint64_t bytes = 0;
  const auto add = [&](std::uint64_t more) { bytes = std::min(kMaxTaskBytes + 1, bytes + more); };
  for (const BufferSpec& buffer : task.buffers) add(buffer.bytes());
  for (const Piece& piece : task.pieces) add(BufferSpec{piece.rows, piece.cols}.bytes());
  for (const Output& output : task.outputs) add(output.view.bytes());
  return bytes;
}

// Returns Task::zeroed.
std::vector<std::uint32_t> Check(const Task& task, std::size_t input_count) {
  CheckSizes(task);
  if (task.outputs.empty()) Bad("no results");
  const auto block = static_cast<std::uint32_t>(task.block);
  if (task.block < 16 || (block & (block - 1)) != 0) Bad("block is not a power of two from 16");
  Buffers buffers(task);
  CheckPieces(task, input_count, buffers);
  CheckCalls(task, buffers);
  for (const Output& output : task.outputs) {
    const View& view = output.view;
    if (view.buffer < 0 || static_cast<std::size_t>(view.buffer) >= task.buffers.size()) {
      Bad("result of no buffer");
    }
    const auto index = static_cast<std::size_t>(view.buffer);
    if (!Contains(task.buffers[index], view.row, view.col, view.rows, view.cols)) {
      Bad("result outside its buffer");
    }
    if (buffers.StateOf(index) == BufferState::kEmpty) Bad("result that is never written");
    buffers.Read(view);
  }
  CheckKeys(task);
  if (AllBytes(task) > kMaxTaskBytes) {
    Bad(fmt::format("its matrices have more than {} bytes", kMaxTaskBytes));
  }
  return buffers.Zeroed();
}

wire::View ToWire(const View& v) {
  return {v.buffer, v.row, v.col, v.rows, v.cols};
}
wire::BufferSpec ToWire(const BufferSpec& b) {
  return {b.rows, b.cols};
}
wire::Piece ToWire(const Piece& p) {
  return {p.input, p.buffer, p.row, p.col, p.rows, p.cols};
}
View FromWire(const wire::View& v) {
  return {v.buffer(), v.row(), v.col(), v.rows(), v.cols()};
}

flatbuffers::Offset<wire::Call> EncodeCall(flatbuffers::FlatBufferBuilder& builder,
                                           const Call& call) {
  // Trailing zeros are the default and are not sent. -0 is not such a zero.
  std::size_t floats = call.scalars.f.size();
  while (floats > 0 && std::bit_cast<std::uint32_t>(call.scalars.f[floats - 1]) == 0) --floats;
  std::size_t integers = call.scalars.i.size();
  while (integers > 0 && call.scalars.i[integers - 1] == 0) --integers;
  const auto views_at = builder.CreateVectorOfNativeStructs<wire::View, View>(call.views, ToWire);
  const auto floats_at = builder.CreateVector(call.scalars.f.data(), floats);
  const auto integers_at = builder.CreateVector(call.scalars.i.data(), integers);
  return wire::CreateCall(builder, call.gemm ? kGemmCall : static_cast<std::uint8_t>(call.kernel),
                          static_cast<std::uint8_t>(call.form), views_at, floats_at, integers_at);
}

// Each part of variable size occurs once in an honest description, so all of them together are no
// longer than the description. Parts that share their bytes could demand any amount of memory.
class Budget {
 public:
  explicit Budget(std::size_t bytes) : left_(bytes) {}
  void Spend(std::size_t bytes) {
    if (bytes > left_) Bad("parts of the description overlap");
    left_ -= bytes;
  }

 private:
  std::size_t left_;
};

// REQUIRES: `to` has zeros, which remain where `from` is shorter. The values are copied as bytes,
// because FlatBuffers' verifier aligns the length of a vector but not elements of 8 bytes.
template <typename T, typename Vector, std::size_t kMost>
void DecodeScalars(const Vector* from, std::array<T, kMost>& to) {
  if (from == nullptr || from->size() == 0) return;
  if (from->size() > kMost) Bad("too many scalars");
  std::memcpy(to.data(), from->Data(), from->size() * sizeof(T));
}

Call DecodeCall(const wire::Call& in, Budget& budget) {
  Call call;
  call.gemm = in.kernel() == kGemmCall;
  if (call.gemm) {
    if (in.form() >= kProducts) Bad("unknown form of product");
    call.form = static_cast<GemmForm>(in.form());
  } else {
    if (in.kernel() >= kKernels) Bad("unknown kernel");
    call.kernel = static_cast<Kernel>(in.kernel());
  }
  if (in.views() != nullptr) {
    budget.Spend(in.views()->size() * sizeof(wire::View));
    call.views.reserve(in.views()->size());
    for (const wire::View* view : *in.views()) call.views.push_back(FromWire(*view));
  }
  DecodeScalars(in.floats(), call.scalars.f);
  DecodeScalars(in.integers(), call.scalars.i);
  return call;
}

tuplespace::Key DecodeKey(const flatbuffers::Vector<std::uint8_t>& in, Budget& budget) {
  budget.Spend(in.size());
  auto key = tuplespace::Key::FromBytes({reinterpret_cast<const char*>(in.data()), in.size()});
  if (!key) Bad("a malformed key");
  return std::move(*key);
}

Output DecodeOutput(const wire::Output& in, Budget& budget) {
  if (in.key() == nullptr || in.view() == nullptr) Bad("result without key or view");
  return {DecodeKey(*in.key(), budget), FromWire(*in.view()), in.keep(), in.may_be_resident()};
}

Ahead DecodeAhead(const wire::Ahead& in, Budget& budget) {
  if (in.key() == nullptr) Bad("a tuple that will be needed has no key");
  return {DecodeKey(*in.key(), budget), in.bytes()};
}

// Before anything is copied, as a description may be large. Most parts of it are far smaller than
// what they cause: a tuple to fetch ahead is a request to the broker.
void CheckCounts(const wire::Task& in) {
  const auto check = [](const auto* parts, std::size_t most, const char* what) {
    if (parts == nullptr || parts->size() <= most) return;
    Bad(fmt::format("{} {}, at most {}", parts->size(), what, most));
  };
  check(in.buffers(), kMaxBuffers, "buffers");
  check(in.pieces(), kMaxPieces, "pieces of inputs");
  check(in.calls(), kMaxCalls, "operations");
  check(in.outputs(), kMaxOutputs, "results");
  check(in.ahead(), kMaxAhead, "tuples to fetch ahead");
}

bool IsTaskKind(std::uint8_t number) {
  switch (static_cast<TaskKind>(number)) {
    case TaskKind::kInitialize:
    case TaskKind::kForward:
    case TaskKind::kBackward:
    case TaskKind::kUpdate:
      return true;
  }
  return false;
}

}  // namespace

const char* TaskKindName(TaskKind kind) {
  switch (kind) {
    case TaskKind::kInitialize:
      return "initialize";
    case TaskKind::kForward:
      return "forward";
    case TaskKind::kBackward:
      return "backward";
    case TaskKind::kUpdate:
      return "update";
  }
  return "unknown";
}

bool IsWithinLimits(const Task& task) {
  return task.buffers.size() <= kMaxBuffers && task.calls.size() <= kMaxCalls &&
         task.pieces.size() <= kMaxPieces && task.outputs.size() <= kMaxOutputs &&
         std::none_of(task.buffers.begin(), task.buffers.end(), IsTooLong);
}

bool CoversBuffer(const Piece& piece, const Task& task) {
  const BufferSpec& buffer = task.buffers[piece.buffer];
  return piece.row == 0 && piece.col == 0 && piece.rows == buffer.rows && piece.cols == buffer.cols;
}

std::uint64_t Flops(const Task& task) {
  std::uint64_t flops = 0;
  for (const Call& call : task.calls) {
    flops = std::min(kMaxFlops, flops + FlopsOf(RowOf(call), Shapes(call), call.scalars));
  }
  return flops;
}

namespace {

flatbuffers::Offset<flatbuffers::Vector<std::uint8_t>> EncodeKey(
    flatbuffers::FlatBufferBuilder& builder, const tuplespace::Key& key) {
  const std::string& bytes = key.bytes();
  return builder.CreateVector(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

tuplespace::Payload EncodeTask(const Task& task) {
  auto builder = std::make_shared<flatbuffers::FlatBufferBuilder>(1024);
  std::vector<flatbuffers::Offset<wire::Call>> calls;
  calls.reserve(task.calls.size());
  for (const Call& call : task.calls) calls.push_back(EncodeCall(*builder, call));
  std::vector<flatbuffers::Offset<wire::Output>> outputs;
  outputs.reserve(task.outputs.size());
  for (const Output& output : task.outputs) {
    const auto key_at = EncodeKey(*builder, output.key);
    const wire::View view = ToWire(output.view);
    outputs.push_back(
        wire::CreateOutput(*builder, key_at, &view, output.keep, output.may_be_resident));
  }
  std::vector<flatbuffers::Offset<wire::Ahead>> ahead;
  for (const Ahead& one : task.ahead) {
    ahead.push_back(wire::CreateAhead(*builder, EncodeKey(*builder, one.key), one.bytes));
  }
  const auto buffers_at =
      builder->CreateVectorOfNativeStructs<wire::BufferSpec, BufferSpec>(task.buffers, ToWire);
  const auto pieces_at =
      builder->CreateVectorOfNativeStructs<wire::Piece, Piece>(task.pieces, ToWire);
  const auto calls_at = builder->CreateVector(calls);
  const auto outputs_at = builder->CreateVector(outputs);
  const auto ahead_at = ahead.empty() ? 0 : builder->CreateVector(ahead);
  wire::FinishTaskBuffer(
      *builder,
      wire::CreateTask(*builder, kTaskVersion, static_cast<std::uint8_t>(task.kind),
                       static_cast<std::uint8_t>(task.precision), task.block, task.timed,
                       buffers_at, pieces_at, calls_at, outputs_at, task.chunk, ahead_at));
  const void* data = builder->GetBufferPointer();
  const std::size_t size = builder->GetSize();
  return tuplespace::Payload(std::move(builder), data, size);
}

Task DecodeTask(const tuplespace::Payload& given, std::size_t input_count) {
  // A payload inside a control frame may be unaligned; FlatBuffers reads aligned words.
  const bool aligned = reinterpret_cast<std::uintptr_t>(given.data()) % alignof(std::int64_t) == 0;
  const tuplespace::Payload bytes = aligned ? given : tuplespace::Payload::Copy(given.text());
  flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  if (bytes.size() < 8 || !wire::VerifyTaskBuffer(verifier)) Bad("not a task description");
  const wire::Task& in = *wire::GetTask(bytes.data());
  if (in.version() != kTaskVersion) {
    Bad(
        fmt::format("a description of format {}, for numerics revision {}; this program computes "
                    "revision {} of format {}",
                    in.version() / kTaskFormatUnit + 1, in.version() % kTaskFormatUnit,
                    kNumericsRevision, kTaskFormat));
  }
  if (!IsTaskKind(in.kind())) Bad("unknown kind");
  if (in.precision() > static_cast<std::uint8_t>(Precision::kFast)) Bad("unknown precision");
  CheckCounts(in);
  Task task;
  task.kind = static_cast<TaskKind>(in.kind());
  task.precision = static_cast<Precision>(in.precision());
  task.block = in.block();
  task.timed = in.timed();
  if (in.chunk() < 0 || in.chunk() > kMaxChunk) {
    Bad(fmt::format("chunk of {} tasks, must be 0 to {}", in.chunk(), kMaxChunk));
  }
  task.chunk = in.chunk();
  if (in.buffers() != nullptr) {
    task.buffers.reserve(in.buffers()->size());
    for (const wire::BufferSpec* b : *in.buffers()) task.buffers.push_back({b->rows(), b->cols()});
  }
  if (in.pieces() != nullptr) {
    task.pieces.reserve(in.pieces()->size());
    for (const wire::Piece* p : *in.pieces()) {
      task.pieces.push_back({p->input(), p->buffer(), p->row(), p->col(), p->rows(), p->cols()});
    }
  }
  Budget budget(bytes.size());
  if (in.calls() != nullptr) {
    task.calls.reserve(in.calls()->size());
    for (const wire::Call* call : *in.calls()) task.calls.push_back(DecodeCall(*call, budget));
  }
  if (in.outputs() != nullptr) {
    task.outputs.reserve(in.outputs()->size());
    for (const wire::Output* out : *in.outputs()) {
      task.outputs.push_back(DecodeOutput(*out, budget));
    }
  }
  if (in.ahead() != nullptr) {
    for (const wire::Ahead* one : *in.ahead()) task.ahead.push_back(DecodeAhead(*one, budget));
  }
  task.zeroed = Check(task, input_count);
  return task;
}

}  // namespace acan
