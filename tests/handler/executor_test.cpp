// A task on a device, from its description to its results.
#include "device/executor.h"

#include <gtest/gtest.h>

#include <algorithm>

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

}  // namespace
}  // namespace acan
