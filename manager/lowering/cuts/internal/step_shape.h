// StepShape: what placement needs to know about a step's tasks, with indices instead of keys. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "acan/manager/placement.h"

namespace acan {

struct StepShape {
  struct OfTask {
    std::vector<std::size_t> inputs, outputs;  // tuples
    std::int64_t priority = 0;
    std::uint64_t need_bytes = 0;
    std::uint64_t tile_bytes = 0;  // of outputs that are tiles
  };
  struct OfTuple {
    std::uint64_t bytes = 0;
    std::optional<TileId> tile;
    bool is_made = false;    // by a task of the step
    bool is_frozen = false;  // a tile that handlers keep between steps
    // For a tile that a task reads: the tuple of its next version; unset: none is made.
    std::optional<std::size_t> next_version = {};
  };
  std::vector<OfTask> tasks;
  std::vector<OfTuple> tuples;
  std::vector<std::vector<double>> task_us;  // by handler and task
};
StepShape ShapeOf(const HandlerNetwork& network, const std::vector<PlannedTask>& tasks);

}  // namespace acan
