// A handler whose results stay on its device, beside a broker: what it supplies, and when.
#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/names.h"
#include "acan/core/task.h"
#include "acan/cpu/cpu_device.h"
#include "acan/handler/handler.h"
#include "forwarding_device.h"
#include "handler_beside_broker.h"
#include "handler_core_fixture.h"
#include "supply_queue.h"

namespace acan {
namespace {

using tuplespace::Key;
using tuplespace::Pattern;

constexpr std::uint64_t kTileBytes = 8 << 20;

// What a device with memory of its own was asked for.
struct DeviceCounts {
  std::atomic<int> fills{0};
  std::atomic<int> fetches{0};
  std::atomic<bool> has_room{true};  // in the host's memory
  std::atomic<bool> may_end{true};   // fills do not end before
  std::atomic<pid_t> filled_on{0};   // the thread that ended the last fill
};

class CountingDevice final : public test::ForwardingDevice {
 public:
  CountingDevice(std::uint64_t memory_bytes, DeviceCounts& counts)
      : ForwardingDevice(MakeCpuDevice({1, memory_bytes, std::nullopt})), counts_(counts) {
    info_.own_memory = true;
  }
  tuplespace::Payload Download(const BufferPtr& buffer, const Matrix& from) override {
    const tuplespace::Payload bytes = inner_->Download(buffer, from);
    return tuplespace::Payload::Copy(bytes.data(), bytes.size());
  }
  tuplespace::Payload Fetch(const BufferPtr& buffer) override {
    ++counts_.fetches;
    if (!counts_.has_room) throw std::runtime_error("the host has no memory");
    return ForwardingDevice::Fetch(buffer);
  }
  void Launch(Kernel kernel, const KernelArgs& args) override {
    if (kernel == Kernel::kFill) ++counts_.fills;
    counts_.may_end.wait(false);
    inner_->Launch(kernel, args);
    if (kernel == Kernel::kFill) counts_.filled_on = gettid();
  }

 private:
  DeviceCounts& counts_;
};

// A task that fills the tile of this number.
tuplespace::Tuple FillTile(std::int64_t number, std::uint64_t bytes, bool may_stay) {
  constexpr std::int32_t kRows = 64;
  const auto cols = static_cast<std::int32_t>(bytes / 4 / kRows);
  Task task;
  task.kind = TaskKind::kInitialize;
  task.buffers = {{kRows, cols}};
  Call call;
  call.kernel = Kernel::kFill;
  call.views = {{0, 0, 0, kRows, cols}};
  call.scalars.f[0] = 1;
  task.calls = {call};
  task.outputs = {{Tile(1, number), {0, 0, 0, kRows, cols}, may_stay, may_stay}};
  tuplespace::Tuple tuple;
  tuple.key = Key{"job", 1, "task", "exact", number};
  tuple.payload = EncodeTask(task);
  tuple.task.emplace();
  tuple.task->need_bytes = NeedBytes(task);
  tuple.task->lease_us = 600'000'000;
  tuple.task->results = {Tile(1, number)};
  return tuple;
}

// A task that adds the tile of this number to itself.
tuplespace::Tuple DoubleTile(std::int64_t number, std::uint64_t bytes) {
  constexpr std::int32_t kRows = 64;
  const auto cols = static_cast<std::int32_t>(bytes / 4 / kRows);
  Task task;
  task.buffers = {{kRows, cols}, {kRows, cols}};
  task.pieces = {{0, 0, 0, 0, kRows, cols}};
  Call call;
  call.kernel = Kernel::kAdd;
  call.views = {{1, 0, 0, kRows, cols}, {0, 0, 0, kRows, cols}, {0, 0, 0, kRows, cols}};
  task.calls = {call};
  task.outputs = {{Tile(2, number), {1, 0, 0, kRows, cols}, false, false}};
  tuplespace::Tuple tuple;
  tuple.key = Key{"job", 2, "task", "exact", number};
  tuple.payload = EncodeTask(task);
  tuple.task.emplace();
  tuple.task->inputs = {Tile(1, number)};
  tuple.task->need_bytes = NeedBytes(task);
  tuple.task->lease_us = 600'000'000;
  tuple.task->results = {Tile(2, number)};
  return tuple;
}

class HandlerSupplyTest : public HandlerBesideBroker {
 protected:
  void Begin(tuplespace::BrokerOptions broker, std::uint64_t memory_bytes) {
    HandlerOptions options;
    options.device = std::make_unique<CountingDevice>(memory_bytes, counts_);
    budget_ = &options.device->budget();
    options.bytes_travel = true;  // then it is idle for seconds before it supplies unasked
    Start(std::move(options), std::move(broker));
    counts_.fills = 0;  // those that have proved the device
    counts_.filled_on = 0;
  }
  // Tiles of 8 MiB each stay with the handler.
  void MakeTiles(int count) {
    std::vector<tuplespace::Tuple> tasks;
    for (int i = 0; i < count; ++i) tasks.push_back(FillTile(i, kTileBytes, /*may_stay=*/true));
    ASSERT_TRUE(client_->Put(std::move(tasks), tuplespace::kGenerous));
    ASSERT_TRUE(TurnUntil([&] { return Tiles() == static_cast<std::uint64_t>(count); }));
    ASSERT_EQ(counts_.fetches, 0) << "all stay";
  }
  std::uint64_t Tiles() { return *client_->CountOf(AllTiles(), tuplespace::kGenerous); }
  static Pattern AllTiles() {
    Pattern tiles = tuplespace::AnyOf("job");
    tiles.fields.push_back(tuplespace::FieldPattern::Any());
    tiles.fields.push_back(tuplespace::FieldPattern::Exact("tile"));
    return tiles;
  }
  // The ids of the handlers that have joined.
  std::vector<tuplespace::ClientId> Joined() {
    std::vector<tuplespace::ClientId> ids;
    for (const tuplespace::FoundTuple& found :
         client_->ListAll(AllHandlers(), /*metadata_only=*/true, tuplespace::kGenerous)) {
      ids.push_back(found.put_by);
    }
    return ids;
  }
  // Of a payload that the broker brings.
  std::uint64_t BytesOfTile(std::int64_t number) {
    std::uint64_t bytes = 0;
    tuplespace::Read read;
    read.patterns = {Pattern::Of(Tile(1, number))};
    read.wait_us = tuplespace::kForeverUs;
    client_->Submit(std::move(read), [&](tuplespace::ReplyBody&& reply) {
      const auto* found = std::get_if<tuplespace::Found>(&reply);
      if (found != nullptr && found->tuples.size() == 1) bytes = found->tuples[0].payload.size();
    });
    EXPECT_TRUE(TurnUntil([&] {
      client_->Poll(std::chrono::microseconds(0));
      return bytes > 0;
    }));
    return bytes;
  }
  // For what must not happen meanwhile.
  void TurnFor(std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) handler_->Turn(std::chrono::milliseconds(1));
  }
  // Whether the fill has ended and its thread waits for work again: then the handler's next turn
  // finds the result.
  bool FillIsDone() const {
    const pid_t thread = counts_.filled_on;
    if (thread == 0) return false;
    // The line is "ID (NAME) STATE ..."; S is the state of a thread that waits.
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string line;
    std::getline(file, line);
    const std::size_t name_end = line.rfind(") ");
    return name_end != std::string::npos && line.substr(name_end + 2, 1) == "S";
  }
  // Meanwhile the handler has no turn, so the broker hears nothing of it.
  bool WaitUntilTheHandlerIsLost() {
    return tuplespace::PollUntil(
        *client_, [this] { return client_->GetStatistics(tuplespace::kGenerous)->clients == 1; });
  }
  std::size_t Lines(const std::string& with) const {
    return static_cast<std::size_t>(std::count_if(
        log_.begin(), log_.end(),
        [&](const std::string& line) { return line.find(with) != std::string::npos; }));
  }

  DeviceCounts counts_;
  const MemoryBudget* budget_ = nullptr;  // of the device
};

// All at once they would take as much of the host's memory as of the device's, and pass what a
// client keeps of requests without an answer.
TEST_F(HandlerSupplyTest, OnlySoMuchIsSuppliedBeforeItIsAnswered) {
  constexpr int kTiles = 12;
  constexpr int kAtOnce = kMaxSuppliedBytes / kTileBytes;
  tuplespace::BrokerOptions broker;
  broker.limits.payload_bytes = 2 << 20;  // so each supply is answered with Busy
  Begin(std::move(broker), kTiles * kTileBytes + (64 << 20));
  MakeTiles(kTiles);
  handler_->Stop();
  ASSERT_TRUE(TurnUntil([&] { return counts_.fetches >= kAtOnce; }));
  TurnFor(std::chrono::milliseconds(200));
  EXPECT_EQ(counts_.fetches, kAtOnce);
  // Answers make room for the rest. Of what is gone nothing need be supplied.
  ASSERT_TRUE(client_->RetireAll(AllTiles(), /*watermark=*/false, tuplespace::kGenerous));
  EXPECT_TRUE(TurnUntil([&] { return !handler_->Turn(std::chrono::milliseconds(1)); }));
}

// In a space without room, results wait in this process for their answers.
TEST_F(HandlerSupplyTest, ResultsThatAreNotAnsweredTakeTheRoomOfFurtherTasks) {
  constexpr int kTasks = 60;
  constexpr std::uint64_t kResultBytes = 256 << 10;
  constexpr std::uint64_t kMemoryBytes = 8 << 20;
  tuplespace::BrokerOptions broker;
  broker.limits.payload_bytes = 600 << 10;  // no result has room beside the filler
  Begin(std::move(broker), kMemoryBytes);
  // It waits for its turn to measure the link, which never comes, and for a task.
  ASSERT_TRUE(
      TurnUntil([&] { return client_->GetStatistics(tuplespace::kGenerous)->open_gets == 2; }));
  tuplespace::Tuple filler = tuplespace::PlainTuple({"filler"}, std::string(400 << 10, 'f'));
  ASSERT_TRUE(client_->Put({filler}, tuplespace::kGenerous));
  std::vector<tuplespace::Tuple> tasks;
  for (int i = 0; i < kTasks; ++i) tasks.push_back(FillTile(i, kResultBytes, /*may_stay=*/false));
  ASSERT_TRUE(client_->Put(std::move(tasks), tuplespace::kGenerous));
  ASSERT_TRUE(TurnUntil([&] { return counts_.fills >= 4; }));
  TurnFor(std::chrono::milliseconds(500));
  EXPECT_LE(counts_.fills, static_cast<int>(kMemoryBytes / kResultBytes));
  EXPECT_EQ(Tiles(), 0u);
}

// ---- another handler needs it

// Each of two handlers may take only one of the tasks. The space asks the first one for its result
// when it gives the second task to the other, which waits for a task by then.
TEST_F(HandlerSupplyTest, AnotherHandlerThatNeedsAResultGetsItThroughTheSpace) {
  Begin({}, 64 << 20);
  ASSERT_TRUE(TurnUntil([&] { return Joined().size() == 1; }));
  const tuplespace::ClientId maker = Joined().front();
  DeviceCounts others;
  HandlerOptions options;
  options.endpoint = endpoint_;
  options.name = "other";
  options.device = std::make_unique<CountingDevice>(64 << 20, others);
  options.direct = false;  // otherwise the bytes might not go through the space
  options.context = &context_;
  Handler other(std::move(options));
  const auto both_turn_until = [&](const std::function<bool()>& done) {
    return TurnUntil([&] {
      other.Turn(std::chrono::milliseconds(1));
      return done();
    });
  };
  ASSERT_TRUE(both_turn_until([&] { return Joined().size() == 2; }));
  const std::vector<tuplespace::ClientId> joined = Joined();
  tuplespace::Tuple make = FillTile(0, kTileBytes, /*may_stay=*/true);
  make.task->not_by = {joined.at(0) == maker ? joined.at(1) : joined.at(0)};
  tuplespace::Tuple use = DoubleTile(0, kTileBytes);
  use.task->not_by = {maker};
  ASSERT_TRUE(client_->Put({make, use}, tuplespace::kGenerous));
  const Pattern doubled = Pattern::Of(Tile(2, 0));
  ASSERT_TRUE(both_turn_until(
      [&] { return client_->CountOf(doubled, tuplespace::kGenerous).value_or(0) == 1; }));
  EXPECT_EQ(counts_.fills, 1);
  EXPECT_EQ(counts_.fetches, 1);
  EXPECT_EQ(others.fetches, 0);
  const auto statistics = client_->GetStatistics(tuplespace::kGenerous);
  ASSERT_TRUE(statistics);
  EXPECT_EQ(statistics->counters.stayed, 1u);
  EXPECT_EQ(statistics->counters.wanted, 1u);
  const auto found = client_->ReadOne(doubled, tuplespace::kGenerous);
  ASSERT_TRUE(found);
  ASSERT_EQ(found->payload.size(), kTileBytes);
  float element = 0;
  std::memcpy(&element, found->payload.data(), sizeof(element));
  EXPECT_EQ(element, 2.0f);
}

// ---- a session that ends

// The broker loses a handler that has no turn for so long.
constexpr std::int64_t kSilenceUs = 300'000;

tuplespace::BrokerOptions ImpatientBroker() {
  tuplespace::BrokerOptions broker;
  broker.client_silence_us = kSilenceUs;
  return broker;
}

// Over a link of 8 MB/s these bytes would keep all else from it for seconds.
TEST_F(HandlerSupplyTest, WhatTheSpaceLostWithASessionIsNotSupplied) {
  constexpr int kTiles = 10;
  Begin(ImpatientBroker(), kTiles * kTileBytes + (64 << 20));
  const std::uint64_t used_bytes = budget_->used_bytes();
  MakeTiles(kTiles);
  ASSERT_TRUE(WaitUntilTheHandlerIsLost());
  ASSERT_EQ(Tiles(), 0u);
  ASSERT_TRUE(TurnUntil([&] { return Lines("joined") == 2; }));
  EXPECT_EQ(budget_->used_bytes(), used_bytes);
  TurnFor(std::chrono::milliseconds(200));
  EXPECT_EQ(counts_.fetches, 0);
  // It goes on.
  ASSERT_TRUE(
      client_->Put({FillTile(kTiles, kTileBytes, /*may_stay=*/true)}, tuplespace::kGenerous));
  EXPECT_TRUE(TurnUntil([&] { return Tiles() == 1; }));
}

// The space hears of the result only in the next session: then it is there as any other.
TEST_F(HandlerSupplyTest, AResultThatIsPutAgainIsSuppliedWhenSomebodyAsks) {
  Begin(ImpatientBroker(), 64 << 20);
  counts_.may_end = false;
  ASSERT_TRUE(client_->Put({FillTile(0, kTileBytes, /*may_stay=*/true)}, tuplespace::kGenerous));
  ASSERT_TRUE(TurnUntil([&] { return counts_.fills == 1; }));
  ASSERT_TRUE(WaitUntilTheHandlerIsLost());
  // Somebody else has the task now, so it does not come to the handler again.
  tuplespace::Get get;
  get.pattern = tuplespace::AnyOf("job");
  get.offer_bytes = UINT64_MAX;
  ASSERT_EQ(client_->GetSome(get, tuplespace::kGenerous).size(), 1u);
  counts_.may_end = true;
  counts_.may_end.notify_all();
  // The handler puts the result before it hears that its session has ended.
  ASSERT_TRUE(tuplespace::PollUntil(*client_, [this] { return FillIsDone(); }));
  ASSERT_TRUE(TurnUntil([&] { return Tiles() == 1; }));
  EXPECT_EQ(Lines("joined"), 2u);
  EXPECT_EQ(counts_.fetches, 0);
  EXPECT_EQ(BytesOfTile(0), kTileBytes);
  EXPECT_EQ(counts_.fills, 1);
}

// ---- what cannot be supplied

TEST_F(HandlerSupplyTest, WhatCannotBeFetchedIsTriedAgainAfterAPause) {
  constexpr int kTiles = 4;
  Begin({}, 128 << 20);
  counts_.has_room = false;
  MakeTiles(kTiles);
  ASSERT_TRUE(TurnUntil([&] { return counts_.fetches > 0; })) << "unasked, as it is idle";
  TurnFor(std::chrono::milliseconds(300));
  EXPECT_LE(counts_.fetches, kTiles);
  EXPECT_EQ(Lines("cannot supply"), 1u);
  ASSERT_TRUE(TurnUntil([&] { return counts_.fetches >= 2 * kTiles; }));
  TurnFor(std::chrono::milliseconds(300));
  EXPECT_EQ(Lines("cannot supply"), 2u);
  counts_.has_room = true;
  EXPECT_EQ(BytesOfTile(kTiles - 1), kTileBytes);
}

}  // namespace
}  // namespace acan
