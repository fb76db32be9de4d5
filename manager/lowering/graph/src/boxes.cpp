#include "acan/manager/boxes.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace acan {

Range Box::RowsOf(std::int64_t value_positions) const {
  if (HasWholeSamples()) return {samples.begin * value_positions, samples.end * value_positions};
  assert(samples.size() == 1 && positions.end <= value_positions);
  const std::int64_t first = samples.begin * value_positions;
  return {first + positions.begin, first + positions.end};
}

std::vector<Box> BoxesOf(const RowCut& cut, std::int64_t batch_samples, std::int64_t positions) {
  std::vector<Box> boxes;
  ForBoxesWithin({{0, batch_samples}, {}}, cut, positions,
                 [&](const Box& box) { boxes.push_back(box); });
  return boxes;
}

std::int64_t CountBoxes(const RowCut& cut, std::int64_t batch_samples, std::int64_t positions) {
  const auto pieces = [](std::int64_t axis, std::int64_t span) { return (axis + span - 1) / span; };
  if (!cut.IsWithinSamples()) return pieces(batch_samples, cut.samples);
  return batch_samples * pieces(positions, cut.positions);
}

RowCut FinerOf(const RowCut& a, const RowCut& b) {
  if (a.IsWithinSamples() && b.IsWithinSamples()) return {1, std::min(a.positions, b.positions)};
  if (a.IsWithinSamples()) return a;
  if (b.IsWithinSamples()) return b;
  return {std::gcd(a.samples, b.samples), 0};
}

RowOrder::RowOrder(std::int64_t block, std::int64_t positions)
    : block_(block), positions_(positions) {
  assert(block > 0 && positions > 0);
  while (2 * group_samples_ * positions <= block) group_samples_ *= 2;
  padded_rows_ = block << RootLevel(group_rows(), block);
}

Range RowOrder::PlaceOf(const Box& box) const {
  const auto group_of = [&](std::int64_t sample) { return sample / group_samples_; };
  const std::int64_t after_last = group_of(box.samples.end - 1) + 1;
  if (box.HasWholeSamples()) {
    return {group_of(box.samples.begin) * padded_rows_, after_last * padded_rows_};
  }
  // A group is one sample, because boxes within samples are larger than half a block.
  const std::int64_t first = group_of(box.samples.begin) * padded_rows_;
  const bool last = box.positions.end == positions_;
  return {first + box.positions.begin,
          last ? after_last * padded_rows_ : first + box.positions.end};
}

bool RowOrder::Allows(const RowCut& cut) const {
  if (!cut.IsWithinSamples() || cut.positions >= positions_) {
    return cut.samples % group_samples_ == 0;
  }
  return group_samples_ == 1 && cut.positions >= block_;
}

std::vector<Box> RowOrder::NodesOf(const Box& box, std::int64_t batch_samples) const {
  if (!box.HasWholeSamples()) return {box};
  std::vector<Box> nodes;
  const bool is_last = box.samples.end == batch_samples;
  for (std::int64_t begin = box.samples.begin; begin < box.samples.end;) {
    std::int64_t span = group_samples_;
    while (begin % (2 * span) == 0 && begin + span < box.samples.end &&
           (is_last || begin + 2 * span <= box.samples.end)) {
      span *= 2;
    }
    const std::int64_t end = std::min(begin + span, box.samples.end);
    nodes.push_back({{begin, end}, {}});
    begin = end;
  }
  return nodes;
}

}  // namespace acan
