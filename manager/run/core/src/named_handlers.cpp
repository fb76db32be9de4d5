#include "acan/manager/named_handlers.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "acan/core/task_limits.h"
#include "acan/manager/handler_network.h"
#include "acan/manager/tuple_names.h"
#include "fmt/format.h"

namespace acan {
namespace {

// The named handler may be late because others are; after some steps, waiting is not worthwhile.
constexpr double kStepsToWait = 4;
// A handler that takes the task instead needs its tiles, and then the named one needs them again.
constexpr double kTileTransfersToWait = 2;
constexpr double kMinWaitUs = 50e3;
constexpr double kMaxWaitUs = 60e6;  // the space has its own limit

}  // namespace

void NamedHandlers::Find(const std::map<std::string, Capacity>& handlers, std::size_t present,
                         const ManagerConfig& config, const std::vector<PlannedTask>& step) {
  placement_.reset();
  ids_.clear();
  std::optional<PlacedStep> placed =
      PlaceStep(handlers, step, config.LeastResidentBytes(), config.machine);
  if (!placed) return;
  if (!std::isfinite(placed->placement.step_us)) {
    Note(fmt::format("any handler takes any task, wherever its inputs are, because {}",
                     WhyNotPlaced(step.size(), present)));
    return;
  }
  if (const std::size_t most = MaxHandlersToPlace(step.size()); most < present) {
    Note(
        fmt::format("tasks are placed on at most {} handlers, because placing them on more would "
                    "take too long; other handlers take only tasks that are late",
                    most));
  }
  ids_ = std::move(placed->ids);
  least_kept_bytes_ = placed->network.least_kept_bytes;
  slowest_us_per_kib_ = 0;
  for (const HostLink& link : placed->network.hosts) {
    slowest_us_per_kib_ = std::max(slowest_us_per_kib_, link.us_per_kib);
  }
  placement_ = std::move(placed->placement);
}

// The placement changes with every handler that joins or leaves, so what was said is not repeated.
void NamedHandlers::Note(std::string text) {
  if (noted_.insert(text).second) note_ = std::move(text);
}

void NamedHandlers::NameForStep(std::vector<PlannedTask>* tasks) const {
  if (!placement_ || tasks->size() != placement_->handler_of.size()) return;
  for (std::size_t i = 0; i < tasks->size(); ++i) Name(placement_->handler_of[i], &(*tasks)[i]);
}

void NamedHandlers::NameDataAhead(std::vector<PlannedTask>* tasks) const {
  if (!placement_ || tasks->size() != placement_->handler_of.size()) return;
  std::unordered_set<tuplespace::Key> made;
  for (const PlannedTask& task : *tasks) {
    for (const Output& output : task.task.outputs) made.insert(output.key);
  }
  struct OfHandler {
    Task* tells = nullptr;
    std::map<tuplespace::Key, std::uint64_t> reads;  // bytes
  };
  std::map<int, OfHandler> of_handlers;
  for (std::size_t t = 0; t < tasks->size(); ++t) {
    PlannedTask& task = (*tasks)[t];
    OfHandler& of = of_handlers[placement_->handler_of[t]];
    const bool has_update = of.tells != nullptr && of.tells->kind == TaskKind::kUpdate;
    if (!has_update) of.tells = &task.task;
    for (const Piece& piece : task.task.pieces) {
      const tuplespace::Key& input = task.inputs[piece.input];
      const std::uint64_t bytes = BufferSpec{piece.rows, piece.cols}.bytes();
      const bool is_data = !made.contains(input) && !TileOfKey(input) && StepOf(input);
      if (is_data && bytes >= least_kept_bytes_) of.reads.emplace(input, bytes);
    }
  }
  of_handlers.erase(-1);  // -1: any handler
  for (const auto& [handler, of] : of_handlers) {
    for (const auto& [key, bytes] : of.reads) {
      if (of.tells->ahead.size() == kMaxAhead) break;  // handlers take no such task
      of.tells->ahead.push_back({key, bytes});
      MoveBySteps(1, &of.tells->ahead.back().key);
    }
  }
}

void NamedHandlers::NameForEvaluation(std::vector<PlannedTask>* tasks) const {
  if (!placement_) return;
  std::unordered_map<tuplespace::Key, int> made_by;
  for (PlannedTask& task : *tasks) {
    std::map<int, std::uint64_t> bytes;
    for (const Piece& piece : task.task.pieces) {
      const tuplespace::Key& input = task.inputs[piece.input];
      int handler = -1;
      if (const auto tile = TileIdOf(input)) {
        const auto home = placement_->home_of.find(*tile);
        if (home != placement_->home_of.end()) handler = home->second;
      } else if (const auto made = made_by.find(input); made != made_by.end()) {
        handler = made->second;
      }
      if (handler >= 0) bytes[handler] += BufferSpec{piece.rows, piece.cols}.bytes();
    }
    if (bytes.empty()) continue;
    const int nearest =
        std::ranges::max_element(bytes, {}, [](const auto& of) { return of.second; })->first;
    Name(nearest, &task);
    for (const Output& output : task.task.outputs) made_by.emplace(output.key, nearest);
  }
}

void NamedHandlers::NameForTiles(std::vector<PlannedTask>* tasks) const {
  if (!placement_) return;
  for (PlannedTask& task : *tasks) {
    const auto tile = TileIdOf(task.task.outputs.front().key);
    if (!tile) continue;
    const auto home = placement_->home_of.find(*tile);
    if (home != placement_->home_of.end()) Name(home->second, &task);
  }
}

void NamedHandlers::Name(int handler, PlannedTask* task) const {
  if (handler < 0) return;
  std::uint64_t tile_bytes = 0;
  for (const Piece& piece : task->task.pieces) {
    if (!TileIdOf(task->inputs[piece.input])) continue;
    tile_bytes += BufferSpec{piece.rows, piece.cols}.bytes();
  }
  const double tiles_us = static_cast<double>(tile_bytes) / 1024 * slowest_us_per_kib_;
  const double wait_us =
      std::max(kStepsToWait * placement_->step_us, kTileTransfersToWait * tiles_us);
  task->prefers = ids_[static_cast<std::size_t>(handler)];
  task->prefer_us = static_cast<std::int64_t>(std::clamp(wait_us, kMinWaitUs, kMaxWaitUs));
}

}  // namespace acan
