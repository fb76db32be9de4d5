// Decides whether the tasks of a segment fit into a handler's memory and the limits of the job.
#include <algorithm>
#include <set>
#include <utility>

#include "cut_cost.h"
#include "segmenter.h"

namespace acan {

// A lower bound of what a task needs that computes the node with whole columns.
std::uint64_t Segmenter::LeastNeed(std::int64_t node, const RowCut& rows) const {
  const LoweredNode& n = graph_.node(static_cast<int>(node));
  if (n.is_view || n.is_shared) return 0;
  const bool cuts_sum =
      rows.IsWithinSamples() && IsPositionsGradient(graph_, static_cast<int>(node));
  std::uint64_t bytes = 0;
  std::vector<int> seen;
  for (const std::vector<int>* ids : {&n.operands, &n.results}) {
    for (const int id : *ids) {
      if (id < 0 || std::find(seen.begin(), seen.end(), id) != seen.end()) continue;
      seen.push_back(id);
      const LoweredValue& value = graph_.value(id);
      std::int64_t of_box = value.rows;
      if (value.IsOfSamples() || cuts_sum) {
        of_box = rows.IsWithinSamples()
                     ? std::min(rows.positions, value.rows)
                     : std::min(rows.samples, request_.training.batch) * value.rows;
      }
      bytes += 4 * static_cast<std::uint64_t>(of_box * value.columns);
    }
  }
  return bytes;
}

// The latest possible end of a segment that begins at `first`: a longer one would hold too much, in
// parameters and sums alone or for a single node. Returns `first` if not even that node fits.
std::int64_t Segmenter::EndByMemory(std::int64_t first, std::int64_t limit,
                                    const RowCut& rows) const {
  std::set<int> kept;
  std::uint64_t bytes = 0;
  for (std::int64_t n = first; n < limit; ++n) {
    if (LeastNeed(n, rows) > cuts_.task_bytes) return n;
    const LoweredNode& node = graph_.node(static_cast<int>(n));
    if (node.is_view || node.is_shared) continue;
    for (const std::vector<int>* ids : {&node.operands, &node.results}) {
      for (const int id : *ids) {
        if (id < 0 || graph_.value(id).IsOfSamples() || !kept.insert(id).second) continue;
        bytes += 4 * static_cast<std::uint64_t>(graph_.value(id).rows * graph_.value(id).columns);
      }
    }
    if (bytes > cuts_.task_bytes) return n;
  }
  return limit;
}

// Whether tasks of the segment, without tiles, touch more weights than the job allows although the
// weights can be cut. Gradients count like their parameters.
bool Segmenter::TouchesTooMuch(const Segment& segment) const {
  if (!request_.size_bytes) return false;
  if (segment.nodes.size() == 1 && !CanBeTiled(graph_, static_cast<int>(segment.nodes.begin))) {
    return false;
  }
  std::set<std::int32_t> touched;
  for (std::int64_t n = segment.nodes.begin; n < segment.nodes.end; ++n) {
    const LoweredNode& node = graph_.node(static_cast<int>(n));
    if (node.is_view || node.is_shared) continue;
    for (const std::vector<int>* ids : {&node.operands, &node.results}) {
      for (const int id : *ids) {
        if (id < 0) continue;
        const LoweredValue& value = graph_.value(id);
        if (value.kind == ValueKind::kParameter) touched.insert(value.index);
        if (value.kind == ValueKind::kSum) touched.insert(graph_.ParameterOfSum(id));
      }
    }
  }
  touched.erase(-1);
  std::uint64_t bytes = 0;
  for (const std::int32_t id : touched) {
    bytes += 4 * static_cast<std::uint64_t>(graph_.graph().parameter(id).elements());
  }
  return bytes > *request_.size_bytes;
}

// Charges a test of the segment, which takes longer the more tiles its tasks read or write.
void Segmenter::ChargeFor(int segment) const {
  if (request_.budget == nullptr) return;
  std::int64_t work = 1;
  const Range nodes = segments_[static_cast<std::size_t>(segment)].nodes;
  for (std::int64_t n = nodes.begin; n < nodes.end; ++n) {
    const LoweredNode& node = graph_.node(static_cast<int>(n));
    for (const std::vector<int>* ids : {&node.operands, &node.results}) {
      for (const int id : *ids) {
        if (id < 0) continue;
        const LoweredValue& value = graph_.value(id);
        if (value.kind == ValueKind::kParameter)
          work += tiles_[static_cast<std::size_t>(value.index)];
      }
    }
  }
  request_.budget->unfit_work -= work;
}

bool Segmenter::FitsAt(int segment) const {
  ChargeFor(segment);
  const TaskCost need = NeedOfSegment(request_, context_, segment);
  return need.need_bytes <= cuts_.task_bytes && need.fits_limits;
}

// As FitsAt, and keeps the costs.
bool Segmenter::MeasureAt(int segment) {
  ChargeFor(segment);
  if (train_) {
    costs_.push_back(CostOfSegment(request_, context_, segment, cuts_.task_bytes));
    return costs_.back().fits;
  }
  const TaskCost need = NeedOfSegment(request_, context_, segment);
  need_bytes_ = std::max(need_bytes_, need.need_bytes);
  return need.need_bytes <= cuts_.task_bytes && need.fits_limits;
}

// Tests the segment after the existing ones, with all later nodes as one segment, or in place of an
// existing one.
bool Segmenter::Fits(const Segment& segment) {
  const bool is_whole =
      !segment.by_tiles && !segment.in_updates && !segment.in_phases && segment.column_parts == 1;
  if (is_whole) {
    if (TouchesTooMuch(segment)) return false;
    for (std::int64_t n = segment.nodes.begin; n < segment.nodes.end; ++n) {
      if (LeastNeed(n, segment.rows) > cuts_.task_bytes) return false;
    }
  }
  if (replaced_ >= 0) {
    Segment& place = segments_[static_cast<std::size_t>(replaced_)];
    const Segment before = std::exchange(place, segment);
    grid_.Overlay(graph_, cuts_, segment);
    const bool fits = FitsAt(replaced_);
    grid_.RemoveOverlay();
    place = before;
    return fits;
  }
  Commit(segment);
  const bool fits = FitsAt(static_cast<int>(segments_.size()) - 1);
  segments_.pop_back();
  grid_.RemoveLast();
  return fits;
}

}  // namespace acan
