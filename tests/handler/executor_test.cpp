// A task on a device, from its description to its results.
#include "device/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "acan/core/task.h"
#include "acan/cpu/cpu_device.h"

namespace acan {
namespace {

constexpr std::int32_t kSide = 256;

// Fills `part` of a buffer, all of which is the result.
Task Fill(const View& part, float value) {
  Task task;
  task.block = 16;
  task.buffers = {{kSide, kSide}};
  Call fill;
  fill.kernel = Kernel::kFill;
  fill.views = {part};
  fill.scalars.f[0] = value;
  task.calls = {fill};
  task.outputs = {{tuplespace::Key{"job", 1, "act"}, {0, 0, 0, kSide, kSide}}};
  return DecodeTask(EncodeTask(task), 0);
}

// The device gives memory of earlier tasks, of whatever job, to later ones.
TEST(Executor, NoResultHasWhatTheMemoryHadBefore) {
  const auto device = MakeCpuDevice({1, 16 << 20, std::nullopt});
  for (int i = 0; i < 4; ++i) RunTaskOn(*device, Fill({0, 0, 0, kSide, kSide}, 7), {});
  for (int i = 0; i < 4; ++i) {
    const std::vector<TaskResult> results = RunTaskOn(*device, Fill({0, 0, 0, 1, 1}, 3), {});
    ASSERT_EQ(results.size(), 1u);
    std::vector<float> values(std::size_t{kSide} * kSide);
    ASSERT_EQ(results[0].payload.size(), values.size() * sizeof(float));
    std::copy_n(results[0].payload.data(), results[0].payload.size(),
                reinterpret_cast<std::byte*>(values.data()));
    EXPECT_EQ(values[0], 3);
    EXPECT_EQ(std::count(values.begin(), values.end(), 0.0f), std::ssize(values) - 1);
  }
}

// Packed as other convolutions are, the lines between these windows would have more bytes than 64
// bits can count.
TEST(Executor, AConvolutionOfAnyStrideStaysWithinItsMemory) {
  constexpr std::int64_t kFar = 2'147'483'647;
  Task task;
  task.block = 16;
  task.buffers = {{1, 1}, {9, 1}, {9, 1}, {1, 1}};
  const auto fill = [](const View& view, float value) {
    Call call;
    call.kernel = Kernel::kFill;
    call.views = {view};
    call.scalars.f[0] = value;
    return call;
  };
  Call unfold;
  unfold.kernel = Kernel::kUnfold;
  unfold.views = {{1, 0, 0, 9, 1}, {0, 0, 0, 1, 1}};
  // height, width, window, stride, padding: 3 x 3 windows, of which the middle one sees the pixel.
  const std::int64_t scalars[] = {1, 1, 1, 1, kFar, kFar, kFar, kFar};
  std::copy(std::begin(scalars), std::end(scalars), unfold.scalars.i.begin());
  Call gradient;
  gradient.gemm = true;
  gradient.form = GemmForm::kGradient;
  gradient.views = {{2, 0, 0, 9, 1}, {1, 0, 0, 9, 1}, {3, 0, 0, 1, 1}};
  task.calls = {fill({0, 0, 0, 1, 1}, 3), fill({2, 0, 0, 9, 1}, 2), unfold, gradient};
  task.outputs = {{tuplespace::Key{"job", 1, "part"}, {3, 0, 0, 1, 1}}};
  const auto device = MakeCpuDevice({1, 16 << 20, std::nullopt});
  const auto results = RunTaskOn(*device, DecodeTask(EncodeTask(task), 0), {});
  ASSERT_EQ(results.size(), 1u);
  float value = 0;
  ASSERT_EQ(results[0].payload.size(), sizeof value);
  std::memcpy(&value, results[0].payload.data(), sizeof value);
  EXPECT_EQ(value, 6);
}

}  // namespace
}  // namespace acan
