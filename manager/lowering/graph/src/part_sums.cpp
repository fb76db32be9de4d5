#include "part_sums.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <iterator>
#include <utility>

#include "acan/core/optimizers.h"

namespace acan {

std::vector<Box> PartBoxesOf(const PassContext& context, int node) {
  const Segment& segment = context.segments[static_cast<std::size_t>(context.grid.SegmentOf(node))];
  const int reduced = context.ReducedBy(node);
  const RowOrder order = context.OrderOf(reduced);
  const std::int64_t samples = context.pass.rows;
  // All boxes of a sample together make the sample's part of the gradient of learned positions.
  const bool of_samples =
      segment.rows.IsWithinSamples() && IsPositionsGradient(context.graph, node);
  const RowCut rows = of_samples ? RowCut{1, 0} : segment.rows;
  std::vector<Box> parts;
  for (const Box& box : BoxesOf(rows, samples, context.Value(reduced).rows)) {
    for (const Box& of : order.NodesOf(box, samples)) parts.push_back(of);
  }
  return parts;
}

std::vector<SumPart> PartsOfSum(const PassContext& context, int value, const ParameterTile& tile) {
  const int node = context.Value(value).producer;
  const RowOrder order = context.OrderOf(context.ReducedBy(node));
  std::vector<SumPart> parts;
  for (const Box& box : PartBoxesOf(context, node)) {
    const Range place = order.PlaceOf(box);
    parts.push_back({place, context.SumKey(value, place, tile)});
  }
  return parts;
}

int SumOfParts(TaskBuilder& task, const std::vector<SumPart>& parts, std::int64_t rows,
               std::int64_t columns) {
  std::vector<int> buffers;
  std::vector<Range> ranges;
  buffers.reserve(parts.size());
  ranges.reserve(parts.size());
  for (const SumPart& part : parts) {
    buffers.push_back(part.is_hidden ? -1 : task.Input(part.key, rows, columns));
    ranges.push_back(part.range);
  }
  return task.Sum(buffers, ranges);
}

std::uint64_t MatricesOfSum(std::uint64_t parts) {
  const int levels = parts > 1 ? std::bit_width(parts - 1) : 1;
  return parts + static_cast<std::uint64_t>(levels);
}

std::uint64_t MatricesBesideSums(const Training& training) {
  return 2 * static_cast<std::uint64_t>(StateCount(training.optimizer)) + 3;
}

namespace {

// Whether one task can add this many parts, of this many bytes, for each of `names.sums` sums.
bool FitInOneTask(const PassContext& context, std::uint64_t parts, std::uint64_t bytes,
                  const SumNames& names) {
  if (parts <= 2) return true;
  const std::uint64_t room = context.cuts.task_bytes / bytes;
  const std::uint64_t most_of_sums =
      std::min(kMaxPartsOfSum, 2 * kMaxPartsOfSum / std::max<std::uint64_t>(1, names.sums));
  return parts <= most_of_sums && names.beside + names.sums * MatricesOfSum(parts) <= room;
}

std::uint64_t Visible(const std::vector<SumPart>& parts) {
  return static_cast<std::uint64_t>(std::count_if(
      parts.begin(), parts.end(), [](const SumPart& part) { return !part.is_hidden; }));
}

}  // namespace

std::vector<SumPart> ReduceParts(const PassContext& context, std::vector<SumPart> parts,
                                 std::int64_t rows, std::int64_t columns, const SumNames& names,
                                 std::vector<PlannedTask>* tasks) {
  const auto bytes = static_cast<std::uint64_t>(4 * rows * columns);
  if (FitInOneTask(context, Visible(parts), bytes, names)) return parts;
  Range both{parts.front().range.begin, parts.back().range.end};
  auto split = parts.end();
  while (split == parts.end()) {
    assert(LeafCount(both, context.cuts.block) > 1);
    both.end = Halve(both, context.cuts.block).first.end;  // missing parts are at its end
    split = std::find_if(parts.begin(), parts.end(),
                         [&](const SumPart& p) { return p.range.begin == both.end; });
  }
  SumNames inner = names;
  if (!names.add) {
    inner.sums = 1;
    inner.beside = 0;
  }
  std::vector<SumPart> halves;
  for (auto [first, last] : {std::pair(parts.begin(), split), std::pair(split, parts.end())}) {
    std::vector<SumPart> half(std::make_move_iterator(first), std::make_move_iterator(last));
    const Range range{half.front().range.begin, half.back().range.end};
    half = ReduceParts(context, std::move(half), rows, columns, inner, tasks);
    SumPart whole{range, {}, true};
    if (Visible(half) == 1) {
      const auto visible = std::find_if(half.begin(), half.end(),
                                        [](const SumPart& part) { return !part.is_hidden; });
      whole = {range, std::move(visible->key)};
    } else if (Visible(half) > 1) {
      TaskBuilder task(TaskKind::kUpdate, context.training);
      const int sum = names.add ? names.add(task, half) : SumOfParts(task, half, rows, columns);
      whole = {range, names.key(range)};
      task.Put(whole.key, task.All(sum));
      tasks->push_back(
          std::move(task).Finish(names.task_key(range), names.priority, names.segment));
    }
    halves.push_back(std::move(whole));
  }
  return halves;
}

}  // namespace acan
