// What the placement assumes about inputs and results that handlers keep or do not keep.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <vector>

#include "acan/core/names.h"
#include "handler_network_cases.h"
#include "tuplespace/messages.h"

namespace acan {
namespace {

// The inputs without tiles, and their bytes.
std::map<tuplespace::Key, std::uint64_t> InputsButTiles(const PlannedTask& task) {
  std::map<tuplespace::Key, std::uint64_t> inputs;
  for (const Piece& piece : task.task.pieces) {
    const tuplespace::Key& key = task.inputs[piece.input];
    if (!TileIdOf(key)) inputs[key] = BufferSpec{piece.rows, piece.cols}.bytes();
  }
  return inputs;
}

// An input that a handler does not keep is sent again for each task that reads it, even to the
// handler that made it.
TEST(KeptCopiesTest, InputsThatAreNotKeptComeFromTheBrokerWithEachTask) {
  const Wide wide({784, 2048, 2048, 10}, 256);
  const auto handlers = OneOnEachHost(4, kGigabit);
  PlanRequest request;
  request.model = wide.model;
  request.training = wide.training;
  request.capacity_bytes = 1ull << 30;
  request.batch_rows = 4;  // cells of 32 KiB
  request.speed.workers = 4;
  request.network = NetworkOf(handlers, kMinKept);
  const std::vector<PlannedTask> tasks = wide.TasksOf(*MakePlan(request, nullptr));
  const auto broker_bytes = [&](std::uint64_t least_held_bytes) {
    request.network->least_held_bytes = least_held_bytes;
    return PlaceTasks(*request.network, tasks, PlacementEffort::kQuick).broker_bytes;
  };
  std::uint64_t small_bytes = 0;
  for (const PlannedTask& task : tasks) {
    for (const auto& [key, bytes] : InputsButTiles(task)) {
      if (bytes < tuplespace::kMinKeptBytes) small_bytes += bytes;
    }
  }
  EXPECT_GT(small_bytes, 0u);
  const std::uint64_t not_kept_bytes = broker_bytes(tuplespace::kMinKeptBytes);
  EXPECT_GE(not_kept_bytes, small_bytes);
  EXPECT_LT(broker_bytes(kMinHeldBytes), not_kept_bytes);
}

// A handler that keeps its result needs no transfer for it.
TEST(KeptCopiesTest, KeptResultsDoNotComeBackToWhoMadeThem) {
  const Wide wide({784, 2048, 2048, 10}, 4);  // cells of 32 KiB at most
  const auto handlers = OneOnEachHost(2, kGigabit);
  const std::vector<PlannedTask> tasks = wide.TasksOf(wide.Make(handlers));
  std::map<tuplespace::Key, std::uint64_t> put;  // by the manager
  for (const PlannedTask& task : tasks) put.merge(InputsButTiles(task));
  for (const PlannedTask& task : tasks) {
    for (const Output& output : task.task.outputs) put.erase(output.key);
  }
  std::uint64_t put_bytes = 0;
  for (const auto& [key, bytes] : put) put_bytes += bytes;
  HandlerNetwork network = NetworkOf(handlers, kMinKept).value();
  network.handlers[1].memory_bytes = 1;  // so the other one gets all tasks
  network.least_held_bytes = 1;
  const auto broker_bytes = [&] {
    return PlaceTasks(network, tasks, PlacementEffort::kQuick).broker_bytes;
  };
  EXPECT_EQ(broker_bytes(), put_bytes);
  network.least_held_bytes = UINT64_MAX;
  EXPECT_GT(broker_bytes(), put_bytes);
}

}  // namespace
}  // namespace acan
