// Requirements on the CUDA backend besides right results: how it uses memory, streams and barriers.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "acan/core/operators/operators.h"
#include "acan/cuda/cuda_devices.h"
#include "acan/cuda/planted.h"
#include "acan/handler/conformance.h"
#include "fake_gpu.h"
#include "products/gemm_choice.h"

namespace cuda_on_cpu {
namespace {

using acan::BufferPtr;
using acan::Device;
using acan::Kernel;
using acan::KernelArgs;
using acan::Matrix;
using tuplespace::Payload;

void ConfigureOne(const char* gpu) {
  Options options;
  options.gpus = {gpu};
  options.order = Order::kLate;
  Configure(options);
}

std::unique_ptr<Device> Make(std::uint64_t limit_bytes, const char* gpu = "sm_90",
                             std::optional<std::size_t> upload_threads = {}) {
  ConfigureOne(gpu);
  acan::cuda::DeviceOptions choice;
  choice.memory_limit_bytes = limit_bytes;
  choice.upload_threads = upload_threads;
  return acan::cuda::MakeDevice(choice);
}

Payload Filled(std::int64_t words, float with) {
  const std::vector<float> values(static_cast<std::size_t>(words), with);
  return Payload::Copy(values.data(), values.size() * 4);
}

Matrix Row(const BufferPtr& buffer) {
  const auto words = static_cast<std::int64_t>(buffer->size_bytes() / 4);
  return {buffer.get(), 0, 1, words, words};
}

void Fill(Device& device, const BufferPtr& buffer, float with) {
  KernelArgs args;
  args.m[0] = Row(buffer);
  args.scalars.f[0] = with;
  device.Launch(Kernel::kFill, args);
}

// A handler takes exact tasks only after this battery; it runs on the largest and the smallest
// GPUs.
class Conformance : public testing::TestWithParam<const char*> {};

// Enough for a workspace, so that products may be split.
constexpr std::uint64_t kRoomyBytes = 16 << 20;

// A new device holds its workspace, and nothing of what others have.
void ExpectToHoldAWorkspace(const Device& device, std::uint64_t asked_bytes) {
  EXPECT_LE(device.budget().peak_bytes(), acan::cuda::WorkspaceBytesOf(asked_bytes));
  EXPECT_EQ(device.budget().peak_bytes(), device.budget().used_bytes());
}

// The handler asks for the whole device, so the threads' local memory lowers its limit.
TEST(LocalMemory, LowersTheLimitWhereTheDeviceHasNoRoomBesideIt) {
  constexpr std::uint64_t kRounding = 16 << 20;  // of memory in use, by the driver
  const std::uint64_t asked = ModelNamed("tight").memory_bytes;
  auto device = Make(asked, "tight");
  const std::uint64_t local = CountsOf(0).local_bytes;
  EXPECT_GT(local, 2 * kRounding);
  const std::uint64_t limit = device->budget().limit_bytes();
  EXPECT_LE(limit, asked - local);
  ExpectToHoldAWorkspace(*device, asked);
  const std::uint64_t used = device->budget().used_bytes();
  // The rest is usable in full, even by a product that only the deepest kernel can compute.
  const BufferPtr rest = device->Allocate(limit - used - kRounding);
  const BufferPtr deep = device->Upload(Filled(64 * 300, 1.0f));
  const BufferPtr sum = device->Allocate(4);
  device->Gemm(acan::GemmForm::kForward, acan::Precision::kExact, 64, Row(deep), Row(deep),
               Row(sum));
  device->Synchronize();
  EXPECT_EQ(CountsOf(0).local_bytes, local);
}

// As if another process already had a part of the memory when the handler started.
TEST(LocalMemory, LowersTheLimitWhereOthersHaveTheRoomBesideIt) {
  constexpr std::uint64_t kRounding = 4 << 20;
  ConfigureOne("tight");
  void* taken = nullptr;
  ASSERT_EQ(cudaMalloc(&taken, 30 << 20), cudaSuccess);
  std::size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  acan::cuda::DeviceOptions choice;
  choice.memory_limit_bytes = free / 10 * 9;  // a handler's default share
  const auto device = acan::cuda::MakeDevice(choice);
  ExpectToHoldAWorkspace(*device, choice.memory_limit_bytes);
  const std::uint64_t limit = device->budget().limit_bytes();
  EXPECT_LT(limit, choice.memory_limit_bytes);
  const std::uint64_t used = device->budget().used_bytes();
  ASSERT_LT(used + kRounding, limit);
  EXPECT_NO_THROW(device->Allocate(limit - used - kRounding));
  cudaFree(taken);
}

TEST(LocalMemory, LeavesTheLimitWhereTheDeviceHasRoomBesideIt) {
  const auto device = Make(1 << 20, "sm_75");
  EXPECT_GT(CountsOf(0).local_bytes, 0u);
  EXPECT_EQ(device->budget().limit_bytes(), std::uint64_t{1} << 20);
  EXPECT_EQ(device->budget().used_bytes(), 0u);
}

// The driver loads a kernel's code at its first use. Here the limit is what the device has left.
TEST(DeviceMemory, WithinTheLimitIsThereBesideTheCodeOfAllKernels) {
  const auto device = Make(ModelNamed("tight").memory_bytes, "tight");
  std::size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  const std::uint64_t promised = device->budget().limit_bytes() - device->budget().used_bytes();
  EXPECT_GT(promised, 0u);
  EXPECT_LE(promised, free);
}

// The product kernels that this GPU may run, by their registered names.
std::vector<std::string> ProductKernelsOf(std::string_view gpu) {
  std::vector<std::string> tiles = {"gemm_128", "gemm_64", "gemm_32"};
  if (gpu != "sm_75") tiles = {"ring_128", "ring_64", "ring_32"};
  std::vector<std::string> kernels;
  for (const std::string& tile : tiles) {
    for (const char* layout : {"_row_row", "_row_k", "_k_k", "_any"}) {
      kernels.push_back(tile + layout);
    }
  }
  if (gpu != "sm_75") kernels.emplace_back("add_parts");
  return kernels;
}

std::vector<std::string> AttentionKernels() {
  std::vector<std::string> kernels = {"attention_terms_64", "attention_terms_128"};
  for (const char* part : {"attention_", "attention_keys_", "attention_queries_"}) {
    for (const char* shape : {"tall", "low", "wide"}) {
      kernels.push_back(std::string(part) + shape);
    }
  }
  return kernels;
}

TEST_P(Conformance, ReachesEveryKernelThatMayBeLaunched) {
  const auto device = Make(kRoomyBytes, GetParam());
  const std::uint64_t resizes = CountsOf(0).local_resizes;
  const acan::ConformanceResult result = acan::RunConformance(*device);
  EXPECT_TRUE(result.exact) << result.first_difference;
  std::vector<std::string> want = ProductKernelsOf(GetParam());
  for (std::string& name : AttentionKernels()) want.push_back(std::move(name));
#define ACAN_OPERATOR(number, enumerator, ...) want.emplace_back(#enumerator);
#include "acan/core/operators/operators.inc"
  std::sort(want.begin(), want.end());
  EXPECT_EQ(KernelsThatRan(), want);
  // The threads' local memory has its final size from the start, so that no task waits for a
  // resize.
  const BufferPtr deep = device->Upload(Filled(64 * 300, 1.0f));  // only the smallest tile has room
  const BufferPtr sum = device->Allocate(4);
  device->Gemm(acan::GemmForm::kForward, acan::Precision::kExact, 64, Row(deep), Row(deep),
               Row(sum));
  device->Synchronize();
  EXPECT_EQ(CountsOf(0).local_resizes, resizes);
}

INSTANTIATE_TEST_SUITE_P(Gpus, Conformance,
                         testing::Values("sm_75", "sm_80", "sm_86", "sm_90", "small"),
                         [](const auto& of) { return std::string(of.param); });

// A kernel whose threads share memory, and matrices [rows, cols] as its operands. All elements are
// 0.5f, which read as an index is 0x3f000000.
struct SharingKernel {
  Kernel kernel;
  std::vector<std::pair<std::int64_t, std::int64_t>> shapes;
  std::vector<std::int64_t> integers;
  // Pairs of a result and the operand whose matrix it shares.
  std::vector<std::pair<std::size_t, std::size_t>> in_place = {};
  bool has_one_barrier = false;
};

// The threads of a row or column add values that other threads computed; each thread has several
// turns.
const SharingKernel kSharingKernels[] = {
    {Kernel::kNorm, {{3, 1100}, {3, 2}, {3, 1100}}, {}},
    {Kernel::kNormGradient, {{3, 1100}, {3, 1100}, {3, 2}, {3, 1100}}, {}},
    {Kernel::kRowSquares, {{3, 1}, {3, 1100}}, {}},
    {Kernel::kClassMaxima, {{2, 1}, {2, 1}, {2, 5000}}, {}},
    {Kernel::kClassSums, {{2, 3}, {2, 5000}, {2, 1}, {2, 1}}, {}},
    {Kernel::kSoftmaxCrossEntropy, {{2, 2100}, {2, 2100}, {2, 1}, {2, 1}, {2, 1}}, {16}},
    {Kernel::kSquaredError, {{2, 2100}, {2, 2100}, {2, 2100}, {2, 1}}, {16}},
    {Kernel::kEmbeddingGradient, {{3, 40}, {300, 1}, {300, 40}}, {16, 16, 0x3f000000 - 1}},
    {Kernel::kColumnSums, {{1, 20}, {1100, 20}}, {16}},
    {Kernel::kColumnDots, {{1, 20}, {1100, 20}, {1100, 20}}, {16, 16}},
    {Kernel::kNormScaleGradient, {{1, 20}, {1, 20}, {1100, 20}, {1100, 2}, {1100, 20}}, {16, 50}},
    {Kernel::kDepthwiseWeightGradient,
     {{1, 20}, {1100, 20}, {1100, 20}},
     {1100, 1, 1, 1, 1, 1, 0, 0, 16, 1100}},
    {Kernel::kGroupNorm, {{200, 33}, {2, 6}, {200, 33}}, {100, 3}},
    {Kernel::kGroupNormGradient, {{200, 33}, {200, 33}, {2, 6}, {200, 33}}, {100, 3}},
    {Kernel::kAttentionJoin,
     {{5, 60}, {5, 6}, {5, 60}, {5, 6}, {5, 60}, {5, 6}},
     {3},
     {{0, 2}, {1, 3}},
     true},
    {Kernel::kAttention,
     {{70, 20}, {70, 2}, {70, 20}, {130, 20}, {130, 20}, {1, 1}},
     {0, 70, 130, 1, 1, 0, 0, 7, 3, 0, 130, 0, 1, 1}},
    {Kernel::kAttentionGradient,
     {{70, 20},
      {130, 20},
      {130, 20},
      {70, 20},
      {130, 20},
      {130, 20},
      {1, 1},
      {70, 2},
      {70, 20},
      {70, 20}},
     {0, 70, 130, 1, 1, 0, 0, 7, 3, 0, 130, 0, 1}},
};

#if defined(ACAN_KERNELS_CALL_NO_HOOKS)
#define ACAN_SKIP_WITHOUT_HOOKS() \
  GTEST_SKIP() << "a build with a sanitizer does not check the accesses of kernels"
#else
#define ACAN_SKIP_WITHOUT_HOOKS() static_cast<void>(0)
#endif

TEST(SharingKernels, NeedTheirBarriers) {
  ACAN_SKIP_WITHOUT_HOOKS();
  using acan::cuda::CudaBug;
  for (const SharingKernel& of : kSharingKernels) {
    for (const CudaBug bug :
         {CudaBug::kNone, CudaBug::kNoBarrierBeforeTheFirstStep, CudaBug::kNoBarrierBetweenSteps,
          CudaBug::kHalfTheThreadsSkipABarrier}) {
      if (of.has_one_barrier && bug == CudaBug::kNoBarrierBetweenSteps) continue;
      const auto device = Make(1 << 20);
      std::vector<BufferPtr> buffers;
      KernelArgs args;
      for (const auto& [rows, cols] : of.shapes) {
        buffers.push_back(device->Allocate(static_cast<std::uint64_t>(rows * cols) * 4));
        Matrix& m = args.m[buffers.size() - 1];
        m = {buffers.back().get(), 0, rows, cols, cols};
        device->CopyIn(Filled(rows * cols, 0.5f), m);
      }
      for (const auto& [result, operand] : of.in_place) args.m[result] = args.m[operand];
      std::copy(of.integers.begin(), of.integers.end(), args.scalars.i.begin());
      args.scalars.f[0] = 1e-5f;
      Findings findings;
      tuplespace::planted_bug<CudaBug> = bug;
      try {
        device->Launch(of.kernel, args);
        device->Synchronize();
      } catch (const acan::DeviceLost&) {  // a finding loses the device
      }
      tuplespace::planted_bug<CudaBug> = CudaBug::kNone;
      EXPECT_EQ(findings.Take().empty(), bug == CudaBug::kNone)
          << acan::RowOf(of.kernel).name << ", bug " << static_cast<int>(bug);
    }
  }
}

// Each tile of the ring must wait for its copies and for its other threads.
TEST(ProductsOfTheRing, NeedEachOfTheirWaitsAndBarriers) {
  ACAN_SKIP_WITHOUT_HOOKS();
  using acan::cuda::CudaBug;
  using acan::cuda::GemmTile;
  for (const GemmTile tile : {GemmTile::kRing128, GemmTile::kRing64, GemmTile::kRing32}) {
    for (const CudaBug bug :
         {CudaBug::kNone, CudaBug::kOneCopyLessIsAwaited, CudaBug::kNoBarrierBeforeTheFirstStep,
          CudaBug::kNoBarrierBetweenSteps, CudaBug::kHalfTheThreadsSkipABarrier}) {
      Make(1 << 20);
      acan::cuda::DeviceOptions options;
      options.memory_limit_bytes = 1 << 20;
      options.tile = tile;
      const auto device = acan::cuda::MakeDevice(options);
      constexpr std::int64_t kM = 40, kN = 36, kK = 133;
      const BufferPtr a = device->Upload(Filled(kM * kK, 1.0f));
      const BufferPtr b = device->Upload(Filled(kN * kK, 1.0f));
      const BufferPtr c = device->Allocate(kM * kN * 4);
      Findings findings;
      tuplespace::planted_bug<CudaBug> = bug;
      try {
        device->Gemm(acan::GemmForm::kForward, acan::Precision::kExact, 64,
                     {a.get(), 0, kM, kK, kK}, {b.get(), 0, kN, kK, kK}, {c.get(), 0, kM, kN, kN});
        device->Synchronize();
      } catch (const acan::DeviceLost&) {  // a finding loses the device
      }
      tuplespace::planted_bug<CudaBug> = CudaBug::kNone;
      EXPECT_EQ(findings.Take().empty(), bug == CudaBug::kNone)
          << static_cast<int>(tile) << ", bug " << static_cast<int>(bug);
    }
  }
}

// Inputs of the next tasks are copied while kernels of earlier tasks still run.
TEST(CopyIn, DoesNotWaitForTheKernelsOfEarlierTasks) {
  const auto device = Make(4 << 20);
  const BufferPtr result = device->Allocate(4096);
  Fill(*device, result, 1.0f);
  const std::vector<BufferPtr> inputs = [&] {
    std::vector<BufferPtr> made;
    for (int i = 0; i < 6; ++i) made.push_back(device->Allocate(4096));
    return made;
  }();
  const std::uint64_t before = CountsOf(0).operations;
  for (const BufferPtr& input : inputs) device->CopyIn(Filled(1024, 2.0f), Row(input));
  // Even in late order an operation may run now and then, but CopyIn itself must wait for none.
  EXPECT_LE(CountsOf(0).operations, before + 3);
}

TEST(PinnedMemory, IsUsedAgainForResultsOfAboutTheSameSize) {
  const auto device = Make(64 << 20);
  const auto download = [&](std::int64_t words) {
    const BufferPtr buffer = device->Allocate(static_cast<std::uint64_t>(words) * 4);
    Fill(*device, buffer, 3.0f);
    device->Download(buffer, Row(buffer));
  };
  download(1 << 20);
  const std::uint64_t made = CountsOf(0).pinned_made;
  for (std::int64_t less = 0; less < 8; ++less) download((1 << 20) - less * 16000);
  EXPECT_LE(CountsOf(0).pinned_made, made + 1);
}

// Any thread may drop the payload last. The current device of a new one is the first.
TEST(PinnedMemory, ThatOutlivesItsDeviceMakesNoContextElsewhere) {
  Options options;
  options.gpus = {"sm_90", "sm_90"};
  Configure(options);
  acan::cuda::DeviceOptions choice;
  choice.index = 1;
  choice.memory_limit_bytes = 1 << 20;
  auto device = acan::cuda::MakeDevice(choice);
  BufferPtr buffer = device->Upload(Filled(1000, 1.0f));
  Payload payload = device->Download(buffer, Row(buffer));
  buffer.reset();
  device.reset();
  const std::uint64_t pinned = CountsOf(1).pinned;
  std::thread([&] { payload = Payload(); }).join();
  EXPECT_LT(CountsOf(1).pinned, pinned) << "the payload was not the last owner";
  EXPECT_TRUE(CountsOf(1).has_context);
  EXPECT_FALSE(CountsOf(0).has_context);
  cudaSetDevice(0);  // for the tests after this one
}

// The three threads copy whole pieces, except that the last one ends with a partial piece.
TEST(Upload, BySeveralThreadsBringsEveryByte) {
  const auto device = Make(256 << 20, "sm_90", 3);
  for (const std::int64_t bytes : {std::int64_t{37 << 20} + 12, std::int64_t{12 << 20}}) {
    std::vector<float> values(static_cast<std::size_t>(bytes) / 4);
    std::iota(values.begin(), values.end(), 1.0f);
    const Payload sent = Payload::Copy(values.data(), values.size() * 4);
    for (int time = 0; time < 2; ++time) {  // the second time reuses the pinned memory
      const BufferPtr buffer = device->Upload(sent);
      const Payload payload = device->Download(buffer, Row(buffer));
      ASSERT_EQ(payload.size(), sent.size());
      EXPECT_EQ(std::memcmp(payload.data(), sent.data(), sent.size()), 0) << bytes;
    }
  }
}

// Allocating pinned memory takes the driver milliseconds, during which other requests would wait.
TEST(Fetch, MakesNoPinnedMemory) {
  const auto device = Make(64 << 20);
  constexpr std::int64_t kWords = (11 << 20) / 4 + 5;  // three pieces
  std::vector<float> values(kWords);
  std::iota(values.begin(), values.end(), 0.0f);
  const Payload sent = Payload::Copy(values.data(), values.size() * 4);
  const BufferPtr buffer = device->Upload(sent);
  const std::uint64_t made = CountsOf(0).pinned_made;
  const Payload payload = device->Fetch(buffer);
  EXPECT_EQ(CountsOf(0).pinned_made, made);
  ASSERT_EQ(payload.size(), sent.size());
  EXPECT_EQ(std::memcmp(payload.data(), sent.data(), sent.size()), 0);
}

// For allocations above 1 MiB the driver takes whole chunks of 2 MiB.
TEST(DeviceMemory, OfTheCacheIsCountedAsTheDriverDoes) {
  constexpr std::uint64_t kLimit = 15 << 20;  // too little for a workspace
  const auto device = Make(kLimit);
  for (std::uint64_t i = 0; i < 12; ++i) {
    const BufferPtr buffer = device->Allocate((1 << 20) + 256 + i * 100'000);
    Fill(*device, buffer, 1.0f);
    EXPECT_LE(CountsOf(0).device_bytes, kLimit);
  }
}

// After a download fails to start, no copy of it may write later.
TEST(Download, ThatFailsAtItsEndStillWaitsForItsCopy) {
  const auto device = Make(1 << 20);
  const BufferPtr first = device->Upload(Filled(1000, 1.0f));
  const BufferPtr second = device->Upload(Filled(1000, 2.0f));
  Inject("cudaEventRecord", 1, cudaErrorInvalidValue);  // the event after the copy
  EXPECT_THROW(device->StartDownload(first, Row(first)), std::runtime_error);
  const Payload payload = device->Fetch(second);
  RunAll();
  EXPECT_EQ(std::memcmp(payload.data(), Filled(1000, 2.0f).data(), 4000), 0);
}

// A launch on the same thread would report that error as its own.
TEST(Download, ThatIsNotReadyLeavesNoErrorBehind) {
  const auto device = Make(1 << 20);
  const BufferPtr buffer = device->Upload(Filled(1000, 1.0f));
  const auto download = device->StartDownload(buffer, Row(buffer));
  const auto mark = device->StartMark();
  EXPECT_FALSE(download->ready());
  EXPECT_FALSE(mark->ready());
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  RunAll();
  EXPECT_TRUE(download->ready());
  EXPECT_TRUE(mark->ready());
}

TEST(LostDevice, SaysSoInCudasWordsAndLetsEverythingGo) {
  auto device = Make(1 << 20);
  BufferPtr buffer = device->Allocate(4096);
  Inject("operation", 0, cudaErrorECCUncorrectable);
  Fill(*device, buffer, 1.0f);
  try {
    device->Download(buffer, Row(buffer));
    FAIL() << "a lost device answered";
  } catch (const acan::DeviceLost& lost) {
    EXPECT_NE(std::string(lost.what()).find("cudaErrorECCUncorrectable"), std::string::npos)
        << lost.what();
  }
  EXPECT_THROW(device->Allocate(64), acan::DeviceLost);
  buffer.reset();
  device.reset();
}

TEST(FastProducts, RoundTheirOperandsAsTheHandlerSays) {
  for (const auto& [math, want] :
       {std::pair{acan::FastMath::kFp32, 4097.0f}, std::pair{acan::FastMath::kTf32, 4096.0f},
        std::pair{acan::FastMath::kBf16, 4096.0f}}) {
    Make(1 << 20);
    acan::cuda::DeviceOptions choice;
    choice.memory_limit_bytes = 32 << 20;
    choice.fast_math = math;
    const auto device = acan::cuda::MakeDevice(choice);
    const BufferPtr a = device->Upload(Filled(1, 4097.0f));
    const BufferPtr b = device->Upload(Filled(1, 1.0f));
    const BufferPtr c = device->Allocate(4);
    device->Gemm(acan::GemmForm::kForward, acan::Precision::kFast, 64, Row(a), Row(b), Row(c));
    float got = 0;
    std::memcpy(&got, device->Download(c, Row(c)).data(), 4);
    EXPECT_EQ(got, want);
  }
}

}  // namespace
}  // namespace cuda_on_cpu
