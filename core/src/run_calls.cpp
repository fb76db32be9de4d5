#include "acan/core/run_calls.h"

#include <algorithm>
#include <optional>

#include "acan/core/operators/operators.h"
#include "group_products.h"

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

const OperatorRow& RowOfCall(const Call& call) {
  return call.gemm ? RowOf(call.form) : RowOf(call.kernel);
}

bool Overlap(const View& x, const View& y) {
  return x.buffer == y.buffer && x.row < y.row + y.rows && y.row < x.row + x.rows &&
         x.col < y.col + y.cols && y.col < x.col + x.cols;
}

bool Same(const View& x, const View& y) {
  return x.buffer == y.buffer && x.row == y.row && x.col == y.col && x.rows == y.rows &&
         x.cols == y.cols;
}

// Whether something reads what `view` has before call `from`: a later call, or who gets an output.
bool IsReadLater(const Task& task, std::size_t from, const View& view) {
  for (std::size_t i = from; i < task.calls.size(); ++i) {
    const Call& call = task.calls[i];
    const auto operands = RowOfCall(call).operands;
    bool made_anew = false;
    for (std::size_t j = 0; j < call.views.size(); ++j) {
      if (!Overlap(call.views[j], view)) continue;
      if (operands[j].reads()) return true;
      // These write all of their result.
      const bool writes_all = call.gemm || call.kernel == Kernel::kUnfold;
      made_anew = made_anew || (writes_all && Same(call.views[j], view));
    }
    if (made_anew) return false;
  }
  return std::any_of(task.outputs.begin(), task.outputs.end(),
                     [&](const Output& output) { return Overlap(output.view, view); });
}

bool OverlapsNoOther(const Call& call, const View& view) {
  return std::none_of(call.views.begin(), call.views.end(),
                      [&](const View& other) { return &other != &view && Overlap(other, view); });
}

// The calls from `i` as one convolution: how many they are, 0 if they are none.
std::size_t RunConvolution(Device& device, const Task& task, const std::vector<BufferPtr>& buffers,
                           std::size_t i) {
  const std::size_t left = task.calls.size() - i;
  if (left < 2) return 0;
  const Call& first = task.calls[i];
  const Call& second = task.calls[i + 1];
  const auto matrix = [&](const View& view) { return MatrixOf(task, buffers, view); };
  if (!first.gemm && first.kernel == Kernel::kUnfold && second.gemm &&
      second.form == GemmForm::kForward) {
    const View& unfolded = second.views[0];
    if (!Same(first.views[0], unfolded) || !OverlapsNoOther(second, unfolded)) return 0;
    if (Overlap(first.views[0], first.views[1]) || IsReadLater(task, i + 2, unfolded)) return 0;
    Device::Following then{};
    const bool has_then = left > 2 && !task.calls[i + 2].gemm;
    if (has_then) then = {task.calls[i + 2].kernel, ArgsOf(task, buffers, task.calls[i + 2])};
    // The call behind may be the next group's unfolding.
    const bool bundled = has_then && then.kernel != Kernel::kUnfold;
    device.Convolve(task.precision, task.block, ArgsOf(task, buffers, first),
                    matrix(second.views[1]), matrix(second.views[2]), bundled ? &then : nullptr);
    return bundled ? 3 : 2;
  }
  if (first.gemm && first.form == GemmForm::kBackward && !second.gemm &&
      second.kernel == Kernel::kFold) {
    const View& unfolded = first.views[2];
    if (!Same(second.views[1], unfolded) || !OverlapsNoOther(first, unfolded)) return 0;
    if (Overlap(second.views[0], unfolded) || IsReadLater(task, i + 2, unfolded)) return 0;
    device.ConvolveBack(task.precision, task.block, matrix(first.views[0]), matrix(first.views[1]),
                        ArgsOf(task, buffers, second));
    return 2;
  }
  return 0;
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
    if (const std::size_t calls = RunConvolution(device, task, buffers, i); calls != 0) {
      i += calls - 1;
      continue;
    }
    if (const std::optional<GroupProducts> groups = FindGroupProducts(task, i)) {
      const auto matrix = [&](const View& view) { return MatrixOf(task, buffers, view); };
      if (device.GemmGroups(task.precision, task.block, groups->group_rows, matrix(groups->a),
                            matrix(groups->b), matrix(groups->c))) {
        i += groups->calls - 1;
        continue;
      }
    }
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
