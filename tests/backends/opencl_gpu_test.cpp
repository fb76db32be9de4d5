// Tests of OpenCL on simulated GPUs: their products and kernels, groups of work-items, and drivers
// with less than PoCL has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "acan/core/error.h"
#include "acan/cpu/cpu_device.h"
#include "acan/handler/conformance.h"
#include "acan/opencl/opencl_devices.h"
#include "opencl_test_support.h"
#include "reference.h"

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

// A kernel over tiles needs one work-item for each of its lanes.
TEST(OpenClDevices, WithTooFewRegistersForTheKernelsAreRefused) {
  ACAN_SKIP_WITHOUT_OPENCL();
  const OwnCache own;
  DeviceOptions options = TileOptions();
  options.as_gpu = true;
  options.most_kernel_group_size = 32;
  EXPECT_THAT([&] { MakeDevice(options); },
              ThrowsMessage<Error>(AllOf(HasSubstr("opencl:0"), HasSubstr("groups of kAttention"),
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
