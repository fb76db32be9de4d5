#include "executor.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "acan/core/run_calls.h"
#include "fmt/format.h"

namespace acan {
namespace {

void CheckSize(std::uint64_t bytes, const Piece& piece) {
  const std::uint64_t expected = BufferSpec{piece.rows, piece.cols}.bytes();
  if (bytes != expected) {
    throw std::invalid_argument(fmt::format("input {} has {} bytes, the task expects [{}, {}] = {}",
                                            piece.input, bytes, piece.rows, piece.cols, expected));
  }
}

bool IsWhole(const View& view, const BufferSpec& spec) {
  return view.rows == spec.rows && view.cols == spec.cols;
}

// The buffers that are a whole result and leave the device.
std::vector<bool> LeavingWhole(const Task& task, bool resident) {
  std::vector<bool> whole(task.buffers.size(), false);
  for (const Output& output : task.outputs) {
    if (resident && output.may_be_resident) continue;
    const auto index = static_cast<std::size_t>(output.view.buffer);
    if (IsWhole(output.view, task.buffers[index])) whole[index] = true;
  }
  return whole;
}

// With more threads, these would wait for the one that hashes. Then the thread that puts the
// results hashes them while the next task runs.
constexpr int kMaxThreadsToHash = 2;

// The outputs to hash while they are computed: those that leave the device.
std::vector<bool> HashedOutputs(const Device& device, const Task& task, bool resident) {
  std::vector<bool> hashed;
  if (device.info().threads > kMaxThreadsToHash) return hashed;
  for (const Output& output : task.outputs) {
    hashed.push_back(!resident || !output.may_be_resident);
  }
  return hashed;
}

// How many pieces use each input tuple.
std::vector<std::size_t> PiecesOf(const Task& task, std::size_t inputs) {
  std::vector<std::size_t> counts(inputs, 0);
  for (const Piece& piece : task.pieces) ++counts[piece.input];
  return counts;
}

// Memory for one of the task's buffers. `leaves`: as LeavingWhole.
BufferPtr MakeBuffer(Device& device, const Task& task, std::size_t index, bool leaves) {
  const BufferSpec& spec = task.buffers[index];
  BufferPtr buffer = leaves ? device.AllocateResult(spec.bytes()) : device.Allocate(spec.bytes());
  if (std::binary_search(task.zeroed.begin(), task.zeroed.end(), index)) {
    KernelArgs zeros;
    zeros.m[0] = {buffer.get(), 0, spec.rows, spec.cols, spec.cols};
    device.Launch(Kernel::kFill, zeros);
  }
  return buffer;
}

void CopyPiece(Device& device, const Task& task, const std::vector<BufferPtr>& buffers,
               const Piece& piece, const TaskInput& input) {
  const View place{static_cast<std::int32_t>(piece.buffer), piece.row, piece.col, piece.rows,
                   piece.cols};
  if (input.buffer) {
    CheckSize(input.buffer->size_bytes(), piece);
    const Matrix all{input.buffer.get(), 0, piece.rows, piece.cols, piece.cols};
    device.Copy(input.buffer, all, MatrixOf(task, buffers, place));
  } else {
    CheckSize(input.payload.size(), piece);
    device.CopyIn(input.payload, MatrixOf(task, buffers, place));
  }
}

// The device's buffer of a result that stays there.
StartedResult StartResident(Device& device, const Output& output, const BufferPtr& buffer,
                            const Matrix& from, bool whole) {
  StartedResult result{output.key, nullptr, buffer, output.view.bytes(), std::nullopt};
  if (!whole) {
    result.kept = device.Allocate(result.resident_bytes);
    device.Copy(buffer, from, {result.kept.get(), 0, from.rows, from.cols, from.cols});
  }
  return result;
}

}  // namespace

std::vector<BufferPtr> GatherInputs(Device& device, const Task& task, std::vector<TaskInput> inputs,
                                    bool resident) {
  std::vector<BufferPtr> buffers(task.buffers.size());
  std::vector<std::size_t> pieces_left = PiecesOf(task, inputs.size());
  const auto used = [&](std::uint32_t input) {
    if (--pieces_left[input] == 0) inputs[input] = {};
  };
  for (const Piece& piece : task.pieces) {
    if (!CoversBuffer(piece, task)) continue;
    const TaskInput& input = inputs[piece.input];
    buffers[piece.buffer] = input.buffer ? input.buffer : device.Upload(input.payload);
    CheckSize(buffers[piece.buffer]->size_bytes(), piece);
    used(piece.input);
  }
  std::vector<bool> leaves;  // empty: no buffer had to be made yet
  for (const Piece& piece : task.pieces) {
    if (CoversBuffer(piece, task)) continue;
    BufferPtr& buffer = buffers[piece.buffer];
    if (!buffer) {
      if (leaves.empty()) leaves = LeavingWhole(task, resident);
      buffer = MakeBuffer(device, task, piece.buffer, leaves[piece.buffer]);
    }
    CopyPiece(device, task, buffers, piece, inputs[piece.input]);
    used(piece.input);
  }
  return buffers;
}

bool StartedResults::ready() const {
  const auto is_ready = [](const StartedResult& each) {
    return each.payload == nullptr || each.payload->ready();
  };
  return (mark == nullptr || mark->ready()) &&
         std::all_of(results.begin(), results.end(), is_ready);
}

StartedResults StartTaskOn(Device& device, const Task& task, std::vector<BufferPtr> buffers,
                           bool resident, std::uint64_t keeps_from_bytes) {
  const std::vector<bool> leaves = LeavingWhole(task, resident);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (!buffers[i]) buffers[i] = MakeBuffer(device, task, i, leaves[i]);
  }
  const auto hashes = RunCallsAndHash(device, task, buffers, HashedOutputs(device, task, resident));
  StartedResults started;
  started.results.reserve(task.outputs.size());
  bool stays = false;
  for (std::size_t i = 0; i < task.outputs.size(); ++i) {
    const Output& output = task.outputs[i];
    const auto index = static_cast<std::size_t>(output.view.buffer);
    const bool whole = IsWhole(output.view, task.buffers[index]);
    const Matrix from = MatrixOf(task, buffers, output.view);
    if (resident && output.may_be_resident) {
      started.results.push_back(StartResident(device, output, buffers[index], from, whole));
      stays = true;
      continue;
    }
    const bool kept = whole && (output.keep || output.view.bytes() >= keeps_from_bytes);
    started.results.push_back({output.key, device.StartDownload(buffers[index], from),
                               kept ? buffers[index] : nullptr, 0, hashes[i]});
  }
  // One for all results, as each mark costs driver calls here and where it is waited for.
  if (stays) started.mark = device.StartMark();
  return started;
}

std::vector<TaskResult> FinishResults(StartedResults started) {
  if (started.mark) started.mark->Wait();
  std::vector<TaskResult> results;
  results.reserve(started.results.size());
  for (StartedResult& each : started.results) {
    tuplespace::Payload payload;
    if (each.payload) payload = each.payload->Wait().WithHash(each.hash);
    results.push_back(
        {std::move(each.key), std::move(payload), std::move(each.kept), each.resident_bytes});
  }
  return results;
}

std::vector<TaskResult> RunTaskOn(Device& device, const Task& task, std::vector<TaskInput> inputs) {
  return FinishResults(StartTaskOn(device, task, GatherInputs(device, task, std::move(inputs))));
}

}  // namespace acan
