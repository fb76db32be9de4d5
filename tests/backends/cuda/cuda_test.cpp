// Tests of what is specific to CUDA: its errors, which devices it refuses and why, its grids, and
// whether the module loads. On a GPU (a fake one, tests/cuda_on_cpu, unless ACAN_TEST_GPU is
// "real"): the memory limit, and uploads and downloads during computation. Tests that run on all
// devices cover what it computes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>

#include "acan/core/error.h"
#include "acan/cuda/cuda_devices.h"
#include "acan/module/loader.h"
#include "check.h"
#include "launch_grid.h"
#include "listing.h"
#include "products/exact_products.h"
#include "products/gemm_choice.h"
#include "reference.h"

namespace acan::cuda {
namespace {

using test::Difference;
using test::Fetch;
using test::GemmReference;
using test::Host;
using test::OnDevice;
using test::Random;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(CudaErrors, AreMemoryLostOrOther) {
  EXPECT_EQ(FaultOf(cudaSuccess), Fault::kNone);
  EXPECT_EQ(FaultOf(cudaErrorMemoryAllocation), Fault::kMemory);
  for (const cudaError_t sticky :
       {cudaErrorIllegalAddress, cudaErrorLaunchFailure, cudaErrorMisalignedAddress,
        cudaErrorIllegalInstruction, cudaErrorECCUncorrectable, cudaErrorDevicesUnavailable,
        cudaErrorLaunchTimeout, cudaErrorHardwareStackError, cudaErrorUnknown}) {
    EXPECT_EQ(FaultOf(sticky), Fault::kLost) << cudaGetErrorName(sticky);
  }
  for (const cudaError_t other : {cudaErrorInvalidValue, cudaErrorInvalidConfiguration,
                                  cudaErrorNoKernelImageForDevice, cudaErrorNotReady}) {
    EXPECT_EQ(FaultOf(other), Fault::kOther) << cudaGetErrorName(other);
  }
}

TEST(CudaErrors, AreThrownWithCallDeviceAndCudasWords) {
  const auto check = [](cudaError_t error) { return [=] { Check(error, "cudaX", "cuda:3"); }; };
  EXPECT_NO_THROW(check(cudaSuccess)());
  EXPECT_THAT(
      check(cudaErrorMemoryAllocation),
      ThrowsMessage<OutOfMemory>("cudaX on cuda:3: cudaErrorMemoryAllocation (out of memory)"));
  EXPECT_THAT(check(cudaErrorIllegalAddress),
              ThrowsMessage<DeviceLost>(AllOf(HasSubstr("cudaX on cuda:3: cudaErrorIllegalAddress"),
                                              HasSubstr("illegal memory access"))));
  EXPECT_THAT(check(cudaErrorInvalidValue),
              ThrowsMessage<std::runtime_error>(
                  "cudaX on cuda:3: cudaErrorInvalidValue (invalid argument)"));
}

TEST(CudaDevices, AreRefusedWithTheReason) {
  EXPECT_EQ(Unfit({9, 0, false}, "75-real,90"), "");
  EXPECT_EQ(Unfit({8, 6, false}, "80-real"), "");  // code of a lower capability, same major version
  EXPECT_EQ(Unfit({12, 0, false}, "75-real,90"), "");  // through the PTX of 9.0
  EXPECT_EQ(Unfit({7, 5, false}, "75-virtual"), "");
  EXPECT_THAT(Unfit({7, 0, false}, "75-real,90"), HasSubstr("is 7.0; 7.5 or newer is needed"));
  EXPECT_THAT(Unfit({9, 0, true}, "90"), HasSubstr("compute mode is prohibited"));
  const auto other = AllOf(HasSubstr("ACAN_CUDA_ARCHITECTURES"), HasSubstr("compiled for"));
  EXPECT_THAT(Unfit({8, 0, false}, "75-real,90"), other);
  EXPECT_THAT(Unfit({8, 0, false}, "86-real"), other);
  EXPECT_THAT(Unfit({10, 0, false}, "90a"), other);
  EXPECT_EQ(Unfit({9, 0, false}, "90a"), "");
  EXPECT_EQ(Unfit({10, 3, false}, "100f"), "");
  EXPECT_NE(Unfit({12, 0, false}, "100f"), "");
}

TEST(CudaDevices, MissingOnesHaveAReason) {
  EXPECT_EQ(NoDriverText(0, 13000, "libcuda.so.1: not there"),
            "there is no NVIDIA driver here (libcuda.so.1: not there)");
  EXPECT_EQ(NoDriverText(12020, 13000, "x"),
            "the NVIDIA driver is too old: it supports CUDA 12.2, but this acan was built with "
            "CUDA 13.0");
  EXPECT_EQ(NoDriverText(13010, 13000, "no device"),
            "the NVIDIA driver (CUDA 13.1) offers no device: no device");
  const DeviceList list = ListDevices();
  EXPECT_EQ(list.devices.empty(), !list.problem.empty());
}

// The module that was built with this program, found relative to it so that both can be moved.
std::string ModuleOfUsers() {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  return program.parent_path().parent_path() / "lib" / "acan" / "acan_cuda.so";
}

// Parameter: whether to load the module for users (true) or the one for the tests' GPUs.
class CudaModule : public ::testing::TestWithParam<bool> {};

TEST_P(CudaModule, LoadsAndRefusesInWords) {
  const LoadedModule loaded = GetParam() ? LoadModuleFile(ModuleOfUsers()) : LoadModule("cuda");
  ASSERT_NE(loaded.module, nullptr) << loaded.problem;
  const DeviceList list = loaded.module->List();
  DeviceChoice choice;
  choice.part = 1;
  EXPECT_THAT([&] { loaded.module->Make(choice); }, ThrowsMessage<Error>(HasSubstr("no parts")));
  choice.part.reset();
  choice.index = static_cast<int>(list.devices.size());
  try {
    loaded.module->Make(choice);
    FAIL() << "device " << choice.index << " was made";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), list.devices.empty() ? HasSubstr(list.problem)
                                                   : HasSubstr("does not exist; there"));
    EXPECT_EQ(error.exit_code(), list.devices.empty() ? 1 : 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Modules, CudaModule, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "users" : "tests"; });

// With single threads, 128 rows would fill only four warps.
TEST(LaunchGrid, GivesEachRowOfANormABlock) {
  const Grid norm = GridOf(Kernel::kNorm, {KernelSpace::kRow, 128, 768}, {});
  EXPECT_EQ(norm.blocks.x, 128u);
  EXPECT_EQ(norm.threads.x, static_cast<unsigned>(kRowThreads));
  const Grid classes = GridOf(Kernel::kClassSums, {KernelSpace::kRow, 128, 32768}, {});
  EXPECT_EQ(classes.blocks.x, 128u);
  EXPECT_EQ(classes.threads.x, static_cast<unsigned>(kMaxRowThreads));
  // A group of channels is also such a row, and so is each query's head when nodes are combined.
  const Grid group = GridOf(Kernel::kGroupNorm, {KernelSpace::kRow, 4096, 6272}, {});
  EXPECT_EQ(group.blocks.x, 4096u);
  EXPECT_EQ(group.threads.x, static_cast<unsigned>(kMaxRowThreads));
  EXPECT_EQ(GridOf(Kernel::kAttentionJoin, {KernelSpace::kRow, 70, 384}, {}).blocks.x, 70u);
}

// The rows of a group norm are samples times groups, which may exceed the axis of any matrix.
TEST(LaunchGrid, RefusesMoreBlocksThanCudaLaunches) {
  constexpr std::int64_t kMost = INT32_MAX;
  const auto grid = [](std::int64_t rows) {
    return GridOf(Kernel::kGroupNorm, {KernelSpace::kRow, rows, 1}, {});
  };
  EXPECT_EQ(grid(kMost).blocks.x, static_cast<unsigned>(kMost));
  for (const std::int64_t rows : {kMost + 1, (std::int64_t{1} << 32) + 1}) {
    EXPECT_THROW(grid(rows), std::invalid_argument) << rows;
  }
}

// The kernel splits the columns of a small table's words, so that there are blocks for the whole
// device.
TEST(LaunchGrid, CutsTheColumnsOfFewWords) {
  const auto grid = [](std::int64_t words, std::int64_t cols) {
    return GridOf(Kernel::kEmbeddingGradient, {KernelSpace::kRow, words, cols}, {});
  };
  for (const auto& [words, cols, pieces] :
       {std::tuple{65, 768, 24u}, std::tuple{1, 8, 1u}, std::tuple{700, 768, 3u}}) {
    const Grid few = grid(words, cols);
    EXPECT_EQ(few.blocks.x, static_cast<unsigned>(words));
    EXPECT_EQ(few.blocks.y, pieces) << words;
    EXPECT_EQ(few.threads.x, 32u);
    EXPECT_EQ(few.threads.x * few.threads.y, static_cast<unsigned>(kMaxRowThreads));
  }
  const Grid many = grid(50257, 768);
  EXPECT_EQ(many.blocks.x * many.blocks.y, 50257u);
  EXPECT_EQ(many.threads.x, static_cast<unsigned>(kRowThreads));
  EXPECT_EQ(many.threads.y, 1u);
}

// Neighboring threads have neighboring channels. Each has four channels if that leaves enough
// threads to read whole sectors.
TEST(LaunchGrid, GivesEachPixelSomeThreads) {
  struct Want {
    Kernel kernel;
    std::int64_t cols, runs;
    unsigned across;
  };
  for (const Want& want :
       {Want{Kernel::kMaxPooling, 1, 0, 1}, Want{Kernel::kMaxPooling, 3, 0, 4},
        Want{Kernel::kFold, 64, 0, 16}, Want{Kernel::kAveragePooling, 100, 0, 16},
        Want{Kernel::kMaxPoolingGradient, 4096, 0, 128}, Want{Kernel::kUnfold, 7 * 21, 7, 8},
        Want{Kernel::kUnfold, 3 * 192, 3, 32}, Want{Kernel::kAttentionFinish, 384, 6, 16}}) {
    KernelScalars scalars;
    scalars.i[want.kernel == Kernel::kUnfold ? 2 : 0] = want.runs;
    const Grid grid = GridOf(want.kernel, {KernelSpace::kRow, 1000, want.cols}, scalars);
    EXPECT_EQ(grid.threads.x, want.across) << want.cols;
    EXPECT_EQ(grid.threads.x * grid.threads.y, static_cast<unsigned>(kElementThreads));
    EXPECT_EQ(grid.blocks.x, (1000 + grid.threads.y - 1) / grid.threads.y);
  }
}

// One thread for each query and 16 columns of its head, and at most four.
TEST(LaunchGrid, GivesEachQuerySomeThreads) {
  for (const auto& [width, places] : {std::pair{1, 1u}, std::pair{16, 1u}, std::pair{40, 3u},
                                      std::pair{64, 4u}, std::pair{200, 4u}}) {
    const Grid grid = GridOf(Kernel::kAttention, {KernelSpace::kTile, 36, 4}, {}, width);
    EXPECT_EQ(grid.threads.x, 64u);
    EXPECT_EQ(grid.threads.y, places) << width;
    EXPECT_EQ(grid.blocks.x, 4u);
    EXPECT_EQ(grid.blocks.y, 36u);
  }
}

// As many leaves run in parallel as there are, but at most 64. If several rounds are needed, a
// block has no more columns than it has space for open nodes.
TEST(LaunchGrid, GivesLongColumnsSeveralThreads) {
  struct Want {
    std::int64_t rows, cols, block, group;
    unsigned places, columns;
  };
  for (const Want& want :
       {Want{64, 4096, 64, 64, 1, 32}, Want{128, 4096, 64, 64, 2, 32},
        Want{640, 768, 64, 64, 16, 16}, Want{2048, 768, 64, 1024, 32, 8},
        Want{2049, 768, 64, 64, 64, 8}, Want{8192, 768, 64, 1024, 64, 8},
        Want{3 * 200, 10, 64, 200, 16, 16}, Want{1 << 20, 3, 64, 1 << 20, 64, 8}}) {
    const Grid grid = GridOf(Kernel::kColumnDots, {KernelSpace::kColumn, want.rows, want.cols},
                             {.f = {}, .i = {want.block, want.group}});
    EXPECT_EQ(grid.threads.y, want.places) << want.rows;
    EXPECT_EQ(grid.threads.x, want.columns) << want.rows;
    EXPECT_EQ(grid.blocks.x, (want.cols + want.columns - 1) / want.columns) << want.rows;
  }
}

// ---- on a GPU ----------------------------------------------------------------------------------

// On a fake GPU, a few rounds suffice to find dependence on the order of work.
#if defined(ACAN_FAKE_GPU_MODULES)
constexpr int kRounds = 8;
#else
constexpr int kRounds = 200;
#endif

class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    const DeviceList list = ListDevices();
    const std::string why = list.devices.empty() ? list.problem : list.devices[0].unusable;
    if (!why.empty()) GTEST_SKIP() << "cuda:0 cannot be used here, not tested: " << why;
  }
  std::unique_ptr<Device> Make(std::uint64_t limit_bytes) const {
    DeviceOptions options;
    options.memory_limit_bytes = limit_bytes;
    return MakeDevice(options);
  }
};

tuplespace::Payload PayloadOf(const Host& host) {
  return tuplespace::Payload::Copy(host.v.data(), host.v.size() * 4);
}

// Allocates and frees buffers of many sizes; the cache must make room each time.
TEST_F(OnGpu, CachedMemoryMakesRoomWithinTheLimit) {
  const auto device = Make(8 << 20);
  const std::uint64_t scratch = device->budget().used_bytes();
  for (std::uint64_t bytes = 4096; bytes <= (8 << 20) - scratch; bytes = bytes * 5 / 3 + 4) {
    for (int i = 0; i < 3; ++i) {
      const BufferPtr buffer = device->Allocate(bytes);
      EXPECT_EQ(device->budget().used_bytes(), scratch + bytes);
    }
  }
  EXPECT_EQ(device->budget().used_bytes(), scratch);
  EXPECT_THROW(device->Allocate((8 << 20) + 1), OutOfMemory);
}

// Sums with as many leaves as the tile has levels for, and with one more.
TEST_F(OnGpu, EachTileSumsAsManyLeavesAsItHasLevelsFor) {
  for (const GemmTile tile : {GemmTile::k128, GemmTile::k64, GemmTile::k32, GemmTile::kRing128,
                              GemmTile::kRing64, GemmTile::kRing32}) {
    if (!HasTile(0, tile)) continue;
    constexpr std::int64_t kBlock = 16, kM = 5, kN = 9, kEnough = 300;
    const std::int64_t leaves = std::min(kEnough, MostLeaves(tile, GemmGpuOf(0, 1, "cuda:0")));
    for (const std::int64_t k : {leaves * kBlock, leaves * kBlock + 1}) {
      const Host left = Random(kM, k, 1);
      const Host right = Random(kN, k, 2);
      DeviceOptions options;
      options.memory_limit_bytes = 8 << 20;
      options.tile = tile;
      options.cut_k = false;
      const auto device = MakeDevice(options);
      const OnDevice a = test::Put(*device, left);
      const OnDevice b = test::Put(*device, right);
      const OnDevice c = test::Space(*device, kM, kN);
      device->Gemm(GemmForm::kForward, Precision::kExact, kBlock, a.matrix, b.matrix, c.matrix);
      EXPECT_EQ(
          Difference(Fetch(*device, c), GemmReference(GemmForm::kForward, kBlock, left, right)), "")
          << "tile " << static_cast<int>(tile) << ", k " << k;
    }
  }
}

// One thread uploads into memory that was just freed while the device's thread computes.
TEST_F(OnGpu, UploadsBesideComputingDisturbNothing) {
  const auto device = Make(256 << 20);
  const Host left = Random(256, 256, 1);
  const Host right = Random(256, 256, 2);
  const Host want = GemmReference(GemmForm::kForward, 64, left, right);
  std::atomic<bool> stop{false};
  std::thread uploader([&] {
    for (std::uint32_t i = 0; !stop; ++i) {
      const Host host = Random(256, 256, 3 + i % 7);
      const BufferPtr buffer = device->Upload(PayloadOf(host));
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    const BufferPtr a = device->Upload(PayloadOf(left));
    const BufferPtr b = device->Upload(PayloadOf(right));
    const OnDevice c = test::Space(*device, 256, 256);
    device->Gemm(GemmForm::kForward, Precision::kExact, 64, {a.get(), 0, 256, 256, 256},
                 {b.get(), 0, 256, 256, 256}, c.matrix);
    ASSERT_EQ(Difference(Fetch(*device, c), want), "") << "round " << i;
  }
  stop = true;
  uploader.join();
}

// Results that are fetched late must be those of their own task, whatever was launched since.
TEST_F(OnGpu, DownloadsBesideLaterKernelsAreTheirOwnTasks) {
  const auto device = Make(256 << 20);
  std::vector<std::unique_ptr<PendingDownload>> pending;
  constexpr std::int64_t kWords = 1 << 20;
  for (int i = 0; i < 16; ++i) {
    const BufferPtr buffer = device->Allocate(kWords * 4);
    KernelArgs fill;
    fill.m[0] = {buffer.get(), 0, 1, kWords, kWords};
    fill.scalars.f[0] = static_cast<float>(i);
    device->Launch(Kernel::kFill, fill);
    pending.push_back(device->StartDownload(buffer, fill.m[0]));
  }
  for (int i = 0; i < 16; ++i) {
    const tuplespace::Payload payload = pending[static_cast<std::size_t>(i)]->Wait();
    const auto* words = reinterpret_cast<const float*>(payload.data());
    EXPECT_EQ(std::count(words, words + kWords, static_cast<float>(i)), kWords) << i;
  }
}

TEST_F(OnGpu, BuffersAndPayloadsOutliveTheDevice) {
  auto device = Make(64 << 20);
  const Host host = Random(100, 100, 5);
  BufferPtr buffer = device->Upload(PayloadOf(host));
  const tuplespace::Payload payload = device->Download(buffer, {buffer.get(), 0, 100, 100, 100});
  device.reset();
  EXPECT_EQ(std::memcmp(payload.data(), host.v.data(), payload.size()), 0);
  std::thread([&buffer] { buffer.reset(); }).join();
}

TEST_F(OnGpu, LimitsBeyondTheDeviceAreRefused) {
  EXPECT_THAT([&] { Make(std::uint64_t{1} << 60); },
              ThrowsMessage<Error>(HasSubstr("a handler on it cannot hold")));
}

}  // namespace
}  // namespace acan::cuda
