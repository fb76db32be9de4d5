#include "convolution_calls.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "node_calls.h"
#include "row_product.h"

namespace acan {
namespace {

View Columns(View view, std::int64_t first, std::int64_t count) {
  view.col += static_cast<std::int32_t>(first);
  view.cols = static_cast<std::int32_t>(count);
  return view;
}

// The channels, outputs and elements of k of one group.
struct Groups {
  Groups(const model::Convolution& op, const View& weight)
      : count(op.groups),
        outputs(weight.rows / op.groups),
        k(weight.cols),
        channels(weight.cols / op.window.kernel.area()) {}
  bool IsDepthwise() const { return count > 1 && channels == 1 && outputs == 1; }

  std::int64_t count, outputs, k, channels;
};

// Whether each output reads a single pixel: the image is its own unfolded form.
bool IsPointwise(const model::Window& window) {
  const model::Extent one{1, 1}, none{0, 0};
  return window.kernel == one && window.stride == one && window.padding == none;
}

// The maximum number of rows of k elements that are unfolded at once.
std::int64_t MostUnfolded(const SegmentTask& task, std::int64_t k) {
  constexpr std::uint64_t kShare = 4;  // of a task's memory
  const std::uint64_t bytes = task.context().cuts.task_bytes / kShare;
  return bytes == 0 ? INT64_MAX : static_cast<std::int64_t>(bytes) / (4 * k);
}

// Unfolds parts of images into one buffer, which each call of Of() overwrites.
class Unfolding {
 public:
  // Unfolds at most `most_rows` at once, but at least one row of windows.
  Unfolding(SegmentTask& task, const model::Window& window, std::int64_t samples, std::int64_t k,
            std::int64_t most_rows)
      : task_(task), window_(window), out_(window.output()), samples_(samples) {
    if (IsPointwise(window)) return;
    // Rows of windows at the edges that are unfolded in addition to the wanted ones.
    const std::int64_t extra = 2 * EdgeRows();
    at_once_ = std::min(most_rows / out_.area(), samples);
    height_ = std::clamp<std::int64_t>(most_rows / out_.width - extra, 1, out_.height);
    const std::int64_t rows =
        at_once_ > 0 ? at_once_ * out_.area() : std::min(out_.height, height_ + extra) * out_.width;
    scratch_ = task.Scratch(rows, k);
  }

  // The parts of the output that fit: whole samples, or rows of windows of one sample.
  std::vector<Box> Parts() const {
    if (IsPointwise(window_)) return {{{0, samples_}, {}}};
    std::vector<Box> parts;
    for (std::int64_t s = 0; s < samples_; s += std::max<std::int64_t>(1, at_once_)) {
      if (at_once_ > 0) {
        parts.push_back({{s, std::min(s + at_once_, samples_)}, {}});
        continue;
      }
      for (std::int64_t y = 0; y < out_.height; y += height_) {
        const std::int64_t end = std::min(y + height_, out_.height);
        parts.push_back({{s, s + 1}, {y * out_.width, end * out_.width}});
      }
    }
    return parts;
  }
  // Whether a part can be unfolded that has as many samples, or positions of one sample, as this
  // one.
  bool Fits(const Box& part) const {
    if (IsPointwise(window_)) return true;
    if (part.HasWholeSamples()) return part.samples.size() <= at_once_;
    return at_once_ > 0 || part.positions.size() <= (height_ - 1) * out_.width + 1;
  }

  // The unfolded rows of a part, whose samples count from the first sample of x.
  View Of(const Box& part, const View& x) {
    // A part of a sample counts positions of the output, which may have more than the input.
    if (part.HasWholeSamples() || IsPointwise(window_)) {
      const Range images = part.RowsOf(window_.input.area());
      const View from = Rows(x, images.begin, images.size());
      return IsPointwise(window_) ? from : Launch(window_, from);
    }
    const Range y{part.positions.begin / out_.width,
                  (part.positions.end + out_.width - 1) / out_.width};
    const Band band = BandOf(y);
    model::Window window = window_;
    window.input.height = band.image.size();
    window.padding.height = band.padding;
    const std::int64_t first =
        part.samples.begin * window_.input.area() + band.image.begin * window_.input.width;
    const View rows = Launch(window, Rows(x, first, window.input.area()));
    const std::int64_t skipped = (band.skipped - y.begin) * out_.width + part.positions.begin;
    return Rows(rows, skipped, part.positions.size());
  }

 private:
  // The rows of windows of a part of the image, of which the first ones are skipped.
  struct Band {
    Range image;
    std::int64_t padding = 0;  // above and below
    std::int64_t skipped = 0;
  };

  // The number of rows of windows that lie partly above the image, or partly below it.
  std::int64_t EdgeRows() const {
    return (window_.padding.height + window_.stride.height - 1) / window_.stride.height;
  }
  // Windows over one edge of the image need the padding there, so the other side is padded, too.
  // Windows that lie wholly in the padding still need one row of the image.
  Band BandOf(const Range& y) const {
    const std::int64_t stride = window_.stride.height, padding = window_.padding.height;
    const std::int64_t height = window_.input.height;
    const std::int64_t top = y.begin * stride - padding;
    const std::int64_t bottom = (y.end - 1) * stride - padding + window_.kernel.height;
    if (top >= 0 && bottom <= height) return {{top, bottom}, 0, 0};
    if (bottom <= height) return {{0, std::max<std::int64_t>(bottom, 1)}, padding, y.begin};
    const std::int64_t first =
        std::min(y.begin - std::min(y.begin, EdgeRows()), (height - 1) / stride);
    return {{first * stride, height}, padding, y.begin - first};
  }
  View Launch(const model::Window& window, const View& from) {
    const std::int64_t samples = from.rows / window.input.area();
    const View to = Rows(scratch_, 0, samples * window.output().area());
    task_.builder().Launch(Kernel::kUnfold, {to, from}, OfWindow(window));
    return to;
  }

  SegmentTask& task_;
  const model::Window& window_;
  const model::Extent out_;
  const std::int64_t samples_;
  std::int64_t at_once_ = 0;  // samples; 0: less than one sample at once
  std::int64_t height_ = 0;   // of a part of one sample, in rows of windows
  View scratch_;
};

// Wanted rows of an image, and the rows of windows that overlap them. These windows are exactly the
// windows of the part `image` of the image with this padding.
struct FoldedBand {
  Range wanted;
  Range windows;
  Range image;
  std::int64_t padding = 0;
};

// Returns the whole image if there is no such part.
FoldedBand FoldedBandOf(const model::Window& window, const Range& y) {
  const std::int64_t stride = window.stride.height, padding = window.padding.height;
  const std::int64_t kernel = window.kernel.height, height = window.input.height;
  const std::int64_t count = window.output().height;
  const std::int64_t before = y.begin + padding - kernel;  // windows up to here end before y
  const Range windows{before < 0 ? 0 : before / stride + 1,
                      std::min(count, (y.end - 1 + padding) / stride + 1)};
  const Range inside{windows.begin * stride - padding,
                     (windows.end - 1) * stride - padding + kernel};
  if (inside.begin >= 0 && inside.end <= height && inside.Contains(y)) {
    return {y, windows, inside, 0};
  }
  if (windows.begin == 0) {  // padded above: adds windows until `image` has the wanted rows
    const std::int64_t least = y.end + 2 * padding - kernel;
    const std::int64_t end = std::max(windows.end, least <= 0 ? 1 : (least - 1) / stride + 2);
    const std::int64_t rows = (end - 1) * stride + kernel - 2 * padding;
    if (end < count && rows <= height && rows > 0) return {y, {0, end}, {0, rows}, padding};
  } else if (windows.end == count) {
    // At least one window, even if none overlaps the wanted rows, whose gradient is then 0.
    const std::int64_t begin = std::min({windows.begin, y.begin / stride, count - 1});
    return {y, {begin, count}, {begin * stride, height}, padding};
  }
  return {y, {0, count}, {0, height}, padding};
}

// The rows of a depthwise weight are channels, but its calls need taps as rows.
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
  const std::int64_t positions = op.window.output().area();
  Unfolding unfolding(task, op.window, y.rows / positions, groups.k, MostUnfolded(task, groups.k));
  for (std::int64_t g = 0; g < groups.count; ++g) {
    const View of_group = Columns(x, g * groups.channels, groups.channels);
    const View of_y = Columns(y, g * groups.outputs, groups.outputs);
    for (const Box& part : unfolding.Parts()) {
      const Range rows = part.RowsOf(positions);
      task.builder().Product(GemmForm::kForward, unfolding.Of(part, of_group),
                             Rows(weight, g * groups.outputs, groups.outputs),
                             Rows(of_y, rows.begin, rows.size()));
    }
  }
}

namespace {

// Computes the gradient of the input of one or several images by folding.
class Folding {
 public:
  Folding(SegmentTask& task, const model::Window& window, const View& dx, std::int64_t k)
      : task_(task), window_(window), out_(window.output()) {
    const std::int64_t most_rows = MostUnfolded(task, k);
    samples_ = std::min(most_rows / out_.area(), dx.rows / window.input.area());
    if (samples_ > 0) {
      scratch_ = task.Scratch(samples_ * out_.area(), k);
      return;
    }
    const std::int64_t windows = most_rows / out_.width;
    const std::int64_t span =
        std::max<std::int64_t>(1, (windows - 2) * window.stride.height - window.kernel.height);
    std::int64_t rows = 0, pixels = 0;
    for (std::int64_t y = 0; y < window.input.height; y += span) {
      const FoldedBand band = FoldedBandOf(window, {y, std::min(y + span, window.input.height)});
      bands_.push_back(band);
      rows = std::max(rows, band.windows.size() * out_.width);
      pixels = std::max(pixels, band.image.size() * window.input.width);
    }
    scratch_ = task.Scratch(rows, k);
    image_ = task.Scratch(pixels, dx.cols);
  }

  // dx = fold(dy x weight), where all three belong to one group.
  void Compute(const View& dy, const View& weight, const View& dx) {
    const std::int64_t samples = dx.rows / window_.input.area();
    for (std::int64_t s = 0; s < samples; s += std::max<std::int64_t>(1, samples_)) {
      if (samples_ > 0) {
        const std::int64_t count = std::min(samples_, samples - s);
        const View from = Rows(dy, s * out_.area(), count * out_.area());
        Fold(window_, Multiply(from, weight),
             Rows(dx, s * window_.input.area(), count * window_.input.area()));
        continue;
      }
      for (const FoldedBand& band : bands_) ComputeBand(band, s, dy, weight, dx);
    }
  }

 private:
  void ComputeBand(const FoldedBand& band, std::int64_t sample, const View& dy, const View& weight,
                   const View& dx) {
    const std::int64_t width = window_.input.width;
    const std::int64_t first = sample * out_.area() + band.windows.begin * out_.width;
    const View unfolded = Multiply(Rows(dy, first, band.windows.size() * out_.width), weight);
    model::Window window = window_;
    window.input.height = band.image.size();
    window.padding.height = band.padding;
    const View image = Rows(image_, 0, band.image.size() * width);
    Fold(window, unfolded, image);
    const std::int64_t to = sample * window_.input.area() + band.wanted.begin * width;
    const std::int64_t rows = band.wanted.size() * width;
    task_.builder().Launch(
        Kernel::kScale,
        {Rows(dx, to, rows), Rows(image, (band.wanted.begin - band.image.begin) * width, rows)},
        Scalars({1.0f}, {}));
  }
  View Multiply(const View& dy, const View& weight) {
    const View unfolded = Rows(scratch_, 0, dy.rows);
    task_.builder().Product(GemmForm::kBackward, dy, weight, unfolded);
    return unfolded;
  }
  void Fold(const model::Window& window, const View& unfolded, const View& dx) {
    task_.builder().Launch(Kernel::kFold, {dx, unfolded}, OfWindow(window));
  }

  SegmentTask& task_;
  const model::Window& window_;
  const model::Extent out_;
  std::int64_t samples_ = 0;  // at once; 0: bands of one sample
  std::vector<FoldedBand> bands_;
  View scratch_, image_;
};

// Sums over rows, by parts that can be unfolded and are nodes of the tree of rows.
class UnfoldedSums {
 public:
  UnfoldedSums(SegmentTask& task, const model::Window& window, const RowOrder& order,
               const View& dy, std::int64_t k)
      : task_(task),
        order_(order),
        positions_(window.output().area()),
        unfolding_(task, window, dy.rows / positions_, k,
                   std::max(MostUnfolded(task, k), LeastRows(task, window))) {}

  // sums[outputs, k] over all rows of dy[rows, outputs].
  void Compute(const View& dy, const View& x, const View& sums) {
    Add({{0, dy.rows / positions_}, {}}, 0, dy, x, sums);
  }

 private:
  // Enough for a leaf of the tree, wherever it begins in a row of windows.
  static std::int64_t LeastRows(const SegmentTask& task, const model::Window& window) {
    const model::Extent out = window.output();
    const std::int64_t edges =
        2 * ((window.padding.height + window.stride.height - 1) / window.stride.height);
    return (task.context().cuts.block / out.width + 2 + edges) * out.width;
  }

  // Samples count from the first sample of the box.
  void Add(const Box& part, std::size_t depth, const View& dy, const View& x, const View& sums) {
    const Range rows = part.RowsOf(positions_);
    if (unfolding_.Fits(part)) {
      const View of_dy = Rows(dy, rows.begin, rows.size());
      const View unfolded = unfolding_.Of(part, x);
      const std::int64_t first = task_.box().samples.begin;
      if (part.HasWholeSamples()) {
        const Box of{{first + part.samples.begin, first + part.samples.end}, {}};
        AddRowProduct(task_.builder(), order_, of, of_dy, unfolded, sums);
      } else {
        task_.builder().Product(GemmForm::kGradient, of_dy, unfolded, sums);
      }
      return;
    }
    if (right_.size() <= depth) right_.push_back(task_.Scratch(sums.rows, sums.cols));
    const View right = right_[depth];
    const auto [a, b] = Halves(part);
    Add(a, depth + 1, dy, x, sums);
    Add(b, depth + 1, dy, x, right);
    task_.builder().Launch(Kernel::kAdd, {sums, sums, right});
  }

  std::pair<Box, Box> Halves(const Box& part) const {
    const std::int64_t first = task_.box().samples.begin;
    if (part.HasWholeSamples() && part.samples.size() > 1) {
      const Range all{first + part.samples.begin, first + part.samples.end};
      const auto [a, b] = Halve(all, order_.group_samples());
      return {{{a.begin - first, a.end - first}, {}}, {{b.begin - first, b.end - first}, {}}};
    }
    const Range rows = part.HasWholeSamples() ? Range{0, positions_} : part.positions;
    const auto [a, b] = Halve(rows, task_.context().cuts.block);
    return {{part.samples, a}, {part.samples, b}};
  }

  SegmentTask& task_;
  const RowOrder order_;
  const std::int64_t positions_;
  Unfolding unfolding_;
  std::vector<View> right_;  // by depth
};

}  // namespace

void ConvolveInputGradient(SegmentTask& task, const model::Convolution& op, const View& dy,
                           const View& weight, const View& dx) {
  const Groups groups(op, weight);
  if (groups.IsDepthwise()) {
    const View taps = Transposed(task, weight);
    task.builder().Launch(Kernel::kDepthwiseInputGradient, {dx, dy, taps}, OfWindow(op.window));
    return;
  }
  const bool pointwise = IsPointwise(op.window);
  std::optional<Folding> folding;
  if (!pointwise) folding.emplace(task, op.window, Columns(dx, 0, groups.channels), groups.k);
  for (std::int64_t g = 0; g < groups.count; ++g) {
    const View of_dx = Columns(dx, g * groups.channels, groups.channels);
    const View of_dy = Columns(dy, g * groups.outputs, groups.outputs);
    const View of_weight = Rows(weight, g * groups.outputs, groups.outputs);
    if (pointwise) {
      task.builder().Product(GemmForm::kBackward, of_dy, of_weight, of_dx);
    } else {
      folding->Compute(of_dy, of_weight, of_dx);
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
  UnfoldedSums of_rows(task, op.window, order, dy, groups.k);
  const View scratch = groups.count == 1 ? View{} : task.Scratch(groups.outputs, groups.k);
  for (std::int64_t g = 0; g < groups.count; ++g) {
    const View of_x = Columns(x, g * groups.channels, groups.channels);
    const View of_dy = Columns(dy, g * groups.outputs, groups.outputs);
    if (groups.count == 1) {
      of_rows.Compute(of_dy, of_x, d_weight);
      continue;
    }
    of_rows.Compute(of_dy, of_x, scratch);
    task.builder().Launch(Kernel::kScale,
                          {Rows(d_weight, g * groups.outputs, groups.outputs), scratch},
                          Scalars({1.0f}, {}));
  }
}

}  // namespace acan
