#include "group_products.h"

#include <algorithm>
#include <cassert>
#include <vector>

#include "acan/core/operators/operators.h"

namespace acan {
namespace {

bool IsWhole(const Task& task, const View& view) {
  const BufferSpec& buffer = task.buffers[static_cast<std::size_t>(view.buffer)];
  return view.row == 0 && view.col == 0 && view.rows == buffer.rows && view.cols == buffer.cols;
}

bool IsGradient(const Call& call) {
  return call.gemm && call.form == GemmForm::kGradient;
}

// Whether `view` covers the rows directly behind `before`, and at most `most` of them.
bool Continues(const View& before, const View& view, std::int32_t most) {
  return view.buffer == before.buffer && view.col == before.col && view.cols == before.cols &&
         view.row == before.row + before.rows && view.rows <= most;
}

// Whether the call adds the whole buffer `right` to the whole buffer `left`.
bool AddsInto(const Call& call, int left, int right) {
  return !call.gemm && call.kernel == Kernel::kAdd && call.views[0].buffer == left &&
         call.views[1].buffer == left && call.views[2].buffer == right;
}

// Follows the calls of a sum. Additions happen in the order of a binary counter: after group g, as
// many sums are joined as g has trailing one bits; at the end all remaining sums are joined.
class Walk {
 public:
  Walk(const Task& task, std::size_t first) : task_(task), at_(first) {}

  // Whether there are at least `least_groups` groups with all their additions.
  bool Run(std::uint64_t least_groups) {
    while (TakeProduct()) {
      for (std::uint64_t bits = groups_++; (bits & 1) != 0; bits >>= 1) {
        if (!TakeAddition()) return false;
      }
    }
    while (open_.size() > 1) {
      if (!TakeAddition()) return false;
    }
    return groups_ >= least_groups;
  }
  std::size_t end() const { return at_; }
  const std::vector<int>& parts() const { return parts_; }
  const View& last_a() const { return last_a_; }
  const View& last_b() const { return last_b_; }

 private:
  bool TakeProduct() {
    if (at_ == task_.calls.size() || !IsGradient(task_.calls[at_])) return false;
    const View& a = task_.calls[at_].views[0];
    const View& b = task_.calls[at_].views[1];
    const View& c = task_.calls[at_].views[2];
    if (!IsWhole(task_, c) || c.buffer == a.buffer || c.buffer == b.buffer) return false;
    if (groups_ == 0) {
      group_rows_ = a.rows;
    } else if (!Continues(last_a_, a, group_rows_) || !Continues(last_b_, b, group_rows_) ||
               last_a_.rows < group_rows_) {
      return false;
    }
    if (std::find(open_.begin(), open_.end(), c.buffer) != open_.end()) return false;
    open_.push_back(c.buffer);
    if (std::find(parts_.begin(), parts_.end(), c.buffer) == parts_.end()) {
      parts_.push_back(c.buffer);
    }
    last_a_ = a;
    last_b_ = b;
    ++at_;
    return true;
  }
  bool TakeAddition() {
    if (at_ == task_.calls.size() || open_.size() < 2) return false;
    const Call& call = task_.calls[at_];
    if (!AddsInto(call, open_[open_.size() - 2], open_.back())) return false;
    for (const View& view : call.views) {
      if (!IsWhole(task_, view)) return false;
    }
    open_.pop_back();
    ++at_;
    return true;
  }

  const Task& task_;
  std::size_t at_;
  std::uint64_t groups_ = 0;
  std::int32_t group_rows_ = 0;
  View last_a_, last_b_;
  std::vector<int> open_;   // buffers of sums whose right sibling is still missing
  std::vector<int> parts_;  // all buffers that products are written to; the first has the result
};

// Whether call `from` or a later one, or an output, reads a part other than the first before a
// product overwrites it.
bool PartsAreReadLater(const Task& task, std::size_t from, const std::vector<int>& parts) {
  std::vector<std::uint8_t> stale(task.buffers.size(), 0);  // for each buffer
  for (std::size_t i = 1; i < parts.size(); ++i) stale[static_cast<std::size_t>(parts[i])] = 1;
  std::size_t left = parts.size() - 1;
  const auto is_stale = [&](const View& view) {
    return view.buffer >= 0 && stale[static_cast<std::size_t>(view.buffer)] != 0;
  };
  for (std::size_t i = from; i < task.calls.size() && left > 0; ++i) {
    const Call& call = task.calls[i];
    const auto operands = (call.gemm ? RowOf(call.form) : RowOf(call.kernel)).operands;
    for (std::size_t j = 0; j < call.views.size(); ++j) {
      if (operands[j].reads() && is_stale(call.views[j])) return true;
    }
    if (call.gemm && is_stale(call.views[2]) && IsWhole(task, call.views[2])) {
      stale[static_cast<std::size_t>(call.views[2].buffer)] = 0;
      --left;
    }
  }
  return std::any_of(task.outputs.begin(), task.outputs.end(),
                     [&](const Output& output) { return is_stale(output.view); });
}

}  // namespace

std::optional<GroupProducts> FindGroupProducts(const Task& task, std::size_t first,
                                               std::uint64_t least_groups) {
  if (first == task.calls.size() || !IsGradient(task.calls[first])) return std::nullopt;
  Walk walk(task, first);
  if (!walk.Run(least_groups) || PartsAreReadLater(task, walk.end(), walk.parts()))
    return std::nullopt;
  const std::vector<View>& views = task.calls[first].views;
  GroupProducts found{walk.end() - first, views[0].rows, views[0], views[1], views[2]};
  found.a.rows = walk.last_a().row + walk.last_a().rows - found.a.row;
  found.b.rows = walk.last_b().row + walk.last_b().rows - found.b.row;
  return found;
}

}  // namespace acan
