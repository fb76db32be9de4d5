#include "pass_context.h"

#include <algorithm>
#include <cassert>

#include "acan/core/optimizers.h"

namespace acan {
std::int64_t SegmentPriority(const Pass& pass, int segment) {
  return pass.step * kPrioritiesOfStep + kStagesOfSegment * segment;
}

std::int64_t UpdatePriority(const Pass& pass, std::int64_t place) {
  return pass.step * kPrioritiesOfStep + kPrioritiesOfStep / 2 + kStagesOfSegment * place;
}

std::vector<ParameterTile> PassContext::Tiles(std::int32_t parameter) const {
  const model::Parameter& p = ParameterOf(parameter);
  return TilesOf(p.rows, p.columns, cuts.parameters[static_cast<std::size_t>(parameter)],
                 cuts.block);
}

std::vector<Range> PassContext::RowsOfTiles(std::int32_t parameter) const {
  return NodesOfLevel(ParameterOf(parameter).rows, cuts.block,
                      cuts.parameters[static_cast<std::size_t>(parameter)].row_level);
}

std::vector<ParameterTile> PassContext::TilesWithin(std::int32_t parameter,
                                                    const Range& columns) const {
  const model::Parameter& p = ParameterOf(parameter);
  const ParameterCut& cut = cuts.parameters[static_cast<std::size_t>(parameter)];
  const std::int64_t span = cuts.block << cut.column_level;
  const std::int64_t first = columns.begin / span * span;
  std::vector<ParameterTile> tiles;
  for (const Range& r : RowsOfTiles(parameter)) {
    for (std::int64_t c = first; c < columns.end; c += span) {
      tiles.push_back({r, {c, std::min(c + span, p.columns)}});
    }
  }
  return tiles;
}

std::span<const ParameterState> PassContext::MatricesOf(std::int32_t parameter) const {
  return StatesOf(ParameterOf(parameter).trained() ? StateCount(training.optimizer) : 0);
}

tuplespace::Key PassContext::TileKeyOf(std::int32_t parameter, const ParameterTile& tile,
                                       std::int64_t version, ParameterState state) const {
  if (ParameterOf(parameter).frozen) {
    assert(state == ParameterState::kValue);
    return FrozenTileKey(pass.job, ParameterId{parameter}, tile.rows, tile.columns);
  }
  return TileKey(pass.job, version, {ParameterId{parameter}, state}, tile.rows, tile.columns);
}

std::vector<ParameterTile> PassContext::TilesOfSum(int value) const {
  const std::int32_t parameter = graph.ParameterOfSum(value);
  if (parameter >= 0) return Tiles(parameter);
  return {{{0, Value(value).rows}, {0, Value(value).columns}}};
}

tuplespace::Key PassContext::SumKey(int value, const Range& place,
                                    const ParameterTile& tile) const {
  return keys.Box(StepTuple::kGradientPart, value, place, tile.rows, tile.columns);
}

tuplespace::Key PassContext::SumKey(int value, const Box& box, const ParameterTile& tile) const {
  return SumKey(value, OrderOf(ReducedBy(Value(value).producer)).PlaceOf(box), tile);
}

// The gradient of the operator's result is the first operand; a convolution's x has other
// positions.
int PassContext::ReducedBy(int node) const {
  for (const int operand : graph.node(node).operands) {
    if (operand >= 0 && Value(operand).IsOfSamples()) return operand;
  }
  assert(false);
  return -1;
}

}  // namespace acan
