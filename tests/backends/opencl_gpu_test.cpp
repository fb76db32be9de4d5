// Tests of OpenCL on simulated GPUs: their products and kernels, groups of work-items, and drivers
// with less than PoCL has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/error.h"
#include "acan/cpu/cpu_device.h"
#include "acan/handler/conformance.h"
#include "acan/opencl/opencl_devices.h"
#include "opencl_test_support.h"
#include "reference.h"
#include "row_kernel_cases.h"
#include "work_items.h"

namespace acan::opencl {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

DeviceOptions TileOptions() {
  DeviceOptions options;
  options.gemm = GemmKind::kTile;
  options.memory_limit_bytes = 16 << 20;
  return options;
}

// Ordinary products need few levels of the tree and packed panels; other products need other
// programs.
TEST(OpenClConformance, ProvesTheProgramsForUnusualProductsToo) {
  ACAN_SKIP_WITHOUT_OPENCL();
  const OwnCache own;
  for (const auto& [kind, program] : {std::pair{GemmKind::kTile, "ACAN_TILE_LEVELS == 32"},
                                      std::pair{GemmKind::kVector, "defined(ACAN_DIRECT)"}}) {
    DeviceOptions options = TileOptions();
    options.gemm = kind;
    EXPECT_TRUE(RunConformance(*MakeDevice(options)).exact) << program;
    options.broken = std::string("#if ") + program + "\n#define fma(a, b, c) ((a) + (c))\n#endif\n";
    const ConformanceResult result = RunConformance(*MakeDevice(options));
    EXPECT_FALSE(result.exact) << program;
    EXPECT_THAT(result.first_difference, HasSubstr("in way 2 of 2")) << program;
  }
}

// The products of the conformance battery that differ from the CPU's.
std::vector<std::string> WrongProducts(Device& device) {
  const auto cpu = MakeCpuDevice({.threads = 1, .memory_limit_bytes = 64 << 10, .isa = {}});
  const std::vector<OperationHash> want = RunConformanceProducts(*cpu);
  const std::vector<OperationHash> got = RunConformanceProducts(device);
  std::vector<std::string> wrong;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (got[i].sha256 != want[i].sha256) wrong.push_back(got[i].operation);
  }
  return wrong;
}

// Makes every program of tiles compute as a driver that flushes denormals to zero.
constexpr const char* kFlushingTiles = R"(
#if defined(ACAN_TILE_M)
float acan_flushed(float x) { return fabs(x) < 0x1p-126f ? copysign(0.0f, x) : x; }
float acan_flushing_fma(float a, float b, float c) {
  return acan_flushed(fma(acan_flushed(a), acan_flushed(b), acan_flushed(c)));
}
#define fma acan_flushing_fma
#endif
)";

TEST(OpenClConformance, SeesProductsThatFlushDenormals) {
  ACAN_SKIP_WITHOUT_OPENCL();
  const OwnCache own;
  DeviceOptions options = TileOptions();
  options.broken = kFlushingTiles;
  const std::vector<std::string> wrong = WrongProducts(*MakeDevice(options));
  for (const char* form : {"forward", "backward", "gradient"}) {
    for (const char* denormal : {"sums", "operands"}) {
      EXPECT_THAT(wrong, Contains(std::string("gemm ") + form + " denormal " + denormal));
    }
  }
}

// Features that AMD's or Intel's GPUs lack or name differently: a kernel that uses one does not
// compile.
constexpr const char* kNoExtensions =
    "#pragma GCC poison double double4 atom_add sub_group_barrier get_sub_group_size\n"
    "#pragma GCC poison get_max_sub_group_size intel_sub_group_shuffle half half_powr\n";

TEST(OpenClPrograms, ThatUseExtensionsAreSeen) {
  ACAN_SKIP_WITHOUT_OPENCL();
  DeviceOptions options = TileOptions();
  options.broken = std::string(kNoExtensions) + "double acan_twice(double x) { return 2 * x; }\n";
  EXPECT_THAT([&] { MakeDevice(options); },
              ThrowsMessage<std::runtime_error>(HasSubstr("CL_BUILD_PROGRAM_FAILURE")));
}

// Every tile size that a GPU may choose, also for sums of more leaves than the ordinary program has
// levels for.
TEST(OpenClTiles, OfEverySizeComputeTheDefinition) {
  ACAN_SKIP_WITHOUT_OPENCL();
  struct Case {
    std::int64_t m, n, k, block;
  };
  for (std::size_t shape = 0; shape < TileShapes(); ++shape) {
    DeviceOptions options = TileOptions();
    options.tile_shape = shape;
    options.broken = kNoExtensions;
    const auto device = MakeDevice(options);
    for (const Case& s :
         {Case{1, 1, 1, 16}, Case{129, 65, 100, 64}, Case{33, 131, 77, 32}, Case{3, 5, 4113, 16}}) {
      const test::Host a = test::Random(s.m, s.k, 1);
      const test::Host b = test::Random(s.n, s.k, 2);
      const test::OnDevice left = test::Put(*device, a, 3);
      const test::OnDevice right = test::Put(*device, b, 1);
      const test::OnDevice c = test::Space(*device, s.m, s.n, 2);
      device->Gemm(GemmForm::kForward, Precision::kExact, s.block, left.matrix, right.matrix,
                   c.matrix);
      EXPECT_EQ(test::Difference(test::Fetch(*device, c),
                                 test::GemmReference(GemmForm::kForward, s.block, a, b)),
                "")
          << "shape " << shape << ": " << s.m << " x " << s.n << " x " << s.k;
    }
  }
}

// A kernel over rows whose columns the work-items of a group share out.
struct RowCall {
  Kernel kernel;
  std::vector<std::pair<std::int64_t, std::int64_t>> shapes;  // of the result, then of the operands
  KernelScalars scalars;
};

// With more columns than a group has work-items.
std::vector<RowCall> RowCalls() {
  // Two images of 5 x 4 pixels, windows of 3 x 2, steps of 1, one line of padding above and below:
  // results of 5 x 3.
  const KernelScalars windows{.f = {}, .i = {5, 4, 3, 2, 1, 1, 1, 0}};
  return {
      {Kernel::kRotary, {{9, 420}, {9, 420}, {13, 70}, {13, 70}}, {.f = {}, .i = {0, 6}}},
      {Kernel::kEmbedding, {{9, 70}, {9, 1}, {11, 70}}, {}},
      {Kernel::kEmbeddingGradient, {{11, 70}, {99, 1}, {99, 70}}, {.f = {}, .i = {16, 40, 0, 12}}},
      {Kernel::kPositions, {{9, 70}, {9, 70}, {11, 70}}, {.f = {}, .i = {3}}},
      {Kernel::kPositionsGradient, {{5, 70}, {35, 70}}, {.f = {}, .i = {2}}},
      {Kernel::kAttentionFinish, {{9, 140}, {9, 140}, {9, 4}}, {.f = {}, .i = {2}}},
      {Kernel::kUnfold, {{30, 420}, {40, 70}}, windows},
      {Kernel::kFold, {{40, 70}, {30, 420}}, windows},
      {Kernel::kMaxPooling, {{30, 70}, {40, 70}}, windows},
      {Kernel::kMaxPoolingGradient, {{40, 70}, {40, 70}, {30, 70}}, windows},
      {Kernel::kAveragePooling, {{30, 70}, {40, 70}}, windows},
      {Kernel::kAveragePoolingGradient, {{40, 70}, {30, 70}}, windows},
  };
}

// A column holds words. Nothing is 0 before the call, so elements that nobody computed are seen.
test::Host ResultOf(Device& device, const RowCall& call) {
  std::vector<test::OnDevice> held;
  std::vector<Matrix> matrices;
  for (const auto& [rows, cols] : call.shapes) {
    const auto seed = static_cast<std::uint32_t>(held.size() + 1);
    held.push_back(
        cols == 1
            ? test::Put(device, test::Integers(rows, [](std::int64_t r) { return r * 5 % 13 - 1; }))
            : test::Put(device, test::Random(rows, cols, seed, 0.5f, 1.5f), 3));
    matrices.push_back(held.back().matrix);
  }
  test::Launcher{device}(call.kernel, matrices, call.scalars);
  return test::Fetch(device, held.front());
}

constexpr std::int64_t kManyRows = 5000;

// The gradient of a table of `words`, in groups of rows. A word is in most rows, and one in the
// first and in almost the last row.
test::Host WordsGradient(Device& device, std::int64_t words, std::int64_t group) {
  constexpr std::int64_t kCols = 150, kBlock = 16, kFirst = 2, kPadding = 12;
  const auto word = [](std::int64_t r) -> std::int64_t {
    if (r % 7 != 0) return 3;
    return r == 0 || r + 7 >= kManyRows ? 5 : 10 + r * r % 23;
  };
  const test::OnDevice index = test::Put(device, test::Integers(kManyRows, word));
  const test::OnDevice dy = test::Put(device, test::Random(kManyRows, kCols, 1), 3);
  const test::OnDevice out = test::Put(device, test::Random(words, kCols, 2), 1);
  test::Launcher{device}(Kernel::kEmbeddingGradient, {out.matrix, index.matrix, dy.matrix},
                         {.f = {}, .i = {kBlock, group, kFirst, kPadding}});
  return test::Fetch(device, out);
}

// CLBlast packs all three matrices into one buffer, which may be larger than the device's largest.
TEST(OpenClProducts, AreExactIfTheLibrarysScratchHasNoPlace) {
  ACAN_SKIP_WITHOUT_OPENCL();
  constexpr std::int64_t kSize = 1601;  // CLBlast packs large products that its tiles do not divide
  constexpr std::uint64_t kMatrixBytes = kSize * kSize * 4;
  DeviceOptions options = TileOptions();
  options.memory_limit_bytes = 64 << 20;
  options.tile_shape = 0;  // there is no buffer for a measurement
  options.most_allocation_bytes = kMatrixBytes;
  const auto device = MakeDevice(options);
  const std::uint64_t at_start = device->budget().used_bytes();
  const test::OnDevice a = test::Put(*device, test::Random(kSize, kSize, 1));
  const test::OnDevice b = test::Put(*device, test::Random(kSize, kSize, 2));
  const test::OnDevice exact = test::Space(*device, kSize, kSize);
  const test::OnDevice fast = test::Space(*device, kSize, kSize);
  for (const auto& [precision, c] :
       {std::pair{Precision::kExact, exact}, std::pair{Precision::kFast, fast}}) {
    device->Gemm(GemmForm::kForward, precision, 64, a.matrix, b.matrix, c.matrix);
  }
  EXPECT_EQ(test::Difference(test::Fetch(*device, fast), test::Fetch(*device, exact)), "");
  EXPECT_EQ(device->budget().used_bytes(), at_start + 4 * kMatrixBytes);
}

struct Quirks {
  const char* name;
  std::size_t most_group_size;
  std::uint64_t most_local_bytes;
  std::size_t most_kernel_group_size = SIZE_MAX;
};

class GpuLikeTest : public ::testing::TestWithParam<Quirks> {};

TEST_P(GpuLikeTest, IsExact) {
  ACAN_SKIP_WITHOUT_OPENCL();
  const OwnCache own;  // ignores sizes that were chosen for a larger device
  for (const std::uint64_t limit_bytes : {std::uint64_t{64} << 10, std::uint64_t{16} << 20}) {
    DeviceOptions options = TileOptions();
    options.memory_limit_bytes = limit_bytes;  // too small a limit disables measuring
    options.as_gpu = options.soft_divide = true;
    options.broken = kNoExtensions;
    options.most_group_size = GetParam().most_group_size;
    options.most_local_bytes = GetParam().most_local_bytes;
    options.most_kernel_group_size = GetParam().most_kernel_group_size;
    const ConformanceResult result = RunConformance(*MakeDevice(options));
    EXPECT_TRUE(result.exact) << result.first_difference;
  }
}

INSTANTIATE_TEST_SUITE_P(OpenClDevices, GpuLikeTest,
                         ::testing::Values(Quirks{"amd", 256, 32 << 10},
                                           Quirks{"intel", 256, 64 << 10},
                                           Quirks{"one_wavefront", 64, 32 << 10},
                                           Quirks{"little_local_memory", 256, 5 << 10},
                                           Quirks{"few_registers", 256, 32 << 10, 64}),
                         [](const auto& of) { return std::string(of.param.name); });

// Rows whose work-items share nothing. Their groups have the same size on all GPUs, so one of them
// suffices.
TEST(OpenClRows, HaveTheBitsOfTheCpu) {
  ACAN_SKIP_WITHOUT_OPENCL();
  const OwnCache own;
  DeviceOptions options = TileOptions();
  options.as_gpu = true;
  options.broken = kNoExtensions;
  const auto device = MakeDevice(options);
  const auto cpu = MakeCpuDevice({.threads = 1, .memory_limit_bytes = 16 << 20, .isa = {}});
  for (const RowCall& call : RowCalls()) {
    EXPECT_EQ(test::Difference(ResultOf(*device, call), ResultOf(*cpu, call)), "")
        << RowOf(call.kernel).name;
  }
  // Words whose columns have several groups of work-items, and words with one group each.
  for (const std::int64_t words : {40, 2100}) {
    for (const std::int64_t group : {std::int64_t{40}, kManyRows}) {
      EXPECT_EQ(
          test::Difference(WordsGradient(*device, words, group), WordsGradient(*cpu, words, group)),
          "")
          << words << " words, groups of " << group;
    }
  }
}

// On a GPU whose work-items all believe that they are the first of their group, most columns of a
// row stay as they were.
TEST(OpenClRows, AreSharedOutAmongTheWorkItemsOfAGroup) {
  ACAN_SKIP_WITHOUT_OPENCL();
  const OwnCache own;
  DeviceOptions options = TileOptions();
  options.as_gpu = true;
  options.broken = "#define get_local_id(dimension) 0\n";
  const auto device = MakeDevice(options);
  const auto cpu = MakeCpuDevice({.threads = 1, .memory_limit_bytes = 16 << 20, .isa = {}});
  for (const RowCall& call : RowCalls()) {
    EXPECT_NE(test::Difference(ResultOf(*device, call), ResultOf(*cpu, call)), "")
        << RowOf(call.kernel).name;
  }
}

TEST(OpenClRows, HaveEnoughWorkItems) {
  using Items = std::pair<std::size_t, std::size_t>;
  const auto items = [](Kernel kernel, std::int64_t rows, std::int64_t cols) {
    const std::size_t most = MostItems(kernel, 1024, 32 << 10);
    return ItemsOfRows(kernel, {KernelSpace::kRow, rows, cols}, most).global;
  };
  EXPECT_EQ(items(Kernel::kUnfold, 1000, 576), Items(1000, 64));
  EXPECT_EQ(items(Kernel::kUnfold, 1000, 27), Items(1000, 1));
  EXPECT_EQ(items(Kernel::kDropout, 1000, 27), Items(1000, 1));
  EXPECT_EQ(items(Kernel::kDropout, 1000, 576), Items(1000, 64));
  EXPECT_EQ(items(Kernel::kEmbeddingGradient, 1, 768), Items(1, 12 * 64));
  EXPECT_EQ(items(Kernel::kEmbeddingGradient, 256, 768), Items(256, 8 * 64));
  EXPECT_EQ(items(Kernel::kEmbeddingGradient, 50'257, 768), Items(50'257, 64));
  // Rows whose items add together have a group, however short they are.
  EXPECT_EQ(items(Kernel::kNorm, 1000, 10), Items(1000, 64));
  EXPECT_EQ(items(Kernel::kNorm, 1000, 576), Items(1000, 64));
  EXPECT_EQ(items(Kernel::kClassSums, 1000, 50'257), Items(1000, 256));
  EXPECT_EQ(items(Kernel::kSoftmaxCrossEntropy, 1000, 50'257), Items(1000, 64));
}

TEST(OpenClColumns, HaveEnoughWorkItems) {
  using Items = std::pair<std::size_t, std::size_t>;
  const auto local = [](Kernel kernel, std::int64_t rows, std::int64_t cols, std::size_t most) {
    const KernelScalars blocks{.f = {}, .i = {64, 256}};
    return ItemsOfColumns(kernel, {KernelSpace::kColumn, rows, cols}, blocks, most).local;
  };
  EXPECT_EQ(local(Kernel::kColumnSums, 64, 768, 256), Items(64, 1));
  EXPECT_EQ(local(Kernel::kColumnSums, 512, 768, 256), Items(32, 8));
  EXPECT_EQ(local(Kernel::kColumnSums, 4096, 768, 256), Items(8, 32));
  EXPECT_EQ(local(Kernel::kNormScaleGradient, 4096, 768, 64), Items(8, 8));
  EXPECT_EQ(local(Kernel::kGlobalAveragePooling, 4096, 768, 256), Items(64, 1));
}

// A group is smaller where the device has little local memory, but never below 64.
TEST(OpenClRows, HaveGroupsForWhichThereIsMemory) {
  const auto items = [](std::uint64_t local_bytes) {
    return MostItems(Kernel::kNorm, 256, local_bytes);
  };
  EXPECT_EQ(items(LocalBytes(Kernel::kNorm, 256)), 256);
  EXPECT_EQ(items(LocalBytes(Kernel::kNorm, 256) - 1), 128);
  EXPECT_EQ(items(0), 64);
  EXPECT_LT(LocalBytes(Kernel::kSoftmaxCrossEntropy, 64), 5 << 10);
}

TEST(OpenClDevices, TooSmallForAnyTileAreRefused) {
  ACAN_SKIP_WITHOUT_OPENCL();
  const OwnCache own;
  DeviceOptions options = TileOptions();
  options.most_group_size = 32;
  EXPECT_THAT([&] { MakeDevice(options); },
              ThrowsMessage<Error>(AllOf(HasSubstr("opencl:0"), HasSubstr("32 work-items"))));
}

// A compiler knows the groups' size, and may refuse what needs too many registers for it.
TEST(OpenClDevices, WhoseDriversRefuseATileUseAnother) {
  ACAN_SKIP_WITHOUT_OPENCL();
  for (const char* refused : {"ACAN_TILE_M == 64", "ACAN_TILE_M == 64 && ACAN_TILE_LEVELS == 32"}) {
    for (const std::uint64_t limit_bytes : {std::uint64_t{64} << 10, std::uint64_t{16} << 20}) {
      const OwnCache own;  // as in GpuLikeTest
      DeviceOptions options = TileOptions();
      options.memory_limit_bytes = limit_bytes;
      options.broken = std::string("#if ") + refused + "\n#error too many registers\n#endif\n";
      const auto device = MakeDevice(options);
      EXPECT_THAT(WrongProducts(*device), IsEmpty());
      device->UseExactWay(1);
      EXPECT_THAT(WrongProducts(*device), IsEmpty());
    }
  }
}

TEST(OpenClDevices, WhoseDriversRefuseEveryTileShowTheLog) {
  ACAN_SKIP_WITHOUT_OPENCL();
  const OwnCache own;
  DeviceOptions options = TileOptions();
  options.broken = "#if defined(ACAN_TILE_M)\n#error too many registers\n#endif\n";
  EXPECT_THAT([&] { MakeDevice(options); },
              ThrowsMessage<std::runtime_error>(
                  AllOf(HasSubstr("CL_BUILD_PROGRAM_FAILURE"), HasSubstr("too many registers"))));
}

// Kernels whose work-items add together, and kernels over tiles, need 64 of them.
TEST(OpenClDevices, WithTooFewRegistersForTheKernelsAreRefused) {
  ACAN_SKIP_WITHOUT_OPENCL();
  const OwnCache own;
  DeviceOptions options = TileOptions();
  options.as_gpu = true;
  options.most_kernel_group_size = 32;
  EXPECT_THAT(
      [&] { MakeDevice(options); },
      ThrowsMessage<Error>(AllOf(HasSubstr("opencl:0"), HasSubstr("groups of kSoftmaxCrossEntropy"),
                                 HasSubstr("32 work-items"))));
}

// The device allows larger groups, but no kernel for products can run with them.
TEST(OpenClDevices, WithTooFewRegistersForAnyTileAreRefused) {
  ACAN_SKIP_WITHOUT_OPENCL();
  const OwnCache own;
  DeviceOptions options = TileOptions();
  options.most_kernel_group_size = 32;
  EXPECT_THAT([&] { MakeDevice(options); },
              ThrowsMessage<Error>(AllOf(HasSubstr("opencl:0"), HasSubstr("32 work-items"))));
}

}  // namespace
}  // namespace acan::opencl
