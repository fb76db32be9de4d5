// RunCalls gives a sum of products over groups of rows to the device as one call, to the bits of
// its calls one by one, and makes the results of single groups where something reads them later.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "acan/core/run_calls.h"
#include "acan/cpu/cpu_device.h"
#include "reference.h"

namespace acan::test {
namespace {

struct Shape {
  std::int32_t group_rows, rows, m, n, block;
};

std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << "groups of " << s.group_rows << " of " << s.rows << " rows, " << s.m << "x" << s.n
             << ", block " << s.block;
}

// One group, a power of two of groups, and other numbers, up to more than a device adds at once; a
// short last group; groups of one leaf that devices can compute in one product, leaves that are too
// short for that, and groups of several leaves.
const Shape kShapes[] = {
    {50, 100, 13, 35, 64},    {50, 1600, 40, 70, 64},   {50, 370, 25, 33, 64},
    {33, 140, 12, 32, 64},    {63, 700, 150, 9, 64},    {17, 200, 30, 31, 32},
    {16, 500, 7, 66, 64},     {9, 100, 20, 20, 16},     {65, 400, 21, 40, 64},
    {197, 800, 14, 50, 64},   {100, 1000, 33, 17, 128}, {50, 50, 13, 35, 64},
    {49, 1225, 260, 140, 64}, {3, 118, 12, 20, 16},     {2, 599, 8, 9, 16},
    {70, 500, 24, 36, 64},
};

enum : std::int32_t { kDy, kX, kFirstSum };

View All(const Task& task, std::int32_t buffer) {
  const BufferSpec& spec = task.buffers[static_cast<std::size_t>(buffer)];
  return {buffer, 0, 0, spec.rows, spec.cols};
}

void Add(Task& task, std::int32_t left, std::int32_t right) {
  Call call;
  call.kernel = Kernel::kAdd;
  call.views = {All(task, left), All(task, left), All(task, right)};
  task.calls.push_back(call);
}

// The sum over groups in the order of a binary counter, as plans generate it.
Task SumOf(const Shape& s) {
  Task task;
  task.block = s.block;
  // The operands are parts of wider buffers.
  task.buffers = {{s.rows + 3, s.m + 2}, {s.rows + 1, s.n}};
  std::int32_t open = kFirstSum;
  std::uint32_t group = 0;
  for (std::int32_t row = 0; row < s.rows; row += s.group_rows, ++group) {
    const std::int32_t rows = std::min(s.group_rows, s.rows - row);
    if (open == static_cast<std::int32_t>(task.buffers.size())) task.buffers.push_back({s.m, s.n});
    Call call;
    call.gemm = true;
    call.form = GemmForm::kGradient;
    call.views = {{kDy, row + 2, 1, rows, s.m}, {kX, row, 0, rows, s.n}, All(task, open++)};
    task.calls.push_back(call);
    for (std::uint32_t bits = group; (bits & 1) != 0; bits >>= 1, --open) {
      Add(task, open - 2, open - 1);
    }
  }
  for (; open > kFirstSum + 1; --open) Add(task, open - 2, open - 1);
  return task;
}

// The definition: leaves of `block` in each group, the tree over them, and the tree over groups.
Host DefinitionOf(const Shape& s, const Host& dy, const Host& x) {
  const auto rows_of = [](const Host& from, std::int64_t first, std::int64_t rows,
                          std::int64_t column, std::int64_t columns) {
    Host out(rows, columns);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) out.at(r, c) = from.at(first + r, column + c);
    }
    return out;
  };
  std::vector<Host> sums;
  for (std::int64_t row = 0; row < s.rows; row += s.group_rows) {
    const std::int64_t rows = std::min<std::int64_t>(s.group_rows, s.rows - row);
    sums.push_back(GemmReference(GemmForm::kGradient, s.block, rows_of(dy, row + 2, rows, 1, s.m),
                                 rows_of(x, row, rows, 0, s.n)));
  }
  for (std::size_t step = 1; step < sums.size(); step *= 2) {
    for (std::size_t g = 0; g + step < sums.size(); g += 2 * step) {
      for (std::size_t i = 0; i < sums[g].v.size(); ++i) {
        sums[g].v[i] = Canonical(sums[g].v[i] + sums[g + step].v[i]);
      }
    }
  }
  return sums.front();
}

class GroupCallsTest : public ::testing::TestWithParam<TestDevice> {
 protected:
  // Always the same contents, including those of result buffers.
  static std::vector<OnDevice> Buffers(Device& device, const Task& task) {
    std::vector<OnDevice> out;
    for (const BufferSpec& spec : task.buffers) {
      out.push_back(
          Put(device, Random(spec.rows, spec.cols, static_cast<std::uint32_t>(out.size() + 1))));
    }
    return out;
  }
  static std::vector<BufferPtr> PointersTo(const std::vector<OnDevice>& all) {
    std::vector<BufferPtr> out;
    for (const OnDevice& each : all) out.push_back(each.buffer);
    return out;
  }
  // Runs the task as a whole and call by call; `buffers` must be equal afterwards.
  static void Compare(Device& device, const Task& task, const std::vector<std::int32_t>& buffers) {
    const std::vector<OnDevice> together = Buffers(device, task), apart = Buffers(device, task);
    RunCalls(device, task, PointersTo(together));
    for (const Call& call : task.calls) {
      Task one = task;
      one.calls = {call};
      RunCalls(device, one, PointersTo(apart));
    }
    for (const std::int32_t buffer : buffers) {
      const auto i = static_cast<std::size_t>(buffer);
      EXPECT_EQ(Difference(Fetch(device, together[i]), Fetch(device, apart[i])), "") << buffer;
    }
  }
};

TEST_P(GroupCallsTest, GiveTheBitsOfTheDefinition) {
  ACAN_SKIP_WITHOUT(GetParam());
  for (const Shape& s : kShapes) {
    if (IsFakeGpu(GetParam()) && s.rows * s.m > 20'000) continue;
    const Task task = SumOf(s);
    const auto of_buffer = [&](std::int32_t buffer) {
      const BufferSpec& spec = task.buffers[static_cast<std::size_t>(buffer)];
      return Random(spec.rows, spec.cols, static_cast<std::uint32_t>(buffer + 1));
    };
    const Host want = DefinitionOf(s, of_buffer(kDy), of_buffer(kX));
    for (const int threads : GetParam().threads) {
      // The small limit leaves no packing scratch on CPUs.
      for (const std::uint64_t limit : {std::uint64_t{6} << 20, kRoomyBytes}) {
        const auto device = GetParam().make(threads, limit);
        const std::vector<OnDevice> buffers = Buffers(*device, task);
        RunCalls(*device, task, PointersTo(buffers));
        EXPECT_EQ(Difference(Fetch(*device, buffers[kFirstSum]), want), "")
            << s << ", " << threads << " threads, limit " << limit;
      }
    }
  }
}

TEST_P(GroupCallsTest, WhatIsReadLaterIsMade) {
  ACAN_SKIP_WITHOUT(GetParam());
  const auto device = GetParam().make(GetParam().threads.back(), kRoomyBytes);
  const Shape s{50, 370, 13, 18, 64};
  const std::int32_t part = kFirstSum + 1;
  Task read = SumOf(s);
  Add(read, kFirstSum, part);
  Compare(*device, read, {kFirstSum, part});
  Task put = SumOf(s);
  put.outputs.push_back({{}, All(put, part)});
  Compare(*device, put, {kFirstSum, part});
  // The next sum uses the same buffers and computes this one again.
  Task twice = SumOf(s);
  const std::vector<Call> again(twice.calls.begin(), twice.calls.begin() + 2);
  twice.calls.insert(twice.calls.end(), again.begin(), again.end());
  Compare(*device, twice, {kFirstSum, part});
}

// Sums that look similar but must not be merged.
TEST_P(GroupCallsTest, OtherSumsAreOthers) {
  ACAN_SKIP_WITHOUT(GetParam());
  const auto device = GetParam().make(GetParam().threads.back(), kRoomyBytes);
  const Task task = SumOf({50, 200, 13, 18, 64});
  ASSERT_EQ(task.calls.size(), 7u);  // product, product, add, product, product, add, add
  const std::vector<std::int32_t> sums{kFirstSum};
  Task gap = task;  // skips a row
  gap.calls[4].views[0].row += 1;
  Compare(*device, gap, sums);
  Task order = task;  // swaps x of the third and the fourth group
  std::swap(order.calls[3].views[1], order.calls[4].views[1]);
  Compare(*device, order, sums);
  Task halves = task;  // right + left
  std::swap(halves.calls[2].views[1], halves.calls[2].views[2]);
  Compare(*device, halves, sums);
  Task chain = task;  // ((0 + 1) + 2) + 3
  chain.calls[3].views[2] = chain.calls[1].views[2];
  chain.calls[4].views[2] = chain.calls[5].views[2];
  chain.calls = {chain.calls[0], chain.calls[1], chain.calls[2],
                 chain.calls[3], chain.calls[2], chain.calls[4]};
  Add(chain, kFirstSum, chain.calls.back().views[2].buffer);
  Compare(*device, chain, sums);
  Task short_one = task;  // the second group is shorter than the first
  for (const std::size_t operand : {0, 1}) {
    short_one.calls[1].views[operand].rows = 20;
    short_one.calls[3].views[operand].row -= 30;
    short_one.calls[4].views[operand].row -= 30;
  }
  Compare(*device, short_one, sums);
  Task unfinished = task;
  unfinished.calls.pop_back();
  Compare(*device, unfinished, sums);
}

INSTANTIATE_TEST_SUITE_P(Devices, GroupCallsTest, ::testing::ValuesIn(ProductTestDevices()),
                         [](const auto& test) { return test.param.name; });

// The CPU computes groups of one leaf as one product and does not write the groups' own results.
TEST(CpuGroups, OneLeafIsOneProduct) {
  const auto device = MakeCpuDevice({1, kRoomyBytes, std::nullopt});
  const auto taken = [&](std::int64_t block, std::int64_t group_rows) {
    const OnDevice dy = Put(*device, Random(300, 5, 1)), x = Put(*device, Random(300, 7, 2));
    const OnDevice d = Space(*device, 5, 7);
    return device->GemmGroups(Precision::kExact, block, group_rows, dy.matrix, x.matrix, d.matrix);
  };
  EXPECT_TRUE(taken(64, 50));
  EXPECT_TRUE(taken(64, 16));
  EXPECT_TRUE(taken(64, 64));
  EXPECT_FALSE(taken(64, 15));
  EXPECT_FALSE(taken(64, 65));
  EXPECT_FALSE(taken(128, 100));
}

}  // namespace
}  // namespace acan::test
