// Task: a declarative description of a piece of a training step. It says which input tuples make up
// which matrices, which operations run on them, and under which keys the results are put. A handler
// interprets it with a Device. Neither the handler nor the space knows what a layer is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "acan/core/device.h"
#include "tuplespace/key.h"
#include "tuplespace/payload.h"

namespace acan {

// Raised by each change that gives any job other trained weights; docs/numerics.md lists the
// revisions. The id of a training contains it, so a run continues only with the arithmetic with
// which it began.
inline constexpr std::uint32_t kNumericsRevision = 1;
// Raised by each change of the meaning of a description's fields.
inline constexpr std::uint32_t kTaskFormat = 1;
// On the wire. A handler of another version fails the task instead of computing other bits.
inline constexpr std::uint32_t kTaskFormatUnit = 1000;
inline constexpr std::uint32_t kTaskVersion =
    (kTaskFormat - 1) * kTaskFormatUnit + kNumericsRevision;

// The numbers are on the wire; 2 and 3 were used once.
enum class TaskKind : std::uint8_t { kInitialize = 0, kForward = 1, kBackward = 4, kUpdate = 5 };
inline constexpr std::size_t kTaskKinds = 6;  // with those
const char* TaskKindName(TaskKind kind);

// A matrix of 32-bit words that the task works on.
struct BufferSpec {
  std::int32_t rows = 0;
  std::int32_t cols = 0;
  std::uint64_t bytes() const {
    return 4ull * static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(cols);
  }
  friend bool operator==(const BufferSpec&, const BufferSpec&) = default;
};

// Input tuple `input` (an index into TaskSpec::inputs) is a row-major matrix [rows, cols] at (row,
// col) of buffer `buffer`. A piece that covers its whole buffer needs no copy.
struct Piece {
  std::uint32_t input = 0;
  std::uint32_t buffer = 0;
  std::int32_t row = 0, col = 0, rows = 0, cols = 0;
  friend bool operator==(const Piece&, const Piece&) = default;
};

// A rectangle of a buffer; buffer < 0: operand absent.
struct View {
  std::int32_t buffer = -1;
  std::int32_t row = 0, col = 0, rows = 0, cols = 0;
  std::uint64_t bytes() const { return BufferSpec{rows, cols}.bytes(); }
  friend bool operator==(const View&, const View&) = default;
};

// One operation: a matrix product or a kernel. Its row of operators.inc defines the operands and
// scalars and their order.
struct Call {
  bool gemm = false;
  GemmForm form = GemmForm::kForward;
  Kernel kernel = Kernel::kAdd;
  std::vector<View> views;
  KernelScalars scalars;
};

// A result tuple: the rectangle `view`, row-major. keep: the handler keeps it on its device and
// tells the space; it may do so with other results, too. may_be_resident: its bytes need not go
// into the space before another client asks for them (tuplespace::Tuple::resident_bytes).
struct Output {
  tuplespace::Key key;
  View view;
  bool keep = false;
  bool may_be_resident = false;
};

// A tuple of this many bytes that the task's taker will soon need for another task.
struct Ahead {
  tuplespace::Key key;
  std::uint64_t bytes = 0;
};

struct Task {
  TaskKind kind = TaskKind::kForward;
  Precision precision = Precision::kExact;
  std::int32_t block = 64;
  bool timed = false;  // the lease is the job's own time limit, which the handler does not extend
  std::int32_t chunk = 0;  // most tasks of its run to take together; 0: the taker decides
  std::vector<BufferSpec> buffers;
  std::vector<Piece> pieces;
  std::vector<Call> calls;  // run in order
  std::vector<Output> outputs;
  // These may be fetched while this task and others run. No result of the task depends on them.
  std::vector<Ahead> ahead = {};
  // Buffers of which a call or a result may read elements that nothing has written. They begin as
  // zeros, so that no task sees what the device's memory had before. DecodeTask finds them.
  std::vector<std::uint32_t> zeroed = {};
};

// Whether the numbers of buffers, pieces, calls and outputs, and the rows and columns of each
// buffer, are within the limits that DecodeTask enforces. It also enforces kMaxAhead
// (task_limits.h).
bool IsWithinLimits(const Task& task);

// Whether `piece` is all of its buffer, so that the tuple itself can serve as the buffer.
bool CoversBuffer(const Piece& piece, const Task& task);

// The memory that the task needs. The handler first gathers the inputs. It releases tuples that
// were copied into a buffer before it makes the other buffers.
struct TaskMemory {
  std::uint64_t gathering_bytes = 0;  // all inputs, and the buffers that some are copied into
  // All buffers, copies of results that are part of a buffer, and results that are the same whole
  // buffer as an input or another result: a handler keeps each tuple as if it had its own memory.
  std::uint64_t computing_bytes = 0;

  std::uint64_t need_bytes() const { return std::max(gathering_bytes, computing_bytes); }
};
TaskMemory MemoryOf(const Task& task);
// The maximum at any time. This is TaskSpec::need_bytes.
std::uint64_t NeedBytes(const Task& task);
// For each of `inputs` inputs, its size in bytes according to its pieces; 0: it has no piece.
std::vector<std::uint64_t> InputBytes(const Task& task, std::size_t inputs);
// For each of `inputs` inputs, whether it has pieces and each of them covers its buffer. Such an
// input is a buffer until the task ends. The others are released once the inputs are gathered.
std::vector<bool> WholeInputs(const Task& task, std::size_t inputs);

// The number of floating-point operations, as the rows of the calls count them; 2^60 if there are
// more.
std::uint64_t Flops(const Task& task);

tuplespace::Payload EncodeTask(const Task& task);

// Decodes the task and checks everything, because it comes from another process: numbers, indexes,
// rectangles, shapes of products and kernels, that every buffer is written before it is read, that
// no input is written, and that no two results have one key. Throws std::invalid_argument that says
// what is wrong. `input_count` is the number of inputs in the TaskSpec.
Task DecodeTask(const tuplespace::Payload& bytes, std::size_t input_count);

}  // namespace acan
