// A handler whose device has no room for some uploads, as other programs may use its memory, beside
// a broker.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
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
#include "forwarding_device.h"
#include "handler_beside_broker.h"
#include "handler_core_fixture.h"

namespace acan {
namespace {

using tuplespace::Key;
using tuplespace::Pattern;

constexpr std::uint64_t kFullDeviceBytes = 10 << 20;
constexpr std::int32_t kSumRows = 64;
// Tiles of 64 KiB, which a handler over a link keeps.
constexpr std::int32_t kSmallCols = 256;
// Tiles of 3 MiB: a task that doubles one needs 6 MiB, more than half of the device's memory.
constexpr std::int32_t kLargeCols = 12 << 10;

// Uploads first, first + 1, ..., first + count - 1 are refused.
struct UploadFaults {
  std::atomic<int> uploads{0};
  std::atomic<int> first{1};
  std::atomic<int> count{0};
};

class FullDevice final : public test::ForwardingDevice {
 public:
  explicit FullDevice(UploadFaults& faults)
      : ForwardingDevice(MakeCpuDevice({1, kFullDeviceBytes, std::nullopt})), faults_(faults) {}
  BufferPtr Upload(const tuplespace::Payload& payload) override {
    const int number = ++faults_.uploads;
    if (number >= faults_.first && number < faults_.first + faults_.count) {
      throw OutOfMemory("others use the device's memory");
    }
    return ForwardingDevice::Upload(payload);
  }

 private:
  UploadFaults& faults_;
};

tuplespace::Tuple TileOfOnes(std::int64_t number, std::int32_t cols) {
  const std::vector<float> ones(static_cast<std::size_t>(kSumRows * cols), 1.0f);
  tuplespace::Tuple tuple;
  tuple.key = Tile(1, number);
  tuple.payload = tuplespace::Payload::Copy(ones.data(), ones.size() * sizeof(float));
  return tuple;
}

// A task that adds `count` tiles, of which `first` counts twice.
tuplespace::Tuple SumOfTiles(std::int64_t first, std::int32_t count, std::int32_t cols) {
  const auto whole = [cols](std::int32_t buffer) { return View{buffer, 0, 0, kSumRows, cols}; };
  Task task;
  task.buffers.assign(static_cast<std::size_t>(2 * count), BufferSpec{kSumRows, cols});
  tuplespace::Tuple tuple;
  tuple.task.emplace();
  for (std::int32_t i = 0; i < count; ++i) {
    const auto index = static_cast<std::uint32_t>(i);
    task.pieces.push_back({index, index, 0, 0, kSumRows, cols});
    Call call;
    call.kernel = Kernel::kAdd;
    call.views = {whole(count + i), whole(i == 0 ? 0 : count + i - 1), whole(i)};
    task.calls.push_back(std::move(call));
    tuple.task->inputs.push_back(Tile(1, first + i));
  }
  task.outputs = {{Tile(2, first), whole(2 * count - 1), false, false}};
  tuple.key = Key{"job", 2, "task", "exact", first};
  tuple.payload = EncodeTask(task);
  tuple.task->need_bytes = NeedBytes(task);
  tuple.task->lease_us = 600'000'000;
  tuple.task->results = {Tile(2, first)};
  return tuple;
}

class HandlerUploadTest : public HandlerBesideBroker {
 protected:
  void Begin(bool bytes_travel) {
    HandlerOptions options;
    options.device = std::make_unique<FullDevice>(faults_);
    options.bytes_travel = bytes_travel;
    Start(std::move(options));
  }
  // Numbers from 1 on, as from now on.
  void Refuse(int first, int count) {
    faults_.uploads = 0;
    faults_.first = first;
    faults_.count = count;
  }
  bool IsDone(std::int64_t first) {
    const Pattern result = Pattern::Of(Tile(2, first));
    return client_->CountOf(result, tuplespace::kGenerous).value_or(0) == 1;
  }
  std::size_t Failures() const {
    return static_cast<std::size_t>(std::count_if(
        log_.begin(), log_.end(),
        [](const std::string& line) { return line.find("task failed") != std::string::npos; }));
  }
  // Two tasks, one after the other, each of which needs more than half of the memory.
  void RunLargeTasksOfWhichTheFirstFailsOnce() {
    Refuse(1, 1);
    for (const std::int64_t number : {0, 1}) {
      ASSERT_TRUE(client_->Put({TileOfOnes(number, kLargeCols), SumOfTiles(number, 1, kLargeCols)},
                               tuplespace::kGenerous));
      ASSERT_TRUE(TurnUntil([&] { return IsDone(number); })) << "task " << number;
    }
    EXPECT_EQ(Failures(), 1u);
  }

  UploadFaults faults_;
};

// All three inputs were to be kept when the second one had no room.
TEST_F(HandlerUploadTest, InputsOfATaskThatFailedAreFetchedAgain) {
  Begin(/*bytes_travel=*/true);
  Refuse(2, 1);
  std::vector<tuplespace::Tuple> tuples;
  for (std::int64_t i = 0; i < 3; ++i) tuples.push_back(TileOfOnes(i, kSmallCols));
  tuples.push_back(SumOfTiles(0, 3, kSmallCols));
  ASSERT_TRUE(client_->Put(std::move(tuples), tuplespace::kGenerous));
  ASSERT_TRUE(TurnUntil([&] { return IsDone(0) || Failures() > 1; }));
  ASSERT_EQ(Failures(), 1u) << log_.back();
  const auto sum = client_->ReadOne(Pattern::Of(Tile(2, 0)), tuplespace::kGenerous);
  ASSERT_TRUE(sum);
  ASSERT_EQ(sum->payload.size(), std::size_t{kSumRows} * kSmallCols * sizeof(float));
  float element = 0;
  std::memcpy(&element, sum->payload.data(), sizeof(element));
  EXPECT_EQ(element, 4.0f);
}

// The handler asks for tasks before and after the failure, and the later request, with the larger
// offer, must count.
TEST_F(HandlerUploadTest, LargeTasksStillComeAfterOneFailed) {
  Begin(/*bytes_travel=*/false);
  RunLargeTasksOfWhichTheFirstFailsOnce();
}

TEST_F(HandlerUploadTest, LargeTasksStillComeOverALinkAfterOneFailed) {
  Begin(/*bytes_travel=*/true);
  RunLargeTasksOfWhichTheFirstFailsOnce();
}

// The handler says that it holds the input, and then that it does not.
TEST_F(HandlerUploadTest, AnInputThatNeverHasRoomIsNotHeldInTheEnd) {
  Begin(/*bytes_travel=*/true);
  Refuse(1, 1000);
  ASSERT_TRUE(client_->Put({TileOfOnes(0, kSmallCols), SumOfTiles(0, 1, kSmallCols)},
                           tuplespace::kGenerous));
  std::optional<tuplespace::Stats> statistics;
  const auto look = [&] { statistics = client_->GetStatistics(tuplespace::kGenerous); };
  ASSERT_TRUE(TurnUntil([&] {
    look();
    return statistics && statistics->tasks_parked == 1;
  }));
  EXPECT_TRUE(TurnUntil([&] {
    look();
    return statistics && statistics->held_keys == 0;
  }));
}

}  // namespace
}  // namespace acan
