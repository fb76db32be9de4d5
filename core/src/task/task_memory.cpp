// The memory that a task needs.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "acan/core/task.h"

namespace acan {

TaskMemory MemoryOf(const Task& task) {
  const auto add = [](std::uint64_t& sum, std::uint64_t more) {
    sum = more > UINT64_MAX - sum ? UINT64_MAX : sum + more;
  };
  TaskMemory memory;
  struct Known {
    bool is_assembled = false;
    bool is_tuple = false;  // an input, or a result
  };
  std::vector<Known> known(task.buffers.size());
  for (const Piece& piece : task.pieces) {
    add(memory.gathering_bytes, BufferSpec{piece.rows, piece.cols}.bytes());
    Known& buffer = known[piece.buffer];
    if (CoversBuffer(piece, task)) buffer.is_tuple = true;
    if (buffer.is_tuple || buffer.is_assembled) continue;
    buffer.is_assembled = true;
    add(memory.gathering_bytes, task.buffers[piece.buffer].bytes());
  }
  for (const BufferSpec& buffer : task.buffers) add(memory.computing_bytes, buffer.bytes());
  for (const Output& output : task.outputs) {
    const auto index = static_cast<std::size_t>(output.view.buffer);
    const BufferSpec& buffer = task.buffers[index];
    const bool is_part = output.view.rows != buffer.rows || output.view.cols != buffer.cols;
    if (is_part || known[index].is_tuple) add(memory.computing_bytes, output.view.bytes());
    if (!is_part) known[index].is_tuple = true;
  }
  return memory;
}

std::uint64_t NeedBytes(const Task& task) {
  return MemoryOf(task).need_bytes();
}

std::vector<std::uint64_t> InputBytes(const Task& task, std::size_t inputs) {
  std::vector<std::uint64_t> bytes(inputs, 0);
  for (const Piece& piece : task.pieces) {
    bytes[piece.input] = BufferSpec{piece.rows, piece.cols}.bytes();
  }
  return bytes;
}

std::vector<bool> WholeInputs(const Task& task, std::size_t inputs) {
  std::vector<bool> whole(inputs, false);
  for (const Piece& piece : task.pieces) whole[piece.input] = true;
  for (const Piece& piece : task.pieces) {
    if (!CoversBuffer(piece, task)) whole[piece.input] = false;
  }
  return whole;
}

}  // namespace acan
