#include "row_chain.h"

#include <algorithm>
#include <vector>

#include "acan/core/operators/by_rows.h"
#include "acan/core/operators/operators.h"
#include "convolution_calls.h"
#include "views.h"

namespace acan {
namespace {

constexpr std::int64_t kMinRows = 16;  // kernels' operands that samples do not cut have fewer
// Of a chain: each view is compared with all before it. Longer chains become several, which costs
// little beside hundreds of calls.
constexpr std::size_t kMostViews = 512;

// The number of samples in the images of kUnfold or kFold.
std::int64_t SamplesOf(const Call& call, const View& images) {
  return images.rows / (call.scalars.i[0] * call.scalars.i[1]);
}

// Whether samples cut a view of the call. If not, each part uses the whole view.
bool IsCutBySamples(const Call& call, std::size_t view) {
  if (call.gemm) return view != 1;  // the weight
  return call.kernel == Kernel::kUnfold || call.kernel == Kernel::kFold ||
         call.views[view].rows == call.views[0].rows;
}

class Chain {
 public:
  explicit Chain(const Task& task) : task_(task) {}

  RowChain From(std::size_t first) {
    std::size_t at = first, steps = 0;
    while (at < task_.calls.size() && used_.size() < kMostViews) {
      const std::size_t calls = Take(at);
      if (calls == 0) break;
      at += calls;
      ++steps;
    }
    return {at - first, steps, samples_, bytes_};
  }

 private:
  struct Used {
    View view;
    bool is_cut;
    bool is_written;
  };

  // Returns how many calls were added; 0 if the call at `at` cannot be added.
  std::size_t Take(std::size_t at) {
    const Call& call = task_.calls[at];
    const ConvolutionPass pass = FindConvolution(task_, at);
    std::size_t calls = 0;
    std::int64_t samples = 0;
    const View* unfolded = nullptr;
    if (pass == ConvolutionPass::kForward) {
      calls = 2;
      unfolded = &call.views[0];
      samples = SamplesOf(call, call.views[1]);
    } else if (pass == ConvolutionPass::kInputGradient) {
      calls = 2;
      unfolded = &call.views[2];
      samples = SamplesOf(task_.calls[at + 1], task_.calls[at + 1].views[0]);
    } else if (!call.gemm && IsByRows(call.kernel)) {
      calls = 1;
      samples = samples_ != 0 ? samples_ : call.views[0].rows;
    }
    if (calls == 0 || !AgreesOn(samples)) return 0;
    const std::size_t before = used_.size();
    const std::int64_t bytes_before = bytes_;
    for (std::size_t i = at; i < at + calls; ++i) {
      if (Add(task_.calls[i], samples, unfolded)) continue;
      used_.resize(before);
      bytes_ = bytes_before;
      return 0;
    }
    samples_ = samples;
    return calls;
  }

  // Rows of one part must be whole samples of each call. The first convolution sets their number.
  bool AgreesOn(std::int64_t samples) const {
    if (samples_ == 0 || samples_ == samples) return samples > 0;
    return samples > 0 && samples_ % samples == 0 &&
           std::all_of(used_.begin(), used_.end(), [&](const Used& used) {
             return !used.is_cut || used.view.rows % samples == 0;
           });
  }

  // Devices that run parts rarely make the unfolded image, so its bytes do not count.
  bool Add(const Call& call, std::int64_t samples, const View* unfolded) {
    const auto operands = RowOfCall(call).operands;
    for (std::size_t i = 0; i < call.views.size(); ++i) {
      const View& view = call.views[i];
      if (view.buffer < 0) continue;
      const Used now{view, IsCutBySamples(call, i), operands[i].access != Access::kRead};
      if (now.is_cut && (view.rows < kMinRows || view.rows % samples != 0)) return false;
      if (!now.is_cut && now.is_written) return false;
      if (!std::all_of(used_.begin(), used_.end(),
                       [&](const Used& before) { return Agree(before, now); })) {
        return false;
      }
      const bool is_new = std::none_of(used_.begin(), used_.end(),
                                       [&](const Used& before) { return before.view == view; });
      const bool counts = unfolded == nullptr || view != *unfolded;
      if (now.is_cut && is_new && counts) bytes_ += static_cast<std::int64_t>(view.bytes());
      used_.push_back(now);
    }
    return true;
  }

  // If either is written, both must be the same rows and cut alike, or must not overlap.
  static bool Agree(const Used& a, const Used& b) {
    if (!Overlap(a.view, b.view) || (!a.is_written && !b.is_written)) return true;
    return a.is_cut && b.is_cut && a.view.row == b.view.row && a.view.rows == b.view.rows;
  }

  const Task& task_;
  std::int64_t samples_ = 0;
  std::int64_t bytes_ = 0;
  std::vector<Used> used_;
};

}  // namespace

RowChain FindRowChain(const Task& task, std::size_t first) {
  return Chain(task).From(first);
}

void CutToSamples(Call& call, std::int64_t samples, std::int64_t first, std::int64_t count) {
  const auto narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  std::vector<std::size_t> cut;
  for (std::size_t i = 0; i < call.views.size(); ++i) {
    if (call.views[i].buffer >= 0 && IsCutBySamples(call, i)) cut.push_back(i);
  }
  for (const std::size_t i : cut) {
    View& view = call.views[i];
    const std::int64_t rows = view.rows / samples;
    view.row += narrow(first * rows);
    view.rows = narrow(count * rows);
  }
}

}  // namespace acan
