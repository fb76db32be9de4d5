// Task: a declarative description of a piece of a training step. It says which input tuples make up
// which matrices, which operations run on them, and under which keys the results are put. A handler
// interprets it with a Device; neither the handler nor the space knows what a layer is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "acan/core/device.h"
#include "tuplespace/key.h"
#include "tuplespace/payload.h"

namespace acan {

inline constexpr std::uint32_t kTaskVersion = 1;

enum class TaskKind : std::uint8_t {
  kInitialize,
  kForward,
  kActivation,
  kLoss,
  kBackward,
  kUpdate
};
inline constexpr std::size_t kTaskKinds = 6;
const char* TaskKindName(TaskKind kind);

// A matrix of 32-bit words that the task works on.
struct BufferSpec {
  std::int32_t rows = 0;
  std::int32_t cols = 0;
  std::uint64_t bytes() const {
    return 4ull * static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(cols);
  }
};

// Input tuple `input` (index into TaskSpec::inputs) is a row-major matrix [rows, cols] whose place
// is (row, col) of buffer `buffer`. A piece that covers its whole buffer needs no copy.
struct Piece {
  std::uint32_t input = 0;
  std::uint32_t buffer = 0;
  std::int32_t row = 0, col = 0, rows = 0, cols = 0;
};

// A rectangle of a buffer; buffer < 0: operand absent.
struct View {
  std::int32_t buffer = -1;
  std::int32_t row = 0, col = 0, rows = 0, cols = 0;
  std::uint64_t bytes() const { return BufferSpec{rows, cols}.bytes(); }
};

// One operation: a matrix product or a kernel, with the operands and scalars that its row of
// operators.inc says, in its order.
struct Call {
  bool gemm = false;
  GemmForm form = GemmForm::kForward;
  Kernel kernel = Kernel::kAdd;
  std::vector<View> views;
  KernelScalars scalars;
};

// A result tuple: the rectangle `view`, row-major. keep: the handler keeps it on its device and
// says so, as it may do with others. may_be_resident: its bytes need not go into the space before
// somebody asks for them (tuplespace::Tuple::resident_bytes).
struct Output {
  tuplespace::Key key;
  View view;
  bool keep = false;
  bool may_be_resident = false;
};

// A tuple that its taker will soon need for another task, of so many bytes.
struct Ahead {
  tuplespace::Key key;
  std::uint64_t bytes = 0;
};

struct Task {
  TaskKind kind = TaskKind::kForward;
  Precision precision = Precision::kExact;
  std::int32_t block = 64;
  bool timed = false;      // the lease is the job's own time limit: not extended while it runs
  std::int32_t chunk = 0;  // most tasks that its taker should take together; 0: as it sees fit
  std::vector<BufferSpec> buffers;
  std::vector<Piece> pieces;
  std::vector<Call> calls;  // run in order
  std::vector<Output> outputs;
  // May be fetched while this task and others run. Nothing that the task makes depends on it.
  std::vector<Ahead> ahead = {};
};

// Whether the task is as small as DecodeTask demands: in the number of its buffers and its calls,
// and in the rows and columns of each buffer.
bool IsWithinLimits(const Task& task);

// Whether `piece` is all of its buffer, so that the tuple itself can serve as the buffer.
bool CoversBuffer(const Piece& piece, const Task& task);

// What running the task takes. First its inputs are gathered; tuples that are copied into a buffer
// are gone when the other buffers are made.
struct TaskMemory {
  std::uint64_t gathering_bytes = 0;  // all inputs, and the buffers that some are copied into
  std::uint64_t computing_bytes = 0;  // all buffers, and copies of results that are parts of one
};
TaskMemory MemoryOf(const Task& task);
// The most of it at any time. This is TaskSpec::need_bytes.
std::uint64_t NeedBytes(const Task& task);
// Of each of so many inputs, the bytes that its pieces say it has; 0: it has no piece.
std::vector<std::uint64_t> InputBytes(const Task& task, std::size_t inputs);
// Of each of so many inputs, whether every piece that it is covers its buffer: then it is a buffer
// until the task ends. The others are gone when inputs are gathered.
std::vector<bool> WholeInputs(const Task& task, std::size_t inputs);

// Operations on floats, as the rows of the calls count them.
std::uint64_t Flops(const Task& task);

tuplespace::Payload EncodeTask(const Task& task);

// Decodes and checks everything (a task comes from another process): indexes, rectangles, shapes of
// products and kernels, every buffer written before it is read and no input written. Throws
// std::invalid_argument with what is wrong. `input_count`: of the TaskSpec.
Task DecodeTask(const tuplespace::Payload& bytes, std::size_t input_count);

}  // namespace acan
