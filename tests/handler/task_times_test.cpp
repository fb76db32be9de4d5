// Which tasks count as short: a handler runs these on the thread that talks to the space.
#include "device/task_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace acan {
namespace {

constexpr std::int64_t kShortUs = 200;
constexpr std::int32_t kLongAxis = 1 << 24;  // the longest axis of a matrix

Task OneCall(Kernel kernel, std::vector<View> views) {
  Task task;
  task.block = 16;
  for (const View& view : views) task.buffers.push_back({view.rows, view.cols});
  Call call;
  call.kernel = kernel;
  call.views = std::move(views);
  task.calls = {call};
  return task;
}

Task FillTask(std::int32_t rows, std::int32_t cols) {
  return OneCall(Kernel::kFill, {{0, 0, 0, rows, cols}});
}

// A window of 2^62 pixels over an image of one pixel: all others are padding and take no time.
Task PoolingTask(std::int32_t channels) {
  Task task = OneCall(Kernel::kAveragePooling, {{0, 0, 0, 1, channels}, {1, 0, 0, 1, channels}});
  const std::int64_t scalars[] = {1,         1,         INT32_MAX, INT32_MAX,
                                  INT32_MAX, INT32_MAX, 1 << 30,   1 << 30};
  std::copy(std::begin(scalars), std::end(scalars), task.calls[0].scalars.i.begin());
  return task;
}

// Over all pairs of kLongAxis queries and keys.
Task AttentionTask() {
  const auto matrix = [](std::int32_t buffer, std::int32_t cols) {
    return View{buffer, 0, 0, kLongAxis, cols};
  };
  Task task = OneCall(Kernel::kAttention,
                      {matrix(0, 1), matrix(1, 2), matrix(2, 1), matrix(3, 1), matrix(4, 1)});
  task.calls[0].views.push_back({});
  const std::int64_t scalars[] = {0, kLongAxis, kLongAxis, 1, 1};
  std::copy(std::begin(scalars), std::end(scalars), task.calls[0].scalars.i.begin());
  return task;
}

Task EmbeddingGradientTask(std::int32_t words, std::int32_t rows, std::int32_t cols) {
  return OneCall(Kernel::kEmbeddingGradient,
                 {{0, 0, 0, words, cols}, {1, 0, 0, rows, 1}, {2, 0, 0, rows, cols}});
}

bool IsShort(const Task& task, const TaskTimes& times) {
  return times.IsShorter(task, Flops(task), kShortUs);
}

TEST(TaskTimes, ATaskIsShortIfTheLastOneOfItsKindSaysSo) {
  TaskTimes times;
  EXPECT_FALSE(IsShort(FillTask(64, 64), times)) << "there was none";
  times.Note(TaskKind::kForward, Flops(FillTask(64, 64)), 10, true);
  EXPECT_TRUE(IsShort(FillTask(64, 64), times));
  EXPECT_TRUE(times.EndsAtOnce(FillTask(64, 64)));
  EXPECT_FALSE(IsShort(FillTask(64, 64 * 32), times));
  Task other = FillTask(64, 64);
  other.kind = TaskKind::kUpdate;
  EXPECT_FALSE(IsShort(other, times));
}

// Otherwise the handler would not talk to the space until such a task ends.
TEST(TaskTimes, ALargeTaskIsNotShortWhateverTheLastOneTook) {
  TaskTimes times;
  times.Note(TaskKind::kForward, Flops(PoolingTask(1)), 5, true);
  EXPECT_TRUE(IsShort(FillTask(64, 64), times));
  EXPECT_GE(Flops(AttentionTask()), std::uint64_t{1} << 50);
  EXPECT_FALSE(IsShort(AttentionTask(), times));
  EXPECT_FALSE(IsShort(FillTask(4096, 4096), times)) << "64 MiB";
}

// Plans rest on Flops, which does not count that each word may be searched in all rows.
TEST(TaskTimes, ATaskWithALongSearchIsNotShort) {
  TaskTimes times;
  times.Note(TaskKind::kForward, Flops(FillTask(64, 64)), 5, true);
  EXPECT_TRUE(IsShort(EmbeddingGradientTask(64, 64, 16), times));
  const Task search = EmbeddingGradientTask(1 << 16, 1 << 16, 1);
  EXPECT_EQ(Flops(search), std::uint64_t{1} << 17);
  EXPECT_FALSE(IsShort(search, times)) << "2^32 comparisons";
  EXPECT_TRUE(IsShort(EmbeddingGradientTask(1, 1 << 16, 1), times));
}

// Flops counts an element of a truncated normal once. It is drawn again until it is in its range,
// which may be one that no draw is in.
TEST(TaskTimes, ATaskWithManyDrawsIsNotShort) {
  TaskTimes times;
  times.Note(TaskKind::kForward, Flops(FillTask(64, 64)), 5, true);
  EXPECT_TRUE(IsShort(FillTask(64, 512), times));
  const auto draws = [](Kernel kernel, std::int32_t rows) {
    return OneCall(kernel, {{0, 0, 0, rows, 512}});
  };
  EXPECT_EQ(Flops(draws(Kernel::kTruncatedNormal, 64)), std::uint64_t{64} * 512);
  EXPECT_FALSE(IsShort(draws(Kernel::kTruncatedNormal, 64), times)) << "2^21 draws";
  EXPECT_TRUE(IsShort(draws(Kernel::kTruncatedNormal, 1), times));
  EXPECT_TRUE(IsShort(draws(Kernel::kNormal, 64), times));
  // After such a task, any other one seems to take no time.
  times.Note(TaskKind::kForward, std::uint64_t{1} << 40, 5, true);
  EXPECT_TRUE(IsShort(FillTask(4096, 512), times));
  EXPECT_FALSE(IsShort(draws(Kernel::kNormal, 4096), times)) << "2^21 draws";
  EXPECT_FALSE(IsShort(draws(Kernel::kUniform, 4096), times));
}

// A device compares each call with all later ones to find those that it can run together.
TEST(TaskTimes, ATaskOfManyCallsIsNotShort) {
  constexpr std::size_t kMostCalls = 1024;
  TaskTimes times;
  times.Note(TaskKind::kForward, Flops(FillTask(64, 64)), 5, true);
  Task task = FillTask(1, 1);
  task.calls.resize(kMostCalls, Call(task.calls.front()));
  EXPECT_TRUE(IsShort(task, times));
  task.calls.push_back(Call(task.calls.front()));
  EXPECT_EQ(Flops(task), kMostCalls + 1);
  EXPECT_FALSE(IsShort(task, times));
}

// Calls that are counted as none because of an overflow would be short ones.
TEST(TaskTimes, OperationsBeyond64BitsAreCounted) {
  EXPECT_EQ(Flops(PoolingTask(3)), std::uint64_t{1} << 60);
  Task two = PoolingTask(3);
  two.calls.push_back(Call(two.calls.front()));
  EXPECT_EQ(Flops(two), std::uint64_t{1} << 60);
  TaskTimes times;
  times.Note(TaskKind::kForward, Flops(FillTask(64, 64)), 5, true);
  EXPECT_FALSE(IsShort(two, times));
}

}  // namespace
}  // namespace acan
