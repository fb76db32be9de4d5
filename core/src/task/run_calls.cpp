#include "acan/core/run_calls.h"

#include <algorithm>
#include <optional>

#include "acan/core/operators/operators.h"
#include "convolution_calls.h"
#include "group_products.h"
#include "output_hashes.h"
#include "row_chain.h"
#include "views.h"

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

// Runs a convolution of two calls, and the following call where the device may run it with them.
std::size_t RunConvolution(Device& device, const Task& task, const std::vector<BufferPtr>& buffers,
                           std::size_t i) {
  const ConvolutionPass pass = FindConvolution(task, i);
  if (pass == ConvolutionPass::kNone) return 0;
  const Call& first = task.calls[i];
  const Call& second = task.calls[i + 1];
  const auto matrix = [&](const View& view) { return MatrixOf(task, buffers, view); };
  if (pass == ConvolutionPass::kInputGradient) {
    device.ConvolveBack(task.precision, task.block, matrix(first.views[0]), matrix(first.views[1]),
                        ArgsOf(task, buffers, second));
    return 2;
  }
  Device::Following then{};
  const bool has_then = task.calls.size() - i > 2 && !task.calls[i + 2].gemm;
  if (has_then) then = {task.calls[i + 2].kernel, ArgsOf(task, buffers, task.calls[i + 2])};
  // The next call may be the next group's unfolding.
  const bool bundled = has_then && then.kernel != Kernel::kUnfold;
  device.Convolve(task.precision, task.block, ArgsOf(task, buffers, first), matrix(second.views[1]),
                  matrix(second.views[2]), bundled ? &then : nullptr);
  return bundled ? 3 : 2;
}

// If the calls from `i` on are the gradient of a convolution's weights, runs them and returns how
// many they are. Returns 0 if they are not, or if the device is faster with each call alone.
std::size_t RunWeightGradient(Device& device, const Task& task,
                              const std::vector<BufferPtr>& buffers, std::size_t i) {
  const Call& unfold = task.calls[i];
  if (unfold.gemm || unfold.kernel != Kernel::kUnfold) return 0;
  const std::optional<GroupProducts> sum = FindGroupProducts(task, i + 1, /*least_groups=*/1);
  const View& unfolded = unfold.views[0];
  if (!sum || sum->b != unfolded || IsReadLater(task, i + 1 + sum->calls, unfolded)) {
    return 0;
  }
  const View& image = unfold.views[1];
  if (Overlap(unfolded, image) || Overlap(unfolded, sum->a) || Overlap(sum->c, image)) return 0;
  const bool done = device.ConvolveWeights(
      task.precision, task.block, sum->group_rows, ArgsOf(task, buffers, unfold),
      MatrixOf(task, buffers, sum->a), MatrixOf(task, buffers, sum->c));
  return done ? 1 + sum->calls : 0;
}

// As RunWeightGradient, for calls that are one product over groups of rows.
std::size_t RunGroupProducts(Device& device, const Task& task,
                             const std::vector<BufferPtr>& buffers, std::size_t i) {
  const std::optional<GroupProducts> sum = FindGroupProducts(task, i, /*least_groups=*/2);
  if (!sum) return 0;
  const bool done = device.GemmGroups(
      task.precision, task.block, sum->group_rows, MatrixOf(task, buffers, sum->a),
      MatrixOf(task, buffers, sum->b), MatrixOf(task, buffers, sum->c));
  return done ? sum->calls : 0;
}

// Runs the call at `i`, together with those that the device can run with it. Returns how many.
std::size_t RunNext(Device& device, const Task& task, const std::vector<BufferPtr>& buffers,
                    std::size_t i) {
  if (const std::size_t calls = RunConvolution(device, task, buffers, i); calls != 0) return calls;
  if (const std::size_t calls = RunWeightGradient(device, task, buffers, i); calls != 0) {
    return calls;
  }
  if (const std::size_t calls = RunGroupProducts(device, task, buffers, i); calls != 0)
    return calls;
  const Call& call = task.calls[i];
  if (!call.gemm) {
    device.Launch(call.kernel, ArgsOf(task, buffers, call));
    return 1;
  }
  const Matrix a = MatrixOf(task, buffers, call.views[0]);
  const Matrix b = MatrixOf(task, buffers, call.views[1]);
  const Matrix c = MatrixOf(task, buffers, call.views[2]);
  // A product is usually followed by its activation or its update.
  if (i + 1 < task.calls.size() && !task.calls[i + 1].gemm) {
    const Call& then = task.calls[i + 1];
    device.GemmThen(call.form, task.precision, task.block, a, b, c, then.kernel,
                    ArgsOf(task, buffers, then));
    return 2;
  }
  device.Gemm(call.form, task.precision, task.block, a, b, c);
  return 1;
}

// Runs the calls of a chain, starting at `i`, part by part.
void RunByParts(Device& device, const Task& task, const std::vector<BufferPtr>& buffers,
                std::size_t i, const RowChain& chain, std::int64_t part_bytes,
                OutputHashes& hashes) {
  const std::int64_t most = std::max<std::int64_t>(1, part_bytes * chain.samples / chain.bytes);
  Task part;
  part.precision = task.precision;
  part.block = task.block;
  part.buffers = task.buffers;
  for (std::int64_t first = 0, count = 0; first < chain.samples; first += count) {
    count = std::min(most, chain.samples - first);
    part.calls.assign(task.calls.begin() + static_cast<std::ptrdiff_t>(i),
                      task.calls.begin() + static_cast<std::ptrdiff_t>(i + chain.count));
    for (Call& call : part.calls) CutToSamples(call, chain.samples, first, count);
    for (std::size_t at = 0; at < chain.count;) at += RunNext(device, part, buffers, at);
    hashes.OnPart(i, chain, first, count);
  }
}

}  // namespace

Matrix MatrixOf(const Task& task, const std::vector<BufferPtr>& buffers, const View& view) {
  if (view.buffer < 0) return {};
  const auto index = static_cast<std::size_t>(view.buffer);
  const std::int64_t stride = task.buffers[index].cols;
  return {buffers[index].get(), view.row * stride + view.col, view.rows, view.cols, stride};
}

void RunCalls(Device& device, const Task& task, const std::vector<BufferPtr>& buffers,
              std::int64_t near_bytes) {
  RunCallsAndHash(device, task, buffers, {}, near_bytes);
}

std::vector<std::optional<tuplespace::PayloadHash>> RunCallsAndHash(
    Device& device, const Task& task, const std::vector<BufferPtr>& buffers,
    const std::vector<bool>& hashed, std::int64_t near_bytes) {
  OutputHashes hashes(device, task, buffers, hashed);
  const bool may_run_by_parts = !device.info().own_memory;
  const std::int64_t part_bytes = near_bytes * device.info().threads;
  std::size_t no_chain_before = 0;  // no chain that pays starts before this call
  for (std::size_t i = 0; i < task.calls.size();) {
    std::size_t calls = 0;
    if (may_run_by_parts && i >= no_chain_before) {
      const RowChain chain = FindRowChain(task, i);
      // How often a part is read while it is in a cache.
      const std::size_t passes = chain.steps + hashes.CountMadeBy(i, chain.count);
      if (chain.steps > 0 && passes >= 2 && chain.bytes >= 2 * part_bytes) {
        RunByParts(device, task, buffers, i, chain, part_bytes, hashes);
        calls = chain.count;
      }
      no_chain_before = i + chain.count;
    }
    if (calls == 0) calls = RunNext(device, task, buffers, i);
    hashes.OnCalls(i, calls);
    i += calls;
  }
  return hashes.Take();
}

}  // namespace acan
