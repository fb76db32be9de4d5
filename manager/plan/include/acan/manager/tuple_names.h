// The keys of what the manager plans (acan/core/names.h has the scheme).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/range.h"
#include "acan/manager/graph.h"

namespace acan {

tuplespace::Key TileKey(const std::string& job, std::int64_t version, int tensor, int state,
                        const Range& outputs, const Range& inputs);
// All tiles of a tensor.
tuplespace::Pattern TilesOfTensor(const std::string& job, tuplespace::FieldPattern version,
                                  int tensor, int state);
// The inverse: the version and the tile of a key, if it is one of a tile.
std::optional<std::pair<std::int64_t, TileCell>> TileOfKey(const tuplespace::Key& key);
// What the tasks of a step were given and made, but for tiles.
std::vector<tuplespace::Pattern> StepWithoutTiles(const std::string& job, std::int64_t step);

// Names of the tuples of one pass.
class Names {
 public:
  Names(std::string job, std::int64_t step, std::int64_t batch_id)
      : job_(std::move(job)), step_(step), batch_id_(batch_id) {}
  tuplespace::Key Features(const char* what, int boundary, const Range& rows,
                           const Range& features) const;
  tuplespace::Key Rows(const char* what, const Range& rows) const;
  tuplespace::Key Box(const char* what, int layer, const Range& rows, const Range& outputs,
                      const Range& inputs) const;
  tuplespace::Key Task(const char* kind, Precision precision, int layer, const Range& rows,
                       const Range& outputs, const Range& inputs) const;

 private:
  std::string job_;
  std::int64_t step_;
  std::int64_t batch_id_;
};

}  // namespace acan
