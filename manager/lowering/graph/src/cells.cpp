#include "cells.h"

#include <algorithm>
#include <cassert>
#include <vector>

namespace acan {
namespace {

// Calls visit(rows, columns) for each cell of `columns` of a root value that lies in the box.
template <typename Visit>
void ForCells(const PassContext& context, int root, const Box& box, const Range& columns,
              const Visit& visit) {
  const std::int64_t positions = context.Value(root).rows;
  ForBoxesWithin(box, context.grid.RowsOf(root), positions, [&](const Box& cell) {
    const Range rows = cell.RowsOf(positions);
    context.grid.ForColumnsWithin(root, columns, [&](const Range& c) { visit(rows, c); });
  });
}

}  // namespace

int GatherCells(const PassContext& context, TaskBuilder& task, int root, const Box& box,
                const Range& columns) {
  assert(context.grid.Crosses(root));
  const std::int64_t positions = context.Value(root).rows;
  const Range rows = box.RowsOf(positions);
  const int buffer = task.NewBuffer(rows.size(), columns.size());
  ForCells(context, root, box, columns, [&](const Range& r, const Range& c) {
    task.AddPiece(buffer, context.keys.Features(StepTuple::kActivation, root, r, c),
                  r.begin - rows.begin, c.begin - columns.begin, r.size(), c.size());
  });
  return buffer;
}

void PutCells(const PassContext& context, TaskBuilder& task, int root, const Box& box,
              const Range& columns, int buffer, std::int64_t first_column) {
  const std::int64_t positions = context.Value(root).rows;
  const Range rows = box.RowsOf(positions);
  ForCells(context, root, box, columns, [&](const Range& r, const Range& c) {
    task.Put(context.keys.Features(StepTuple::kActivation, root, r, c),
             task.Part(buffer, r.begin - rows.begin, c.begin - first_column, r.size(), c.size()));
  });
}

View GatherTiles(const PassContext& context, TaskBuilder& task, std::int32_t parameter,
                 const Range& rows, const Range& columns) {
  std::vector<ParameterTile> tiles = context.TilesWithin(parameter, columns);
  std::erase_if(tiles, [&](const ParameterTile& tile) { return !tile.rows.Overlaps(rows); });
  const Range hull_rows{tiles.front().rows.begin, tiles.back().rows.end};
  const Range hull{tiles.front().columns.begin, tiles.back().columns.end};
  const int buffer = task.NewBuffer(hull_rows.size(), hull.size());
  for (const ParameterTile& tile : tiles) {
    task.AddPiece(buffer, context.TileKeyOf(parameter, tile, context.pass.step),
                  tile.rows.begin - hull_rows.begin, tile.columns.begin - hull.begin,
                  tile.rows.size(), tile.columns.size());
  }
  return task.Part(buffer, rows.begin - hull_rows.begin, columns.begin - hull.begin, rows.size(),
                   columns.size());
}

View GatherTiles(const PassContext& context, TaskBuilder& task, std::int32_t parameter,
                 const Range& columns) {
  return GatherTiles(context, task, parameter, {0, context.ParameterOf(parameter).rows}, columns);
}

}  // namespace acan
