// The keys of the tuples that the manager plans; acan/core/tuple_kinds.h defines their layout.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/parameter.h"
#include "acan/core/range.h"
#include "acan/core/tuple_kinds.h"
#include "acan/manager/planned_task.h"

namespace acan {

tuplespace::Key TileKey(const std::string& job, std::int64_t version, MatrixId matrix,
                        const Range& outputs, const Range& inputs);
// A tile of a parameter that is not trained: the same in every version.
tuplespace::Key FrozenTileKey(const std::string& job, ParameterId parameter, const Range& outputs,
                              const Range& inputs);
// All tiles of a matrix.
tuplespace::Pattern TilesOf(const std::string& job, tuplespace::FieldPattern version,
                            MatrixId matrix);
tuplespace::Pattern FrozenTilesOf(const std::string& job, ParameterId parameter);
// The inverse of TileKey and FrozenTileKey: the version and the tile, if the key is that of a tile.
std::optional<std::pair<std::int64_t, TileCell>> TileOfKey(const tuplespace::Key& key);
// The tuples of a step, inputs and results of its tasks, except tiles.
std::vector<tuplespace::Pattern> StepWithoutTiles(const std::string& job, std::int64_t step);
// All tiles of a version, except frozen ones.
std::vector<tuplespace::Pattern> TilesOfVersion(const std::string& job, std::int64_t version);

// The tuples of all later steps, and the tiles of later versions, except frozen ones.
std::vector<tuplespace::Pattern> AllAfter(const std::string& job, std::int64_t step);
// The tasks of one step, or of all later steps.
tuplespace::Pattern TasksOf(const std::string& job, tuplespace::FieldPattern step);

// The keys of the tuples of one pass.
class PassKeys {
 public:
  PassKeys(std::string job, std::int64_t step, std::int64_t batch_id)
      : job_(std::move(job)), step_(step), batch_id_(batch_id) {}
  // Rows and features (columns) of a value of the lowered graph.
  tuplespace::Key Features(StepTuple kind, int value, const Range& rows,
                           const Range& features) const;
  tuplespace::Key Rows(StepTuple kind, const Range& rows) const;
  tuplespace::Key Batch(StepTuple kind) const;
  // `of` and the ranges depend on the kind and on the name (acan/core/tuple_kinds.h).
  tuplespace::Key Box(StepTuple kind, int of, const Range& rows, const Range& outputs,
                      const Range& inputs) const;
  tuplespace::Key Task(TaskName name, Precision precision, int of, const Range& rows,
                       const Range& outputs, const Range& inputs) const;

 private:
  std::string job_;
  std::int64_t step_;
  std::int64_t batch_id_;
};

}  // namespace acan
