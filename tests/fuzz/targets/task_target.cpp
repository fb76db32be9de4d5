// Task descriptions, decoded as a handler does.
//
// Input: [number of the task's inputs: 1][description]
#include <cstring>
#include <stdexcept>

#include "acan/core/operators/operators.h"
#include "acan/core/task.h"
#include "target.h"
#include "task_generated.h"

namespace acan::fuzz::task_target {
namespace {

using tuplespace::Key;
using tuplespace::Payload;

std::uint64_t BytesOfBuffers(const Task& task) {
  std::uint64_t bytes = 0;
  for (const BufferSpec& buffer : task.buffers) {
    Require(buffer.bytes() <= UINT64_MAX - bytes, "the buffers have more than 2^64 bytes");
    bytes += buffer.bytes();
  }
  return bytes;
}

bool Run(std::string_view input) {
  InputReader in(input);
  const std::size_t inputs = in.Number(1);
  const Payload bytes = Payload::Copy(in.Rest());
  Task task;
  {
    const HeapWatch heap;
    try {
      task = DecodeTask(bytes, inputs);
    } catch (const std::invalid_argument& refused) {
      Require(std::strlen(refused.what()) > 0, "a task is refused without a reason");
      heap.RequireAtMost((64 << 10) + 64 * input.size());
      return false;
    }
    heap.RequireAtMost((64 << 10) + 64 * input.size());
  }
  Require(NeedBytes(task) >= BytesOfBuffers(task),
          "a task needs {} bytes, fewer than its buffers have", NeedBytes(task));
  static_cast<void>(Flops(task));
  const Payload first = EncodeTask(task);
  const Task again = DecodeTask(first, inputs);
  Require(first.text() == EncodeTask(again).text(), "encoding and decoding changes a task");
  for (std::size_t i = 0; i < task.calls.size(); ++i) {
    const KernelScalars& a = task.calls[i].scalars;
    const KernelScalars& b = again.calls[i].scalars;
    Require(std::memcmp(a.f.data(), b.f.data(), sizeof(a.f)) == 0 && a.i == b.i,
            "encoding and decoding changes the scalars of operation {}", i);
  }
  return true;
}

// z[8, 4] = x[8, 16] * w[4, 16]^T, then relu(z + bias); x arrives in two pieces.
Task Product() {
  Task task;
  task.kind = TaskKind::kForward;
  task.block = 16;
  task.buffers = {{8, 16}, {4, 16}, {8, 4}, {1, 4}};
  task.pieces = {{0, 0, 0, 0, 8, 8}, {1, 0, 0, 8, 8, 8}, {2, 1, 0, 0, 4, 16}, {3, 3, 0, 0, 1, 4}};
  Call product;
  product.gemm = true;
  product.form = GemmForm::kForward;
  product.views = {{0, 0, 0, 8, 16}, {1, 0, 0, 4, 16}, {2, 0, 0, 8, 4}};
  Call activation;
  activation.kernel = Kernel::kBiasActivation;
  activation.views = {{2, 0, 0, 8, 4}, {2, 0, 0, 8, 4}, {3, 0, 0, 1, 4}, {}};
  activation.scalars.f[0] = 6.5f;
  activation.scalars.i[0] = 1;
  task.calls = {product, activation};
  task.outputs = {{Key{"job", std::int64_t{3}, "act"}, {2, 0, 0, 8, 4}, true, true},
                  {Key{"job", std::int64_t{3}, "half"}, {2, 0, 2, 8, 2}, false}};
  task.ahead = {{Key{"job", std::int64_t{4}, "act"}, 512}};
  return task;
}

// One operation whose operands are all [4, 8].
Task Elementwise(Kernel kernel) {
  Task task;
  task.kind = TaskKind::kUpdate;
  task.block = 64;
  task.timed = true;
  task.chunk = 3;
  Call call;
  call.kernel = kernel;
  for (std::size_t i = 0; i < RowOf(kernel).operands.size(); ++i) {
    const auto index = static_cast<std::int32_t>(i);
    task.buffers.push_back({4, 8});
    // Inputs arrive in two pieces, so that the operation may also write to them.
    for (const std::int32_t row : {0, 2}) {
      task.pieces.push_back(
          {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i), row, 0, 2, 8});
    }
    call.views.push_back({index, 0, 0, 4, 8});
  }
  call.scalars.f[0] = -0.0f;
  call.scalars.i[1] = -1;
  task.calls = {call};
  task.outputs = {{Key{"result"}, {0, 0, 0, 4, 8}, false}};
  return task;
}

std::vector<Seed> Seeds() {
  const auto bytes = [](const Task& task) {
    return NumberBytes(8, 1) + std::string(EncodeTask(task).text());
  };
  return {{"product", bytes(Product())},
          {"fill", bytes(Elementwise(Kernel::kFill))},
          {"add", bytes(Elementwise(Kernel::kAdd))},
          {"adamw", bytes(Elementwise(Kernel::kAdamW))}};
}

// Views that the description contains once but that thousands of operations share.
std::string SharedViews() {
  flatbuffers::FlatBufferBuilder builder;
  const std::vector<wire::View> views(2000, wire::View(0, 0, 0, 1, 1));
  const auto views_at = builder.CreateVectorOfStructs(views);
  const auto call = wire::CreateCall(builder, 255, 0, views_at);
  const std::vector<flatbuffers::Offset<wire::Call>> calls(10'000, call);
  const auto calls_at = builder.CreateVector(calls);
  wire::FinishTaskBuffer(builder,
                         wire::CreateTask(builder, kTaskVersion, 0, 0, 64, false, 0, 0, calls_at));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

std::vector<Seed> Hostile() {
  Task huge = Elementwise(Kernel::kFill);
  huge.buffers.resize(50'000, {1 << 24, 1 << 24});
  return {
      {"shared-views", NumberBytes(8, 1) + SharedViews()},
      {"more-than-64-bits-of-memory", NumberBytes(8, 1) + std::string(EncodeTask(huge).text())}};
}

const Registration registration({"task", Run, Seeds, Hostile});

}  // namespace
}  // namespace acan::fuzz::task_target
