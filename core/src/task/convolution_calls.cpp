#include "convolution_calls.h"

#include <algorithm>

#include "acan/core/operators/operators.h"
#include "views.h"

namespace acan {
namespace {

bool OverlapsNoOther(const Call& call, const View& view) {
  return std::none_of(call.views.begin(), call.views.end(),
                      [&](const View& other) { return &other != &view && Overlap(other, view); });
}

}  // namespace

bool IsReadLater(const Task& task, std::size_t from, const View& view) {
  for (std::size_t i = from; i < task.calls.size(); ++i) {
    const Call& call = task.calls[i];
    const auto operands = RowOfCall(call).operands;
    bool made_anew = false;
    for (std::size_t j = 0; j < call.views.size(); ++j) {
      if (!Overlap(call.views[j], view)) continue;
      if (operands[j].reads()) return true;
      // These overwrite their whole result.
      const bool writes_all = call.gemm || call.kernel == Kernel::kUnfold;
      made_anew = made_anew || (writes_all && call.views[j] == view);
    }
    if (made_anew) return false;
  }
  return std::any_of(task.outputs.begin(), task.outputs.end(),
                     [&](const Output& output) { return Overlap(output.view, view); });
}

ConvolutionPass FindConvolution(const Task& task, std::size_t first) {
  if (task.calls.size() - first < 2) return ConvolutionPass::kNone;
  const Call& call = task.calls[first];
  const Call& next = task.calls[first + 1];
  if (!call.gemm && call.kernel == Kernel::kUnfold && next.gemm &&
      next.form == GemmForm::kForward) {
    const View& unfolded = next.views[0];
    if (call.views[0] != unfolded || !OverlapsNoOther(next, unfolded) ||
        Overlap(call.views[0], call.views[1]) || IsReadLater(task, first + 2, unfolded)) {
      return ConvolutionPass::kNone;
    }
    return ConvolutionPass::kForward;
  }
  if (call.gemm && call.form == GemmForm::kBackward && !next.gemm && next.kernel == Kernel::kFold) {
    const View& unfolded = call.views[2];
    if (next.views[1] != unfolded || !OverlapsNoOther(call, unfolded) ||
        Overlap(next.views[0], unfolded) || IsReadLater(task, first + 2, unfolded)) {
      return ConvolutionPass::kNone;
    }
    return ConvolutionPass::kInputGradient;
  }
  return ConvolutionPass::kNone;
}

}  // namespace acan
