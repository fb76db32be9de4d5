// RunCalls passes a convolution to the device as one call, with the same bits as its single calls,
// and writes the unfolded image if something reads it later.
#include <gtest/gtest.h>

#include <functional>

#include "acan/core/run_calls.h"
#include "reference.h"

namespace acan::test {
namespace {

constexpr std::int32_t kPixels = 2 * 8 * 7, kInputChannels = 5, kOutputChannels = 18,
                       kDepth = 9 * kInputChannels;
enum : std::int32_t { kX, kWeight, kBias, kDy, kUnfolded, kY, kActive, kDx, kDw, kBuffers };

// A view of the whole buffer.
View All(const Task& task, std::int32_t buffer) {
  const BufferSpec& spec = task.buffers[static_cast<std::size_t>(buffer)];
  return {buffer, 0, 0, spec.rows, spec.cols};
}

Task EmptyTask() {
  Task task;
  task.block = 16;
  task.buffers = {{kPixels, kInputChannels},  {kOutputChannels, kDepth}, {1, kOutputChannels},
                  {kPixels, kOutputChannels}, {kPixels, kDepth},         {kPixels, kOutputChannels},
                  {kPixels, kOutputChannels}, {kPixels, kInputChannels}, {kOutputChannels, kDepth}};
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

  // Always the same contents, including those of result buffers.
  std::vector<OnDevice> Buffers(const Task& task) {
    std::vector<OnDevice> out;
    for (const BufferSpec& spec : task.buffers) {
      out.push_back(
          Put(*device_, Random(spec.rows, spec.cols, static_cast<std::uint32_t>(out.size() + 1))));
    }
    return out;
  }

  // Runs the task as a whole, in parts of one sample, and call by call; `buffers` must be equal
  // afterwards.
  void Compare(const Task& task, const std::vector<std::int32_t>& buffers) {
    const std::vector<OnDevice> together = Buffers(task), in_parts = Buffers(task),
                                apart = Buffers(task);
    const auto buffers_of = [](const std::vector<OnDevice>& all) {
      std::vector<BufferPtr> out;
      for (const OnDevice& each : all) out.push_back(each.buffer);
      return out;
    };
    RunCalls(*device_, task, buffers_of(together));
    RunCalls(*device_, task, buffers_of(in_parts), 1);
    for (const Call& call : task.calls) {
      Task one = task;
      one.calls = {call};
      RunCalls(*device_, one, buffers_of(apart));
    }
    for (const std::int32_t buffer : buffers) {
      const auto i = static_cast<std::size_t>(buffer);
      const Host want = Fetch(*device_, apart[i]);
      EXPECT_EQ(Difference(Fetch(*device_, together[i]), want), "") << buffer;
      EXPECT_EQ(Difference(Fetch(*device_, in_parts[i]), want), "") << buffer << " in parts";
    }
  }

  // For the outputs of HashesAreThoseOfTheBytes.
  void ExpectHashes(const Task& task, const std::vector<bool>& hashed) {
    for (const std::int64_t near_bytes : {kNearBytes, std::int64_t{1}}) {
      const std::vector<OnDevice> made = Buffers(task);
      std::vector<BufferPtr> buffers;
      for (const OnDevice& each : made) buffers.push_back(each.buffer);
      const auto hashes = RunCallsAndHash(*device_, task, buffers, hashed, near_bytes);
      ASSERT_EQ(hashes.size(), task.outputs.size());
      const bool shows = device_->HostBytes(made[kDx].matrix) != nullptr;
      for (const std::size_t i : {0, 1, 2, 3}) {
        const View& view = task.outputs[i].view;
        const auto bytes = device_->Download(buffers[static_cast<std::size_t>(view.buffer)],
                                             MatrixOf(task, buffers, view));
        ASSERT_EQ(hashes[i].has_value(), shows) << i;
        const tuplespace::PayloadHash hash = tuplespace::HashOf(bytes.bytes());
        EXPECT_EQ(hashes[i].value_or(hash), hash) << i << " " << near_bytes;
      }
      EXPECT_FALSE(hashes[4]) << "its rows are not packed";
      EXPECT_FALSE(hashes[5]) << "no call writes it";
      EXPECT_FALSE(hashes[6]) << "it was not asked for";
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
  Compare(task, {kY, kActive, kDw});
}

constexpr KernelScalars kRelu{.f = {}, .i = {static_cast<std::int64_t>(Activation::kRelu)}};

// The calls around a convolution run with it, sample by sample.
TEST_P(ConvolutionCallsTest, RowsThatDependOnNoOtherRunPartByPart) {
  Task forward = EmptyTask();
  Kernels(forward, Kernel::kActivation, {kDx, kX}, kRelu);
  Kernels(forward, Kernel::kAdd, {kDx, kDx, kX}, {});
  Kernels(forward, Kernel::kUnfold, {kUnfolded, kDx}, kWindow);
  Product(forward, GemmForm::kForward, kUnfolded, kWeight, kY);
  Kernels(forward, Kernel::kBiasResidual, {kActive, kY, kBias, kDy}, {});
  Kernels(forward, Kernel::kAdd, {kY, kActive, kY}, {});
  Compare(forward, {kDx, kY, kActive});
  Task backward = EmptyTask();
  Kernels(backward, Kernel::kActivationGradient, {kY, kDy, kActive}, kRelu);
  Product(backward, GemmForm::kBackward, kY, kWeight, kUnfolded);
  Kernels(backward, Kernel::kFold, {kDx, kUnfolded}, kWindow);
  Kernels(backward, Kernel::kAdd, {kDx, kDx, kX}, {});
  Compare(backward, {kY, kDx});
}

// The hash of an output that a device returns is the hash of its final bytes, whether calls run as
// a whole or in parts.
TEST_P(ConvolutionCallsTest, HashesAreThoseOfTheBytes) {
  Task task = EmptyTask();
  Kernels(task, Kernel::kActivation, {kDx, kX}, kRelu);
  Kernels(task, Kernel::kUnfold, {kUnfolded, kDx}, kWindow);
  Product(task, GemmForm::kForward, kUnfolded, kWeight, kY);
  Kernels(task, Kernel::kAdd, {kActive, kY, kDy}, {});
  Product(task, GemmForm::kGradient, kActive, kX, kDw);
  task.calls.back().views[2].cols = kInputChannels;
  // Part of it is written again: the last write counts.
  Kernels(task, Kernel::kActivation, {kY, kDy}, kRelu);
  for (View& view : task.calls.back().views) view = {view.buffer, 5, 0, 30, kOutputChannels};
  const View some_rows{kDx, 8, 0, 21, kInputChannels}, some_columns{kDx, 0, 1, kPixels, 2};
  for (const View& view : {All(task, kDx), All(task, kY), All(task, kActive), some_rows,
                           some_columns, All(task, kDy), All(task, kDw)}) {
    task.outputs.push_back({{}, view});
  }
  const std::vector<bool> hashed = {true, true, true, true, true, true, false};
  Task longer = task;  // than one whose last writes are searched for each output
  longer.calls.insert(longer.calls.begin(), 8, Call(longer.calls.front()));
  ExpectHashes(task, hashed);
  ExpectHashes(longer, hashed);
}

// Calls that read other rows of a result, read a whole result, or write what another call reads or
// writes as a whole.
TEST_P(ConvolutionCallsTest, RowsThatDependOnOthersRunInOrder) {
  Task shifted = EmptyTask();
  Kernels(shifted, Kernel::kActivation, {kY, kDy}, kRelu);
  Kernels(shifted, Kernel::kAdd, {kActive, kDy, kDy}, {});
  Kernels(shifted, Kernel::kAdd, {kActive, kActive, kY}, {});
  for (View& view : shifted.calls[1].views) view.rows -= 7;
  for (View& view : shifted.calls[2].views) view.rows -= 7;
  shifted.calls[2].views[2].row = 7;
  Compare(shifted, {kY, kActive});
  Task backwards = shifted;
  backwards.calls[2].views[0].buffer = kDy;
  backwards.calls[2].views[1].row = 7;
  backwards.calls[2].views[2].row = 0;
  Compare(backwards, {kDy, kY, kActive});
  Task whole = EmptyTask();
  Kernels(whole, Kernel::kActivation, {kY, kDy}, kRelu);
  Kernels(whole, Kernel::kBiasResidual, {kActive, kDy, kBias, kY}, {});
  whole.calls[1].views[2] = {kY, kPixels - 1, 0, 1, kOutputChannels};
  Compare(whole, {kY, kActive});
}

// The gradient of the weights: products over `groups` groups of rows, and the additions of their
// tree.
Task WeightGradient(std::int32_t groups) {
  Task task = EmptyTask();
  Kernels(task, Kernel::kUnfold, {kUnfolded, kX}, kWindow);
  const std::int32_t rows = kPixels / groups;
  for (std::int32_t group = 0; group < groups; ++group) {
    std::int32_t sum = kDw;
    if (group > 0) {
      sum = static_cast<std::int32_t>(task.buffers.size());
      task.buffers.push_back({kOutputChannels, kDepth});
    }
    Product(task, GemmForm::kGradient, kDy, kUnfolded, sum);
    for (View& view :
         {std::ref(task.calls.back().views[0]), std::ref(task.calls.back().views[1])}) {
      view.row = group * rows;
      view.rows = rows;
    }
  }
  return task;
}
std::int32_t SumOf(std::int32_t group) {
  return group == 0 ? std::int32_t{kDw} : kBuffers + group - 1;
}
void AddSums(Task& task, std::int32_t left, std::int32_t right) {
  Kernels(task, Kernel::kAdd, {SumOf(left), SumOf(left), SumOf(right)}, {});
}

TEST_P(ConvolutionCallsTest, WeightGradientsAreSumsOfGroups) {
  Compare(WeightGradient(1), {kDw});
  Task seven = WeightGradient(7);
  // As plans order them: each sum is added to its left sibling as soon as both exist.
  const std::vector<Call> products(seven.calls.begin() + 1, seven.calls.end());
  seven.calls.resize(1);
  for (std::int32_t group = 0; group < 7; ++group) {
    seven.calls.push_back(products[static_cast<std::size_t>(group)]);
    if (group % 2 == 1) AddSums(seven, group - 1, group);
    if (group == 3) AddSums(seven, 0, 2);
  }
  AddSums(seven, 4, 6);
  AddSums(seven, 0, 4);
  Compare(seven, {kDw});
}

// Additions in an order other than the tree's, sums and images that are read later, and additions
// in other places.
TEST_P(ConvolutionCallsTest, OtherSumsOfGroupsKeepTheirOrder) {
  Task chain = WeightGradient(4);
  for (const std::int32_t group : {1, 2, 3}) AddSums(chain, 0, group);
  Compare(chain, {kDw});
  Task swapped = WeightGradient(2);
  Kernels(swapped, Kernel::kAdd, {kDw, SumOf(1), kDw}, {});
  Compare(swapped, {kDw});
  Task kept = WeightGradient(2);
  AddSums(kept, 0, 1);
  kept.outputs.push_back({{}, All(kept, SumOf(1))});
  Compare(kept, {kDw, SumOf(1)});
  Task read = WeightGradient(2);
  AddSums(read, 0, 1);
  Kernels(read, Kernel::kAdd, {SumOf(1), SumOf(1), SumOf(0)}, {});
  Compare(read, {kDw, SumOf(1)});
  Task unfolded = WeightGradient(2);
  AddSums(unfolded, 0, 1);
  unfolded.outputs.push_back({{}, All(unfolded, kUnfolded)});
  Compare(unfolded, {kDw, kUnfolded});
  Compare(WeightGradient(2), {kDw, SumOf(1)});
}

INSTANTIATE_TEST_SUITE_P(Devices, ConvolutionCallsTest, ::testing::ValuesIn(AllTestDevices()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace acan::test
