#include "step_shape.h"

#include <map>
#include <unordered_map>
#include <utility>

#include "acan/manager/task_cost.h"
#include "acan/manager/tuple_names.h"

namespace acan {
namespace {

std::vector<std::vector<double>> TaskTimes(const HandlerNetwork& network,
                                           const std::vector<PlannedTask>& tasks) {
  std::map<double, std::vector<double>> of_speed;
  for (const PlacedHandler& handler : network.handlers) {
    std::vector<double>& times = of_speed[handler.gflops];
    if (!times.empty()) continue;
    for (const PlannedTask& task : tasks) {
      times.push_back(TaskUs({.gflops = handler.gflops}, task.task));
    }
  }
  std::vector<std::vector<double>> by_handler;
  for (const PlacedHandler& handler : network.handlers) {
    by_handler.push_back(of_speed.at(handler.gflops));
  }
  return by_handler;
}

void LinkVersions(StepShape* shape) {
  std::map<TileId, std::size_t> made;
  for (std::size_t i = 0; i < shape->tuples.size(); ++i) {
    const StepShape::OfTuple& tuple = shape->tuples[i];
    if (tuple.tile && tuple.is_made) made.emplace(*tuple.tile, i);
  }
  for (StepShape::OfTuple& tuple : shape->tuples) {
    if (!tuple.tile || tuple.is_made) continue;
    if (const auto next = made.find(*tuple.tile); next != made.end()) {
      tuple.next_version = next->second;
    }
  }
}

}  // namespace

StepShape ShapeOf(const HandlerNetwork& network, const std::vector<PlannedTask>& tasks) {
  StepShape shape;
  std::unordered_map<tuplespace::Key, std::size_t> numbers;
  const auto number_of = [&](const tuplespace::Key& key) {
    const auto [at, is_new] = numbers.try_emplace(key, shape.tuples.size());
    if (!is_new) return at->second;
    StepShape::OfTuple& tuple = shape.tuples.emplace_back();
    tuple.tile = TileIdOf(key);
    tuple.is_frozen = !tuple.tile && TileOfKey(key);
    return at->second;
  };
  for (const PlannedTask& planned : tasks) {
    StepShape::OfTask task;
    for (const tuplespace::Key& key : planned.inputs) task.inputs.push_back(number_of(key));
    for (const Piece& piece : planned.task.pieces) {
      shape.tuples[task.inputs[piece.input]].bytes = BufferSpec{piece.rows, piece.cols}.bytes();
    }
    for (const Output& output : planned.task.outputs) {
      task.outputs.push_back(number_of(output.key));
      StepShape::OfTuple& tuple = shape.tuples[task.outputs.back()];
      tuple.bytes = output.view.bytes();
      tuple.is_made = true;
      if (tuple.tile) task.tile_bytes += tuple.bytes;
    }
    task.priority = planned.priority;
    task.need_bytes = NeedBytes(planned.task);
    shape.tasks.push_back(std::move(task));
  }
  shape.task_us = TaskTimes(network, tasks);
  LinkVersions(&shape);
  return shape;
}

}  // namespace acan
