#include "weight_gradient.h"

#include <algorithm>
#include <vector>

#include "acan/core/operators/operators.h"
#include "views.h"

namespace acan {
namespace {

// Groups [begin, end), whose sum a view holds.
struct Node {
  View sum;
  std::size_t begin;
  std::size_t end;
};

// The rows of `whole` from `first` on that `part` is.
bool IsRowsOf(const View& part, const View& whole, std::int64_t first) {
  return part.buffer == whole.buffer && part.col == whole.col && part.cols == whole.cols &&
         part.row == whole.row + first && part.rows <= whole.rows - first;
}

bool IsGradient(const Call& call) {
  return call.gemm && call.form == GemmForm::kGradient;
}

class Finder {
 public:
  Finder(const Task& task, std::size_t first) : task_(task), first_(first), at_(first + 1) {}

  std::optional<WeightGradientCalls> Find() {
    if (!TakeProducts() || !TakeAdditions() || AnotherReadsASum()) return std::nullopt;
    return WeightGradientCalls{at_ - first_, group_rows_, dy_, nodes_.front().sum};
  }

 private:
  // Of equal groups of rows, of which the last may have fewer.
  bool TakeProducts() {
    const View& unfolded = task_.calls[first_].views[0];
    if (at_ >= task_.calls.size() || !IsGradient(task_.calls[at_])) return false;
    dy_ = task_.calls[at_].views[0];
    group_rows_ = dy_.rows;
    dy_.rows = unfolded.rows;
    for (std::int64_t row = 0; row < unfolded.rows; row += group_rows_, ++at_) {
      if (at_ >= task_.calls.size() || !IsGradient(task_.calls[at_])) return false;
      const Call& call = task_.calls[at_];
      const std::int64_t rows = std::min<std::int64_t>(group_rows_, unfolded.rows - row);
      if (call.views[0].rows != rows || !IsRowsOf(call.views[0], dy_, row)) return false;
      if (call.views[1].rows != rows || !IsRowsOf(call.views[1], unfolded, row)) return false;
      const View& sum = call.views[2];
      if (!IsNew(sum)) return false;
      nodes_.push_back({sum, nodes_.size(), nodes_.size() + 1});
    }
    groups_ = nodes_.size();
    for (const Node& node : nodes_) sums_.push_back(node.sum);
    return true;
  }

  bool IsNew(const View& sum) const {
    const auto& views = task_.calls[first_].views;
    return std::none_of(views.begin(), views.end(),
                        [&](const View& view) { return view.buffer == sum.buffer; }) &&
           sum.buffer != dy_.buffer &&
           std::none_of(nodes_.begin(), nodes_.end(),
                        [&](const Node& node) { return node.sum.buffer == sum.buffer; });
  }

  bool TakeAdditions() {
    for (; nodes_.size() > 1; ++at_) {
      if (at_ >= task_.calls.size()) return false;
      const Call& call = task_.calls[at_];
      if (call.gemm || call.kernel != Kernel::kAdd || !Join(call)) return false;
    }
    return true;
  }

  // left = left + right, two siblings of the tree.
  bool Join(const Call& call) {
    const auto left = std::find_if(nodes_.begin(), nodes_.end(), [&](const Node& node) {
      return SameView(node.sum, call.views[1]);
    });
    if (left == nodes_.end() || left + 1 == nodes_.end()) return false;
    const auto right = left + 1;
    if (!SameView(call.views[0], left->sum) || !SameView(call.views[2], right->sum)) return false;
    const std::size_t size = left->end - left->begin;
    const bool siblings = (size & (size - 1)) == 0 && left->begin % (2 * size) == 0 &&
                          right->end == std::min(right->begin + size, groups_);
    if (!siblings) return false;
    left->end = right->end;
    nodes_.erase(right);
    return true;
  }

  bool AnotherReadsASum() const {
    std::vector<bool> is_sum(task_.buffers.size(), false);
    for (const View& sum : sums_) is_sum[static_cast<std::size_t>(sum.buffer)] = true;
    is_sum[static_cast<std::size_t>(nodes_.front().sum.buffer)] = false;
    const auto reads_one = [&](const View& view) {
      return view.buffer >= 0 && is_sum[static_cast<std::size_t>(view.buffer)];
    };
    for (std::size_t i = at_; i < task_.calls.size(); ++i) {
      if (std::any_of(task_.calls[i].views.begin(), task_.calls[i].views.end(), reads_one)) {
        return true;
      }
    }
    return std::any_of(task_.outputs.begin(), task_.outputs.end(),
                       [&](const Output& output) { return reads_one(output.view); });
  }

  const Task& task_;
  const std::size_t first_;
  std::size_t at_;  // the next call
  std::int64_t group_rows_ = 0;
  View dy_;
  std::vector<Node> nodes_;  // ascending
  std::size_t groups_ = 0;
  std::vector<View> sums_;  // of each group
};

}  // namespace

std::optional<WeightGradientCalls> FindWeightGradient(const Task& task, std::size_t first) {
  const Call& unfold = task.calls[first];
  if (unfold.gemm || unfold.kernel != Kernel::kUnfold) return std::nullopt;
  return Finder(task, first).Find();
}

}  // namespace acan
