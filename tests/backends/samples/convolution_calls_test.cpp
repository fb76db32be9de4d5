// RunCalls gives a convolution to the device as one call, to the bits of its calls one by one, and
// makes the unfolded image where something reads it later.
#include <gtest/gtest.h>

#include "acan/core/run_calls.h"
#include "reference.h"

namespace acan::test {
namespace {

constexpr std::int32_t kPixels = 2 * 8 * 7, kChannels = 5, kOutputs = 18, kDepth = 9 * kChannels;
enum : std::int32_t { kX, kWeight, kBias, kDy, kUnfolded, kY, kActive, kDx, kDw, kBuffers };

// All of a buffer.
View All(const Task& task, std::int32_t buffer) {
  const BufferSpec& spec = task.buffers[static_cast<std::size_t>(buffer)];
  return {buffer, 0, 0, spec.rows, spec.cols};
}

Task EmptyTask() {
  Task task;
  task.block = 16;
  task.buffers = {{kPixels, kChannels}, {kOutputs, kDepth},   {1, kOutputs},
                  {kPixels, kOutputs},  {kPixels, kDepth},    {kPixels, kOutputs},
                  {kPixels, kOutputs},  {kPixels, kChannels}, {kOutputs, kDepth}};
  return task;
}

void Product(Task& task, GemmForm form, std::int32_t a, std::int32_t b, std::int32_t c) {
  Call call;
  call.gemm = true;
  call.form = form;
  call.views = {All(task, a), All(task, b), All(task, c)};
  task.calls.push_back(call);
}

void Kernels(Task& task, Kernel kernel, const std::vector<std::int32_t>& buffers,
             const KernelScalars& scalars) {
  Call call;
  call.kernel = kernel;
  for (const std::int32_t buffer : buffers) call.views.push_back(All(task, buffer));
  call.scalars = scalars;
  task.calls.push_back(call);
}

constexpr KernelScalars kWindow{.f = {}, .i = {8, 7, 3, 3, 1, 1, 1, 1}};

Task Forward() {
  Task task = EmptyTask();
  Kernels(task, Kernel::kUnfold, {kUnfolded, kX}, kWindow);
  Product(task, GemmForm::kForward, kUnfolded, kWeight, kY);
  Kernels(task, Kernel::kBiasResidual, {kActive, kY, kBias, kDy}, {});
  return task;
}
Task Backward() {
  Task task = EmptyTask();
  Product(task, GemmForm::kBackward, kDy, kWeight, kUnfolded);
  Kernels(task, Kernel::kFold, {kDx, kUnfolded}, kWindow);
  return task;
}

class ConvolutionCallsTest : public ::testing::TestWithParam<TestDevice> {
 protected:
  void SetUp() override {
    ACAN_SKIP_WITHOUT(GetParam());
    device_ = GetParam().make(GetParam().threads.back(), kRoomyBytes);
  }

  // The same contents each time, those of results included.
  std::vector<OnDevice> Buffers(const Task& task) {
    std::vector<OnDevice> out;
    for (const BufferSpec& spec : task.buffers) {
      out.push_back(
          Put(*device_, Random(spec.rows, spec.cols, static_cast<std::uint32_t>(out.size() + 1))));
    }
    return out;
  }

  // Runs the task whole and call by call: these buffers are the same.
  void Compare(const Task& task, const std::vector<std::int32_t>& buffers) {
    const std::vector<OnDevice> together = Buffers(task), apart = Buffers(task);
    const auto buffers_of = [](const std::vector<OnDevice>& all) {
      std::vector<BufferPtr> out;
      for (const OnDevice& each : all) out.push_back(each.buffer);
      return out;
    };
    RunCalls(*device_, task, buffers_of(together));
    for (const Call& call : task.calls) {
      Task one = task;
      one.calls = {call};
      RunCalls(*device_, one, buffers_of(apart));
    }
    for (const std::int32_t buffer : buffers) {
      const auto i = static_cast<std::size_t>(buffer);
      EXPECT_EQ(Difference(Fetch(*device_, together[i]), Fetch(*device_, apart[i])), "") << buffer;
    }
  }

  std::unique_ptr<Device> device_;
};

TEST_P(ConvolutionCallsTest, GiveTheBitsOfEachCall) {
  Compare(Forward(), {kY, kActive});
  Compare(Backward(), {kDx});
}

TEST_P(ConvolutionCallsTest, OutputsAreMade) {
  Task forward = Forward();
  forward.outputs.push_back({{}, All(forward, kUnfolded)});
  Compare(forward, {kY, kActive, kUnfolded});
  Task backward = Backward();
  backward.outputs.push_back({{}, All(backward, kUnfolded)});
  Compare(backward, {kDx, kUnfolded});
}

TEST_P(ConvolutionCallsTest, WhatALaterCallReadsIsMade) {
  Task forward = Forward();
  Product(forward, GemmForm::kGradient, kDy, kUnfolded, kDw);
  Compare(forward, {kY, kActive, kDw});
  Task backward = Backward();
  Product(backward, GemmForm::kGradient, kDy, kUnfolded, kDw);
  Compare(backward, {kDx, kDw});
}

TEST_P(ConvolutionCallsTest, WhatALaterCallMakesAnewIsNot) {
  Task task = Forward();
  Kernels(task, Kernel::kUnfold, {kUnfolded, kX}, kWindow);
  Product(task, GemmForm::kGradient, kDy, kUnfolded, kDw);
  Compare(task, {kY, kActive, kDw, kUnfolded});
}

INSTANTIATE_TEST_SUITE_P(Devices, ConvolutionCallsTest, ::testing::ValuesIn(AllTestDevices()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace acan::test
