// Tasks that no honest manager puts, beside a broker: the handler refuses them, or forgets what it
// made, and goes on. What it made and the space accepted, it uses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/task.h"
#include "acan/cpu/cpu_device.h"
#include "acan/handler/handler.h"
#include "handler_beside_broker.h"
#include "handler_core_fixture.h"
#include "task_keys.h"

namespace acan {
namespace {

using tuplespace::Key;
using tuplespace::Pattern;

constexpr std::uint64_t kRefusingDeviceBytes = 64 << 20;
constexpr std::int32_t kFilledRows = 16;
constexpr std::int32_t kFilledCols = 64;

View Filled(std::int32_t buffer) {
  return {buffer, 0, 0, kFilledRows, kFilledCols};
}

Task Filling(const Key& result, float value) {
  Task task;
  task.kind = TaskKind::kInitialize;
  task.buffers = {{kFilledRows, kFilledCols}};
  Call call;
  call.kernel = Kernel::kFill;
  call.views = {Filled(0)};
  call.scalars.f[0] = value;
  task.calls = {call};
  task.outputs = {{result, Filled(0), /*keep=*/true, false}};
  return task;
}

Task Doubling(const Key& result) {
  Task task;
  task.buffers = {{kFilledRows, kFilledCols}, {kFilledRows, kFilledCols}};
  task.pieces = {{0, 0, 0, 0, kFilledRows, kFilledCols}};
  Call call;
  call.kernel = Kernel::kAdd;
  call.views = {Filled(1), Filled(0), Filled(0)};
  task.calls = {call};
  task.outputs = {{result, Filled(1), false, false}};
  return task;
}

// `declared`: what the space believes that the task makes.
tuplespace::Tuple TupleOf(std::int64_t number, const Task& task, const Key& declared,
                          std::vector<Key> inputs = {}) {
  tuplespace::Tuple tuple;
  tuple.key = Key{"job", 1, "task", "exact", number};
  tuple.payload = EncodeTask(task);
  tuple.task.emplace();
  tuple.task->inputs = std::move(inputs);
  tuple.task->need_bytes = NeedBytes(task);
  tuple.task->lease_us = 600'000'000;
  tuple.task->results = {declared};
  return tuple;
}

class HandlerRefusalsTest : public HandlerBesideBroker {
 protected:
  HandlerRefusalsTest() {
    HandlerOptions options;
    options.device = MakeCpuDevice({1, kRefusingDeviceBytes, std::nullopt});
    Start(std::move(options));
  }
  void Put(tuplespace::Tuple tuple) {
    std::vector<tuplespace::Tuple> tuples;
    tuples.push_back(std::move(tuple));
    ASSERT_TRUE(client_->Put(std::move(tuples), tuplespace::kGenerous));
  }
  bool IsThere(const Key& key) {
    return client_->CountOf(Pattern::Of(key), tuplespace::kGenerous).value_or(0) == 1;
  }
  bool HasSaid(const std::string& text) const {
    return std::any_of(log_.begin(), log_.end(), [&](const std::string& line) {
      return line.find(text) != std::string::npos;
    });
  }
  // Of a matrix in the space, all of whose elements are equal; 0: it is not there.
  float ElementOf(const Key& key) {
    const auto found = client_->ReadOne(Pattern::Of(key), tuplespace::kGenerous);
    float element = 0;
    if (found && found->payload.size() >= sizeof(element)) {
      std::memcpy(&element, found->payload.data(), sizeof(element));
    }
    return element;
  }
};

TEST_F(HandlerRefusalsTest, ATaskMakesNoTupleOfAnotherRun) {
  const Key other{"other", 1, "tile", 0};
  Put(TupleOf(0, Filling(other, 1), other));
  EXPECT_TRUE(TurnUntil([&] { return HasSaid("belongs to another run"); }));
  EXPECT_FALSE(IsThere(other));
}

// The handler made the tile before, so the space lets it use the tile that it keeps.
TEST_F(HandlerRefusalsTest, ARefusedResultReplacesNoTile) {
  const Key tile = Tile(1, 0), doubled = Tile(2, 0), marker = Tile(1, 9);
  Put(TupleOf(0, Filling(tile, 1), tile));
  ASSERT_TRUE(TurnUntil([&] { return IsThere(tile); }));
  const tuplespace::Tuple lie = TupleOf(1, Filling(tile, 7), Tile(1, 1));
  Put(lie);
  ASSERT_TRUE(TurnUntil([&] { return HasSaid("the broker refused its results"); }));
  // It may have been taken again. After the next task, that is over, too.
  ASSERT_TRUE(client_->RetireAll(Pattern::Of(lie.key), /*watermark=*/false, tuplespace::kGenerous));
  Put(TupleOf(2, Filling(marker, 1), marker));
  ASSERT_TRUE(TurnUntil([&] { return IsThere(marker); }));
  Put(TupleOf(3, Doubling(doubled), doubled, {tile}));
  ASSERT_TRUE(TurnUntil([&] { return IsThere(doubled); }));
  EXPECT_EQ(ElementOf(doubled), 2.0f);
}

// The answer to the first task's completion comes before the grant of the second one, as nothing
// that the handler has made is used before that answer.
TEST_F(HandlerRefusalsTest, AResultThatCountsIsNotFetched) {
  const Key tile = Tile(1, 0), doubled = Tile(2, 0);
  Put(TupleOf(0, Doubling(doubled), doubled, {tile}));
  Put(TupleOf(1, Filling(tile, 1), tile));
  ASSERT_TRUE(TurnUntil([&] { return IsThere(doubled); }));
  EXPECT_EQ(ElementOf(doubled), 2.0f);
  handler_->Stop();
  EXPECT_EQ(handler_->Run().tile_hits, 1u);
}

// The space may not know the bytes of the tuple that was first, so they need not be equal.
TEST_F(HandlerRefusalsTest, AResultThatWasThereBeforeIsFetched) {
  const Key tile = Tile(1, 0), doubled = Tile(2, 0);
  const std::vector<float> ones(std::size_t{kFilledRows} * kFilledCols, 1.0f);
  tuplespace::Tuple first;
  first.key = tile;
  first.payload = tuplespace::Payload::Copy(ones.data(), ones.size() * sizeof(float));
  Put(std::move(first));
  Put(TupleOf(0, Filling(tile, 1), tile));
  ASSERT_TRUE(TurnUntil([&] {
    const auto statistics = client_->GetStatistics(tuplespace::kGenerous);
    return statistics && statistics->counters.duplicates > 0;
  }));
  Put(TupleOf(1, Doubling(doubled), doubled, {tile}));
  ASSERT_TRUE(TurnUntil([&] { return IsThere(doubled); }));
  EXPECT_EQ(ElementOf(doubled), 2.0f);
  handler_->Stop();
  EXPECT_EQ(handler_->Run().tile_hits, 0u);
}

// Either one would be kept under the key of the other.
TEST_F(HandlerRefusalsTest, TwoResultsWithOneKeyAreRefused) {
  Task task = Filling(Tile(1, 0), 1);
  task.outputs.push_back(task.outputs[0]);
  task.outputs[1].view.rows = 1;
  Put(TupleOf(0, task, Tile(1, 0)));
  EXPECT_TRUE(TurnUntil([&] { return HasSaid("two results with one key"); }));
}

// Both tasks declare what they make, but only one of the two tuples can be kept.
TEST_F(HandlerRefusalsTest, AResultOfAnotherSizeFailsItsTask) {
  const Key tile = Tile(1, 0);
  Put(TupleOf(0, Filling(tile, 1), tile));
  ASSERT_TRUE(TurnUntil([&] { return IsThere(tile); }));
  Task smaller = Filling(tile, 1);
  smaller.buffers[0].rows = 1;
  smaller.calls[0].views[0].rows = smaller.outputs[0].view.rows = 1;
  Put(TupleOf(1, smaller, tile));
  EXPECT_TRUE(TurnUntil([&] { return HasSaid("but the one that is here has"); }));
  Put(TupleOf(2, Filling(Tile(1, 1), 1), Tile(1, 1)));
  EXPECT_TRUE(TurnUntil([&] { return IsThere(Tile(1, 1)); })) << "it goes on";
}

class HandlerAskingTest : public HandlerBesideBroker {};

// Others choose the tasks, and with them how large the answer is. That must not end the handler.
TEST_F(HandlerAskingTest, WhatIsTooLargeIsAskedForInParts) {
  constexpr std::int32_t kChunk = 20;
  HandlerOptions options;
  options.device = MakeCpuDevice({1, kRefusingDeviceBytes, std::nullopt});
  tuplespace::BrokerOptions broker;
  broker.limits.tuples_per_request = kChunk / 2;
  Start(std::move(options), std::move(broker));
  for (std::int32_t i = 0; i < kChunk; ++i) {
    Task task = Filling(Tile(1, i), 1);
    task.chunk = kChunk;
    std::vector<tuplespace::Tuple> tuples;
    tuples.push_back(TupleOf(i, task, Tile(1, i)));
    ASSERT_TRUE(client_->Put(std::move(tuples), tuplespace::kGenerous));
  }
  using tuplespace::FieldPattern;
  const Pattern tiles{{FieldPattern::Exact("job"), FieldPattern::Exact(1),
                       FieldPattern::Exact("tile"), FieldPattern::Any()},
                      false};
  EXPECT_TRUE(TurnUntil([&] {
    return client_->CountOf(tiles, tuplespace::kGenerous).value_or(0) == std::uint64_t{kChunk};
  }));
  EXPECT_TRUE(std::any_of(log_.begin(), log_.end(), [](const std::string& line) {
    return line.find("asking for 9 from now on") != std::string::npos;
  }));
}

TEST(TaskKeysTest, AllKeysAreOfStepsOfTheRun) {
  const Key key{"job-1", 3, "task", "exact", "update"};
  Task task;
  task.outputs = {{Key{"job-1", 4, "tile", 0}, {}, false}};
  task.ahead = {{Key{"job-1", 4, "act", 0}, 64}};
  const std::vector<Key> inputs = {Key{"job-1", 2, "tile", 0}, Key{"job-1", 3, "act", 0}};
  EXPECT_EQ(ProblemOfKeys(task, key, inputs), std::nullopt) << "steps may differ";
  // A handler may read and make only tuples of steps.
  const std::vector<Key> others = {Key{"job-2", 4, "tile", 0},
                                   Key{"job-10", 4, "tile", 0},
                                   Key{"job-", 4, "tile", 0},
                                   Key{3, "tile"},
                                   Key{"report"},
                                   Key{"job-1"},
                                   Key{"job-1", 4},
                                   Key{"job-1", "act", 0}};
  for (const Key& other : others) {
    const std::vector<Key> reads = {inputs[0], other};
    EXPECT_NE(ProblemOfKeys(task, key, reads).value_or("").find(other.ToString()),
              std::string::npos);
    Task makes = task;
    makes.outputs.push_back({other, {}, false});
    EXPECT_NE(ProblemOfKeys(makes, key, inputs).value_or("").find(other.ToString()),
              std::string::npos);
    Task fetches = task;
    fetches.ahead.push_back({other, 64});
    EXPECT_NE(ProblemOfKeys(fetches, key, inputs).value_or("").find(other.ToString()),
              std::string::npos);
  }
}

}  // namespace
}  // namespace acan
