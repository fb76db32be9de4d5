// Tests of what is specific to OpenCL: the program cache, errors and their messages, and uploads
// during computation. The tests that run on all devices cover what it computes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "acan/core/error.h"
#include "acan/handler/conformance.h"
#include "acan/opencl/opencl_devices.h"
#include "cl.h"
#include "program_cache.h"
#include "reference.h"

namespace acan::opencl {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string WhyNoDevice() {
  const DeviceList list = ListDevices();
  return list.devices.empty() ? list.problem : list.devices[0].unusable;
}

#define ACAN_SKIP_WITHOUT_OPENCL()                                       \
  if (const std::string why = WhyNoDevice(); !why.empty()) {             \
    GTEST_SKIP() << "opencl:0 cannot be used here, not tested: " << why; \
  }

std::unique_ptr<Device> Make(std::uint64_t limit_bytes) {
  DeviceOptions options;
  options.memory_limit_bytes = limit_bytes;
  return MakeDevice(options);
}

// A device with too little memory to measure tile sizes. It caches its programs even if the driver
// has a cache of its own.
std::unique_ptr<Device> MakeWithCachedPrograms() {
  DeviceOptions options;
  options.memory_limit_bytes = 64 << 10;
  options.cache_programs = true;
  return MakeDevice(options);
}

// A cache folder for this test only.
class OwnCache {
 public:
  OwnCache() : path_(fs::temp_directory_path() / ("acan-opencl-" + std::to_string(::getpid()))) {
    fs::create_directories(path_);
    const char* old = std::getenv("XDG_CACHE_HOME");
    if (old != nullptr) old_ = old;
    ::setenv("XDG_CACHE_HOME", path_.c_str(), 1);
  }
  ~OwnCache() {
    fs::remove_all(path_);
    if (old_.empty()) {
      ::unsetenv("XDG_CACHE_HOME");
    } else {
      ::setenv("XDG_CACHE_HOME", old_.c_str(), 1);
    }
  }
  std::string folder() const { return (path_ / "acan").string(); }
  std::vector<fs::path> Files() const {
    return {fs::directory_iterator(folder()), fs::directory_iterator()};
  }

 private:
  fs::path path_;
  std::string old_;
};

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteAll(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(ProgramCache, KeepsBytesAndForgetsDamagedOnes) {
  const OwnCache own;
  const ProgramCache cache(CacheFolder());
  EXPECT_EQ(cache.Load("key"), std::nullopt);
  const std::string bytes("a\0b\n program", 12);
  cache.Store("key", bytes);
  EXPECT_EQ(cache.Load("key"), bytes);
  EXPECT_EQ(cache.Load("other"), std::nullopt);
  EXPECT_EQ(own.Files().size(), 1u) << "no draft is left";
  const std::string whole = ReadAll(cache.PathOf("key"));
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    WriteAll(cache.PathOf("key"), damaged);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(cache.Load("key"), std::nullopt) << "byte " << i;
    WriteAll(cache.PathOf("key"), whole.substr(0, i));
    EXPECT_EQ(cache.Load("key"), std::nullopt) << "cut at " << i;
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr(cache.PathOf("key") + " is "));
  }
  cache.Store("key", bytes);
  EXPECT_EQ(cache.Load("key"), bytes);
}

// Each file is intact but belongs to another key.
TEST(ProgramCache, DoesNotTakeTheFileOfAnotherKey) {
  const OwnCache own;
  const ProgramCache cache(CacheFolder());
  cache.Store("one", "program one");
  cache.Store("two", "program two");
  fs::rename(cache.PathOf("one"), own.folder() + "/x");
  fs::rename(cache.PathOf("two"), cache.PathOf("one"));
  fs::rename(own.folder() + "/x", cache.PathOf("two"));
  for (const char* key : {"one", "two"}) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(cache.Load(key), std::nullopt);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                AllOf(HasSubstr(cache.PathOf(key)), HasSubstr("made for something else")));
  }
  cache.Store("one", "program one");
  EXPECT_EQ(cache.Load("one"), "program one");
}

TEST(ProgramCache, TakesNothingOfEarlierVersionsAndSaysNothing) {
  const OwnCache own;
  const ProgramCache cache(CacheFolder());
  cache.Store("key", "bytes");
  WriteAll(cache.PathOf("key"), "acan cache 1\n" + std::string(64, '0') + "bytes");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(cache.Load("key"), std::nullopt);
  EXPECT_EQ(cache.Load("nothing"), std::nullopt);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(ProgramCache, DoesWithoutAFolder) {
  const ProgramCache none("");
  none.Store("key", "bytes");
  EXPECT_EQ(none.Load("key"), std::nullopt);
  const ProgramCache forbidden("/proc/acan");
  forbidden.Store("key", "bytes");
  EXPECT_EQ(forbidden.Load("key"), std::nullopt);
}

TEST(OpenClPrograms, AreBuiltAnewFromDamagedFiles) {
  ACAN_SKIP_WITHOUT_OPENCL();
  const OwnCache own;
  EXPECT_TRUE(RunConformance(*MakeWithCachedPrograms()).exact);
  const std::vector<fs::path> files = own.Files();
  ASSERT_GE(files.size(), 2u);
  std::string whole = ReadAll(files[0]);
  whole[whole.size() / 2] = static_cast<char>(whole[whole.size() / 2] ^ 1);
  WriteAll(files[0], whole);
  // An intact file for another key, whose bytes no driver can load.
  const ProgramCache cache(CacheFolder());
  cache.Store("foreign", "no program at all");
  fs::rename(cache.PathOf("foreign"), files[1]);
  EXPECT_TRUE(RunConformance(*MakeWithCachedPrograms()).exact);
  EXPECT_NE(ReadAll(files[0]), whole);
  EXPECT_GT(fs::file_size(files[1]), 1000u);
}

// The driver accepts either file but then does not find the requested kernels in it.
TEST(OpenClPrograms, AreBuiltAnewFromSwappedFiles) {
  ACAN_SKIP_WITHOUT_OPENCL();
  const OwnCache own;
  EXPECT_TRUE(RunConformance(*MakeWithCachedPrograms()).exact);
  const std::vector<fs::path> files = own.Files();
  ASSERT_GE(files.size(), 2u);
  fs::rename(files[0], own.folder() + "-x");
  fs::rename(files[1], files[0]);
  fs::rename(own.folder() + "-x", files[1]);
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(RunConformance(*MakeWithCachedPrograms()).exact);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("warning: " + files[0].string()),
                    HasSubstr("warning: " + files[1].string())));
}

// PoCL compiles a kernel at its first run, but all kernels when it is asked for their binary.
TEST(OpenClPrograms, AreLeftToADriverThatKeepsThem) {
  ACAN_SKIP_WITHOUT_OPENCL();
  if (!ListDevices().devices[0].driver.starts_with("Portable Computing Language")) {
    GTEST_SKIP() << "opencl:0 is not a device of PoCL";
  }
  const OwnCache own;
  Make(64 << 10);
  for (const fs::path& file : own.Files()) EXPECT_LT(fs::file_size(file), 200u) << file;
}

TEST(OpenClPrograms, AreSpokenOfWhenTheyAreCompiledFirst) {
  ACAN_SKIP_WITHOUT_OPENCL();
  const OwnCache own;
  ::testing::internal::CaptureStderr();
  Make(64 << 10);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "acan: opencl:0: its driver is compiling the kernels, which may take a minute the "
            "first time\n");
  ::testing::internal::CaptureStderr();
  Make(64 << 10);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

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
    options.soft_divide = true;
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

// The device allows larger groups, but no kernel for products can run with them.
TEST(OpenClDevices, WithTooFewRegistersForAnyTileAreRefused) {
  ACAN_SKIP_WITHOUT_OPENCL();
  const OwnCache own;
  DeviceOptions options = TileOptions();
  options.most_kernel_group_size = 32;
  EXPECT_THAT([&] { MakeDevice(options); },
              ThrowsMessage<Error>(AllOf(HasSubstr("opencl:0"), HasSubstr("32 work-items"))));
}

TEST(OpenClErrors, HaveOpenClsNamesAndMeanings) {
  EXPECT_NO_THROW(Check(CL_SUCCESS, "clFinish", "opencl:0"));
  EXPECT_THAT([] { Check(CL_OUT_OF_RESOURCES, "clFinish", "opencl:0"); },
              ThrowsMessage<OutOfMemory>("clFinish on opencl:0: CL_OUT_OF_RESOURCES"));
  EXPECT_THAT([] { Check(CL_MEM_OBJECT_ALLOCATION_FAILURE, "clCreateBuffer", "opencl:1"); },
              ThrowsMessage<OutOfMemory>(HasSubstr("CL_MEM_OBJECT_ALLOCATION_FAILURE")));
  EXPECT_THAT([] { Check(CL_DEVICE_NOT_AVAILABLE, "clFinish", "opencl:0"); },
              ThrowsMessage<DeviceLost>(HasSubstr("CL_DEVICE_NOT_AVAILABLE")));
  EXPECT_THAT([] { Check(CL_INVALID_VALUE, "clSetKernelArg", "opencl:0"); },
              ThrowsMessage<std::runtime_error>(HasSubstr("clSetKernelArg on opencl:0")));
  EXPECT_EQ(ErrorName(-9999), "OpenCL error -9999");
}

TEST(OpenClDevices, ThatAreNotThereAreNamedWithThoseThatAre) {
  ACAN_SKIP_WITHOUT_OPENCL();
  DeviceOptions options;
  options.index = 900;
  EXPECT_THAT(
      [&] { MakeDevice(options); },
      ThrowsMessage<Error>(AllOf(HasSubstr("opencl:900 does not exist"), HasSubstr("opencl:0"))));
  options.index = 0;
  options.part = 900;
  EXPECT_THAT([&] { MakeDevice(options); },
              ThrowsMessage<Error>(AllOf(HasSubstr("opencl:0"), HasSubstr("part"))));
  options.part.reset();
  const std::uint64_t memory_bytes = ListDevices().devices[0].info.memory_bytes;
  options.memory_limit_bytes = 2 * memory_bytes;
  EXPECT_THAT([&] { MakeDevice(options); },
              ThrowsMessage<Error>(AllOf(HasSubstr(std::to_string(memory_bytes)),
                                         HasSubstr(std::to_string(2 * memory_bytes)))));
}

TEST(OpenClDevices, ShowTheCompilersLog) {
  ACAN_SKIP_WITHOUT_OPENCL();
  DeviceOptions options;
  options.memory_limit_bytes = 1 << 20;
  options.broken = "\nthese words are no program\n";
  EXPECT_THAT(
      [&] { MakeDevice(options); },
      ThrowsMessage<std::runtime_error>(
          AllOf(HasSubstr("opencl:0"), HasSubstr("CL_BUILD_PROGRAM_FAILURE"), HasSubstr("these"))));
}

TEST(OpenClDevices, TakeUploadsFromThreadsWhileTheyCompute) {
  ACAN_SKIP_WITHOUT_OPENCL();
  const auto device = Make(16 << 20);
  const std::uint64_t at_start = device->budget().used_bytes();
  constexpr std::int64_t kRows = 50;
  const test::Host a = test::Random(kRows, 64, 1);
  const test::OnDevice left = test::Put(*device, a);
  std::atomic<int> wrong{0};
  std::vector<std::vector<BufferPtr>> buffers(3);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < buffers.size(); ++t) {
    threads.emplace_back([&, t] {
      const std::vector<float> values(1000, static_cast<float>(t));
      for (int i = 0; i < 50; ++i) {
        buffers[t].push_back(device->Upload(tuplespace::Payload::Copy(values.data(), 4000)));
        if (i % 3 == 2) buffers[t].erase(buffers[t].begin());
      }
    });
  }
  const test::OnDevice c = test::Space(*device, kRows, kRows);
  const test::Host want = test::GemmReference(GemmForm::kForward, 64, a, a);
  for (int i = 0; i < 50; ++i) {
    device->Gemm(GemmForm::kForward, Precision::kExact, 64, left.matrix, left.matrix, c.matrix);
    if (test::Difference(test::Fetch(*device, c), want) != "") ++wrong;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  for (std::size_t t = 0; t < buffers.size(); ++t) {
    for (const BufferPtr& buffer : buffers[t]) {
      const test::Host got = test::Fetch(*device, {buffer, {buffer.get(), 0, 1, 1000, 1000}});
      EXPECT_EQ(got.v, std::vector<float>(1000, static_cast<float>(t)));
    }
  }
  buffers.clear();
  EXPECT_EQ(device->budget().used_bytes(),
            at_start + left.buffer->size_bytes() + c.buffer->size_bytes());
}

TEST(OpenClDevices, BuffersOutliveThem) {
  ACAN_SKIP_WITHOUT_OPENCL();
  auto device = Make(1 << 20);
  BufferPtr buffer = device->Allocate(4000);
  device.reset();
  std::thread([&] { buffer.reset(); }).join();
}

}  // namespace
}  // namespace acan::opencl
