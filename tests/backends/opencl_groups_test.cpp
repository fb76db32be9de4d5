// Tests of OpenCL kernels whose groups of work-items sum a row or columns together, as on a GPU:
// they must have the bits of the CPU, with small and with large groups.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/operators/operators.h"
#include "acan/cpu/cpu_device.h"
#include "acan/opencl/opencl_devices.h"
#include "opencl_test_support.h"
#include "reference.h"
#include "row_kernel_cases.h"
#include "work_items.h"

namespace acan::opencl {
namespace {

using Sizes = std::vector<NamedDimension>;

struct GroupCall {
  Kernel kernel;
  Sizes sizes;
  KernelScalars scalars = {};
};

constexpr std::int64_t kBlock = 16;
constexpr std::int64_t kLengths[] = {1, 31, 32, 33, 64, 100, 1000, 4097};

// Sums along rows, and the gradients that use them.
std::vector<GroupCall> CallsAlongRows(std::int64_t rows, std::int64_t cols) {
  const Sizes sizes{{"rows", rows}, {"cols", cols}};
  const KernelScalars block{.f = {0.5f}, .i = {kBlock}};
  std::vector<GroupCall> calls{
      {Kernel::kSoftmaxCrossEntropy, sizes, block},
      {Kernel::kSquaredError, sizes, block},
      {Kernel::kClassMaxima, sizes, {.f = {}, .i = {3}}},
      {Kernel::kClassSums, sizes, {.f = {}, .i = {3}}},
      {Kernel::kCrossEntropyGradient, sizes, {.f = {0.5f, 0.1f}, .i = {3, cols + 3, 5}}},
      {Kernel::kRowSquares, sizes},
      {Kernel::kDropout,
       sizes,
       {.f = {0.3f, 1.42857146f}, .i = {ACAN_DROP_ELEMENTS, 77, 5, 5, 3, cols + 4, 4}}},
      {Kernel::kAttentionJoin,
       {{"rows", rows}, {"heads", 3}, {"width", cols}},
       {.f = {}, .i = {3}}}};
  for (const std::int64_t kind : {ACAN_LAYER_NORM, ACAN_RMS_NORM}) {
    calls.push_back({Kernel::kNorm, sizes, {.f = {1e-5f}, .i = {kind}}});
    calls.push_back({Kernel::kNormGradient, sizes, {.f = {}, .i = {kind}}});
  }
  return calls;
}

// The same over a sample's group of channels.
std::vector<GroupCall> CallsOfChannels(std::int64_t positions, std::int64_t width) {
  const std::int64_t groups = 3;
  const Sizes sizes{{"samples", 2}, {"positions", positions}, {"groups", groups}, {"width", width}};
  const KernelScalars scalars{.f = {1e-5f}, .i = {positions, groups}};
  return {{Kernel::kGroupNorm, sizes, scalars}, {Kernel::kGroupNormGradient, sizes, scalars}};
}

// Sums over rows, in groups that have no power of two of leaves.
std::vector<GroupCall> CallsDownColumns(std::int64_t rows, std::int64_t cols, std::int64_t group) {
  const Sizes sizes{{"rows", rows}, {"cols", cols}};
  const KernelScalars groups{.f = {}, .i = {kBlock, group}};
  std::vector<GroupCall> calls;
  for (const Kernel kernel : {Kernel::kColumnSums, Kernel::kColumnDots, Kernel::kColumnSquares,
                              Kernel::kColumnNormSums, Kernel::kNormScaleGradient}) {
    calls.push_back({kernel, sizes, groups});
  }
  calls.push_back({Kernel::kGroupNormScaleGradient,
                   {{"samples", 1}, {"positions", rows}, {"groups", 1}, {"width", cols}},
                   {.f = {}, .i = {kBlock, group, rows, 1}}});
  // One column of pixels under windows of 3 x 1, which do not change their number.
  calls.push_back({Kernel::kDepthwiseWeightGradient,
                   {{"samples", 1},
                    {"height", rows},
                    {"width", 1},
                    {"window_height", 3},
                    {"window_width", 1},
                    {"out_height", rows},
                    {"out_width", 1},
                    {"channels", cols}},
                   {.f = {}, .i = {rows, 1, 3, 1, 1, 1, 1, 0, kBlock, group}}});
  return calls;
}

struct AttentionSizes {
  std::int64_t queries, keys, shared, width;
  bool causal = true;
  float dropout = 0;
};

// Attention and its gradient, of two sequences with two heads of keys each.
std::vector<GroupCall> CallsOfAttention(const AttentionSizes& of) {
  const Sizes sizes{{"sequences", 2},       {"queries", of.queries}, {"keys", of.keys},
                    {"key_value_heads", 2}, {"shared", of.shared},   {"heads", 2 * of.shared},
                    {"width", of.width}};
  KernelScalars scalars{.f = {0.25f, of.dropout, 1 / (1 - of.dropout)},
                        .i = {of.causal ? 1 : 0, of.queries, of.keys, 2, of.shared, 0, 0, 99, 7, 3,
                              2000, 1, 2 * of.shared + 1}};
  const GroupCall gradient{Kernel::kAttentionGradient, sizes, scalars};
  scalars.i[13] = 1;
  return {{Kernel::kAttention, sizes, scalars}, gradient};
}

enum class Operands : std::uint8_t { kAll, kFewest, kInPlace };

// The operand that a result may share its matrix with, or the result itself.
std::size_t PlaceOf(const OperatorRow& row, std::size_t result) {
  const auto shape = [&](std::size_t i) {
    return row.operands[i].text.substr(row.operands[i].text.find('['));
  };
  for (std::size_t i = 0; i < row.operands.size(); ++i) {
    const Operand& operand = row.operands[i];
    if (!operand.writes() && operand.element == Element::kFloat32 && shape(i) == shape(result)) {
      return i;
    }
  }
  return result;
}

// What the call writes. Nothing is 0 before the call, so elements that nobody computed are seen.
std::vector<test::Host> ResultsOf(Device& device, const GroupCall& call, Operands operands) {
  const OperatorRow& row = RowOf(call.kernel);
  Sizes sizes = call.sizes;
  for (const std::string_view name : row.dimensions) {
    const auto is = [&](const NamedDimension& each) { return each.name == name; };
    if (std::none_of(sizes.begin(), sizes.end(), is)) sizes.push_back({name, 1});
  }
  const Dimensions dimensions = DimensionsNamed(row, sizes);
  std::vector<test::OnDevice> held(row.operands.size());
  for (std::size_t i = 0; i < held.size(); ++i) {
    const Operand& operand = row.operands[i];
    const OperandShape shape = ShapeOf(operand, dimensions);
    const auto seed = static_cast<std::uint32_t>(i + 1);
    if (operand.optional && operands == Operands::kFewest) continue;
    const auto label = [&](std::int64_t r) { return r * 5 % 13 - 1; };
    const test::Host host = operand.element == Element::kInt32 && operand.reads()
                                ? test::Integers(shape.rows, label)
                                : test::Random(shape.rows, shape.cols, seed, 0.1f, 1.5f);
    held[i] = test::Put(device, host, shape.cols == 1 ? 0 : 3);
  }
  std::vector<Matrix> matrices;
  for (std::size_t i = 0; i < held.size(); ++i) {
    const bool moves = operands == Operands::kInPlace && row.operands[i].writes();
    if (moves) held[i] = held[PlaceOf(row, i)];
    matrices.push_back(held[i].matrix);
  }
  test::Launcher{device}(call.kernel, matrices, call.scalars);
  std::vector<test::Host> results;
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (row.operands[i].writes() && held[i].buffer != nullptr) {
      results.push_back(test::Fetch(device, held[i]));
    }
  }
  return results;
}

struct Groups {
  std::size_t most, of_a_row;
};

class OpenClGroups : public ::testing::TestWithParam<Groups> {
 protected:
  void SetUp() override {
    ACAN_SKIP_WITHOUT_OPENCL();
    DeviceOptions options;
    options.memory_limit_bytes = 64 << 20;
    options.as_gpu = true;
    options.gemm = GemmKind::kVector;  // there are no products
    options.most_kernel_group_size = GetParam().most;
    options.row_items = GetParam().of_a_row;
    gpu_ = MakeDevice(options);
    cpu_ = MakeCpuDevice({.threads = 1, .memory_limit_bytes = 64 << 20, .isa = {}});
  }

  void Compare(const std::vector<GroupCall>& calls,
               const std::vector<Operands>& all = {Operands::kAll, Operands::kFewest,
                                                   Operands::kInPlace}) {
    for (const GroupCall& call : calls) {
      for (const Operands operands : all) {
        const std::vector<test::Host> got = ResultsOf(*gpu_, call, operands);
        const std::vector<test::Host> want = ResultsOf(*cpu_, call, operands);
        for (std::size_t i = 0; i < want.size(); ++i) {
          EXPECT_EQ(test::Difference(got[i], want[i]), "")
              << RowOf(call.kernel).name << ", result " << i << ", operands "
              << static_cast<int>(operands);
        }
      }
    }
  }

  std::unique_ptr<Device> gpu_, cpu_;
};

TEST_P(OpenClGroups, SumRowsAsTheCpu) {
  for (const std::int64_t cols : kLengths) {
    for (const std::int64_t rows : {1, 67}) {
      SCOPED_TRACE(::testing::Message() << rows << " x " << cols);
      Compare(CallsAlongRows(rows, cols));
    }
  }
}

TEST_P(OpenClGroups, SumChannelsAsTheCpu) {
  for (const auto& [positions, width] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                         {31, 1},
                                         {4, 8},
                                         {11, 3},
                                         {20, 5},
                                         {1, 4097},
                                         {241, 17}}) {
    SCOPED_TRACE(::testing::Message() << positions << " x " << width);
    Compare(CallsOfChannels(positions, width));
  }
}

TEST_P(OpenClGroups, SumColumnsAsTheCpu) {
  for (const std::int64_t rows : kLengths) {
    for (const std::int64_t cols : {1, 33, 100}) {
      for (const std::int64_t group : {40, 1040, 5000}) {
        SCOPED_TRACE(::testing::Message() << rows << " x " << cols << ", groups of " << group);
        Compare(CallsDownColumns(rows, cols, group));
      }
    }
  }
}

// Tiles at their edges: tails of queries, keys and columns; as many leaves and columns as tiles may
// have, and one more, which kernels without tiles compute; heads that share keys; dropout.
TEST_P(OpenClGroups, AttendAsTheCpu) {
  for (const AttentionSizes& sizes : std::vector<AttentionSizes>{{1, 1, 1, 3},
                                                                 {64, 64, 1, 64},
                                                                 {65, 65, 2, 65},
                                                                 {130, 130, 3, 20, true, 0.25f},
                                                                 {130, 70, 1, 33, false, 0.5f},
                                                                 {70, 700, 1, 5, false},
                                                                 {700, 70, 2, 5, false},
                                                                 {700, 700, 1, 4},
                                                                 {20, 30, 1, 2},
                                                                 {20, 30, 1, 448},
                                                                 {20, 30, 1, 449},
                                                                 {3, 65536, 1, 3, false},
                                                                 {3, 65537, 1, 3, false}}) {
    SCOPED_TRACE(::testing::Message() << sizes.queries << " x " << sizes.keys << ", "
                                      << sizes.shared << " heads of " << sizes.width);
    Compare(CallsOfAttention(sizes), {Operands::kAll, Operands::kFewest});
  }
}

// On a GPU whose work-items all believe that they are the first of their group, the others' part of
// the work is missing.
TEST(OpenClGroupsOfOne, DoNotComputeTheWhole) {
  ACAN_SKIP_WITHOUT_OPENCL();
  DeviceOptions options;
  options.memory_limit_bytes = 64 << 20;
  options.as_gpu = true;
  options.gemm = GemmKind::kVector;
  options.broken = "#define get_local_id(dimension) 0\n";
  const auto gpu = MakeDevice(options);
  const auto cpu = MakeCpuDevice({.threads = 1, .memory_limit_bytes = 64 << 20, .isa = {}});
  std::vector<GroupCall> calls = CallsAlongRows(9, 1000);
  for (const auto& more : {CallsOfChannels(241, 17), CallsDownColumns(1000, 33, 40),
                           CallsOfAttention({70, 70, 1, 64})}) {
    calls.insert(calls.end(), more.begin(), more.end());
  }
  for (const GroupCall& call : calls) {
    const std::vector<test::Host> got = ResultsOf(*gpu, call, Operands::kAll);
    const std::vector<test::Host> want = ResultsOf(*cpu, call, Operands::kAll);
    bool differs = false;
    for (std::size_t i = 0; i < want.size(); ++i) {
      differs = differs || !test::Difference(got[i], want[i]).empty();
    }
    EXPECT_TRUE(differs) << RowOf(call.kernel).name;
  }
}

INSTANTIATE_TEST_SUITE_P(OfWorkItems, OpenClGroups,
                         ::testing::Values(Groups{64, 64}, Groups{256, 256}),
                         [](const auto& of) { return "Most" + std::to_string(of.param.most); });

}  // namespace
}  // namespace acan::opencl
