// Tests of what is specific to OpenCL: the program cache, devices that cannot be used, and uploads
// during computation. opencl_gpu_test.cpp simulates GPUs, and opencl_errors_test.cpp failures. The
// tests that run on all devices cover what it computes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "acan/core/error.h"
#include "acan/handler/conformance.h"
#include "acan/opencl/opencl_devices.h"
#include "driver/cl.h"
#include "driver/program_cache.h"
#include "opencl_test_support.h"
#include "reference.h"

namespace acan::opencl {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

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

// It can be opened, as a file on a bad disk can.
TEST(ProgramCache, DoesWithoutAFileThatCannotBeRead) {
  const OwnCache own;
  const ProgramCache cache(CacheFolder());
  fs::create_directories(cache.PathOf("key"));
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(cache.Load("key"), std::nullopt);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr(cache.PathOf("key") + " cannot be read; it is rebuilt"));
  cache.Store("key", "bytes");  // the folder stays in the way
  EXPECT_TRUE(fs::is_directory(cache.PathOf("key")));
  EXPECT_EQ(own.Files().size(), 1u) << "no draft is left";
}

TEST(ProgramCache, RemovesWhatKilledProcessesLeft) {
  const OwnCache own;
  const ProgramCache cache(CacheFolder());
  cache.Store("kept", "bytes");
  const std::string left = cache.PathOf("key") + "-aBc123", fresh = cache.PathOf("key") + "-XyZ789";
  const std::string others = CacheFolder() + "/tuning-of-another";
  for (const std::string& path : {left, fresh, others}) WriteAll(path, "a part");
  const fs::file_time_type day_before = fs::file_time_type::clock::now() - std::chrono::hours(24);
  for (const std::string& path : {left, others, cache.PathOf("kept")}) {
    fs::last_write_time(path, day_before);
  }
  cache.Store("key", "bytes");
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(fresh)) << "its process may live";
  EXPECT_TRUE(fs::exists(others));
  EXPECT_EQ(cache.Load("kept"), "bytes");
  EXPECT_EQ(cache.Load("key"), "bytes");
}

// Opening a pipe waits for a writer, and /dev/zero has no end.
TEST(ProgramCache, OpensNoPipesAndNoDevices) {
  const OwnCache own;
  const ProgramCache cache(CacheFolder());
  fs::create_directories(CacheFolder());
  const auto expect_rebuilt = [&] {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(cache.Load("key"), std::nullopt);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                HasSubstr(cache.PathOf("key") + " is no file; it is rebuilt"));
    cache.Store("key", "bytes");
    EXPECT_EQ(cache.Load("key"), "bytes");
    fs::remove(cache.PathOf("key"));
  };
  ASSERT_EQ(::mkfifo(cache.PathOf("key").c_str(), 0600), 0);
  expect_rebuilt();
  fs::create_symlink("/dev/zero", cache.PathOf("key"));
  expect_rebuilt();
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

// More commands than the device keeps between two waits.
TEST(OpenClDevices, TakeAnyNumberOfLaunchesBeforeAWait) {
  ACAN_SKIP_WITHOUT_OPENCL();
  const auto device = Make(64 << 10);
  const test::OnDevice sum = test::Space(*device, 1, 1);
  const test::OnDevice one = test::Space(*device, 1, 1);
  KernelArgs fill, add;
  fill.m[0] = sum.matrix;
  device->Launch(Kernel::kFill, fill);
  fill.m[0] = one.matrix;
  fill.scalars.f[0] = 1.0f;
  device->Launch(Kernel::kFill, fill);
  add.m = {sum.matrix, sum.matrix, one.matrix};
  for (int i = 0; i < 5000; ++i) device->Launch(Kernel::kAdd, add);
  EXPECT_EQ(test::Fetch(*device, sum).v, std::vector<float>{5000.0f});
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

bool HasPoclCpu() {
  cl_uint count = 0;
  if (clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS) return false;
  std::vector<cl_platform_id> platforms(count);
  if (count == 0 || clGetPlatformIDs(count, platforms.data(), nullptr) != CL_SUCCESS) return false;
  return std::any_of(platforms.begin(), platforms.end(), [](cl_platform_id platform) {
    std::array<char, 256> name{};
    clGetPlatformInfo(platform, CL_PLATFORM_NAME, name.size() - 1, name.data(), nullptr);
    cl_uint cpus = 0;
    return std::string(name.data()) == "Portable Computing Language" &&
           clGetDeviceIDs(platform, CL_DEVICE_TYPE_CPU, 0, nullptr, &cpus) == CL_SUCCESS &&
           cpus > 0;
  });
}

// The other tests are skipped if acan says that no device is usable, so this asks the driver.
TEST(OpenClDevices, OfPoclAreUsable) {
  if (!HasPoclCpu()) GTEST_SKIP() << "there is no PoCL here";
  const DeviceList list = ListDevices();
  EXPECT_TRUE(std::any_of(list.devices.begin(), list.devices.end(), [](const auto& device) {
    return device.unusable.empty();
  })) << list.problem;
  EXPECT_EQ(test::WhyMissing("opencl"), "");
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
