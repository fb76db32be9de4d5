#include "acan/core/run_calls.h"

namespace acan {
namespace {

KernelArgs ArgsOf(const Task& task, const std::vector<BufferPtr>& buffers, const Call& call) {
  KernelArgs args;
  for (std::size_t i = 0; i < call.views.size(); ++i) {
    args.m[i] = MatrixOf(task, buffers, call.views[i]);
  }
  args.scalars = call.scalars;
  return args;
}

}  // namespace

Matrix MatrixOf(const Task& task, const std::vector<BufferPtr>& buffers, const View& view) {
  if (view.buffer < 0) return {};
  const auto index = static_cast<std::size_t>(view.buffer);
  const std::int64_t stride = task.buffers[index].cols;
  return {buffers[index].get(), view.row * stride + view.col, view.rows, view.cols, stride};
}

void RunCalls(Device& device, const Task& task, const std::vector<BufferPtr>& buffers) {
  for (std::size_t i = 0; i < task.calls.size(); ++i) {
    const Call& call = task.calls[i];
    if (!call.gemm) {
      device.Launch(call.kernel, ArgsOf(task, buffers, call));
      continue;
    }
    const Matrix a = MatrixOf(task, buffers, call.views[0]);
    const Matrix b = MatrixOf(task, buffers, call.views[1]);
    const Matrix c = MatrixOf(task, buffers, call.views[2]);
    // What stands behind a product is mostly its activation or its update.
    if (i + 1 < task.calls.size() && !task.calls[i + 1].gemm) {
      const Call& then = task.calls[++i];
      device.GemmThen(call.form, task.precision, task.block, a, b, c, then.kernel,
                      ArgsOf(task, buffers, then));
    } else {
      device.Gemm(call.form, task.precision, task.block, a, b, c);
    }
  }
}

}  // namespace acan
