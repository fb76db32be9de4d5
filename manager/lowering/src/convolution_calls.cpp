#include "convolution_calls.h"

#include "operator_calls.h"

namespace acan {
namespace {

View Columns(View view, std::int64_t first, std::int64_t count) {
  view.col += static_cast<std::int32_t>(first);
  view.cols = static_cast<std::int32_t>(count);
  return view;
}

View Rows(View view, std::int64_t first, std::int64_t count) {
  view.row += static_cast<std::int32_t>(first);
  view.rows = static_cast<std::int32_t>(count);
  return view;
}

// What a group has of channels, outputs and elements of k.
struct Groups {
  Groups(const model::Convolution& op, const View& weight)
      : count(op.groups),
        outputs(weight.rows / op.groups),
        k(weight.cols),
        channels(weight.cols / op.window.kernel.area()) {}
  bool IsDepthwise() const { return count > 1 && channels == 1 && outputs == 1; }

  std::int64_t count, outputs, k, channels;
};

// Each pixel alone: the image is unfolded as it is.
bool IsPointwise(const model::Window& window) {
  const model::Extent one{1, 1}, none{0, 0};
  return window.kernel == one && window.stride == one && window.padding == none;
}

View Unfolded(SegmentTask& task, const model::Window& window, const View& x, const View& scratch) {
  if (IsPointwise(window)) return x;
  task.builder().Launch(Kernel::kUnfold, {scratch, x}, OfWindow(window));
  return scratch;
}

// Rows of a depthwise weight are channels; its calls want taps.
View Transposed(SegmentTask& task, const View& weight) {
  const View out = task.Scratch(weight.cols, weight.rows);
  task.builder().Launch(Kernel::kTranspose, {out, weight});
  return out;
}

KernelScalars With(KernelScalars scalars, std::initializer_list<std::int64_t> after_window) {
  std::size_t i = 8;
  for (const std::int64_t value : after_window) scalars.i[i++] = value;
  return scalars;
}

}  // namespace

KernelScalars Scalars(std::initializer_list<float> floats,
                      std::initializer_list<std::int64_t> integers) {
  KernelScalars scalars;
  std::size_t i = 0;
  for (const float value : floats) scalars.f[i++] = value;
  i = 0;
  for (const std::int64_t value : integers) scalars.i[i++] = value;
  return scalars;
}

KernelScalars OfWindow(const model::Window& window) {
  return Scalars(
      {}, {window.input.height, window.input.width, window.kernel.height, window.kernel.width,
           window.stride.height, window.stride.width, window.padding.height, window.padding.width});
}

void Convolve(SegmentTask& task, const model::Convolution& op, const View& x, const View& weight,
              const View& y) {
  const Groups groups(op, weight);
  if (groups.IsDepthwise()) {
    const View taps = Transposed(task, weight);
    task.builder().Launch(Kernel::kDepthwise, {y, x, taps},
                          With(OfWindow(op.window), {task.context().cuts.block}));
    return;
  }
  const View scratch = IsPointwise(op.window) ? View{} : task.Scratch(y.rows, groups.k);
  for (std::int64_t g = 0; g < groups.count; ++g) {
    const View of_group = Columns(x, g * groups.channels, groups.channels);
    task.builder().Product(GemmForm::kForward, Unfolded(task, op.window, of_group, scratch),
                           Rows(weight, g * groups.outputs, groups.outputs),
                           Columns(y, g * groups.outputs, groups.outputs));
  }
}

void ConvolveInputGradient(SegmentTask& task, const model::Convolution& op, const View& dy,
                           const View& weight, const View& dx) {
  const Groups groups(op, weight);
  if (groups.IsDepthwise()) {
    const View taps = Transposed(task, weight);
    task.builder().Launch(Kernel::kDepthwiseInputGradient, {dx, dy, taps}, OfWindow(op.window));
    return;
  }
  const bool pointwise = IsPointwise(op.window);
  const View scratch = pointwise ? View{} : task.Scratch(dy.rows, groups.k);
  for (std::int64_t g = 0; g < groups.count; ++g) {
    const View of_group = Columns(dx, g * groups.channels, groups.channels);
    const View unfolded = pointwise ? of_group : scratch;
    task.builder().Product(GemmForm::kBackward, Columns(dy, g * groups.outputs, groups.outputs),
                           Rows(weight, g * groups.outputs, groups.outputs), unfolded);
    if (!pointwise) {
      task.builder().Launch(Kernel::kFold, {of_group, unfolded}, OfWindow(op.window));
    }
  }
}

void ConvolveWeightGradient(SegmentTask& task, const model::Convolution& op, const RowOrder& order,
                            const View& dy, const View& x, const View& d_weight) {
  const Groups groups(op, d_weight);
  if (groups.IsDepthwise()) {
    const View taps = task.Scratch(d_weight.cols, d_weight.rows);
    task.builder().Launch(
        Kernel::kDepthwiseWeightGradient, {taps, x, dy},
        With(OfWindow(op.window), {task.context().cuts.block, order.group_rows()}));
    task.builder().Launch(Kernel::kTranspose, {d_weight, taps});
    return;
  }
  const View scratch = IsPointwise(op.window) ? View{} : task.Scratch(dy.rows, groups.k);
  for (std::int64_t g = 0; g < groups.count; ++g) {
    const View unfolded =
        Unfolded(task, op.window, Columns(x, g * groups.channels, groups.channels), scratch);
    const View of_group = Columns(dy, g * groups.outputs, groups.outputs);
    if (groups.count == 1) {
      AddRowProduct(task.builder(), order, task.box(), of_group, unfolded, d_weight);
      continue;
    }
    const View sums = task.Scratch(groups.outputs, groups.k);
    AddRowProduct(task.builder(), order, task.box(), of_group, unfolded, sums);
    task.builder().Launch(Kernel::kScale,
                          {Rows(d_weight, g * groups.outputs, groups.outputs), sums},
                          Scalars({1.0f}, {}));
  }
}

}  // namespace acan
