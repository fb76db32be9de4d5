// The fake GPU finds what it must, and behaves like CUDA where CUDA is easily misunderstood.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "blocks.h"
#include "device_functions.h"
#include "fake_gpu.h"
#include "forbidden_access.h"
#include "kernel_registry.h"

namespace cuda_on_cpu {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

// Kernels that misbehave. They report their accesses themselves.
unsigned Thread() {
  return ThreadIndex().x;
}
void Touches(float* at, bool write) {
  Touch(reinterpret_cast<std::uintptr_t>(at), 4, write);
}
void OwnWord(float* data) {
  Touches(data + Thread(), true);
  data[Thread()] = static_cast<float>(Thread());
}
void SameWord(float* data) {
  Touches(data, true);
}
void HalfABarrier(float*) {
  if (Thread() % 2 == 0) Barrier();
}
void Misaligned(float* data) {
  TouchVector(data + 1, false);
}
float shared[64];
void SharedRace(float*) {
  Touches(shared + Thread(), true);
  Touches(shared + (Thread() + 1) % 32, true);
}
void SharedWithBarrier(float*) {
  Touches(shared + Thread(), true);
  Barrier();
  Touches(shared + (Thread() + 1) % 32, false);
}
// Two threads read each word before a third one writes it, as when a result replaces an operand.
void InPlaceWithBarrier(float* data) {
  Touches(data + Thread(), false);
  Touches(data + (Thread() + 1) % 32, false);
  Barrier();
  Touches(data + (Thread() + 2) % 32, false);
  Touches(data + (Thread() + 2) % 32, true);
}
void InPlaceWithoutBarrier(float* data) {
  Touches(data + Thread(), false);
  Touches(data + (Thread() + 2) % 32, true);
}
// A barrier orders the threads of one block only.
void BarrierAndBlocks(float* data) {
  Touches(data + Thread(), false);
  Barrier();
  if (BlockIndex().x == 1) Touches(data + Thread(), true);
}
void WriterAndBlocks(float* data) {
  if (BlockIndex().x == 0) Touches(data + Thread(), true);
  Barrier();
  Touches(data + Thread(), false);
}
void SharedUnwritten(float*) {
  Touches(shared + 40, false);
}

// These kernels copy one word each from `data` into dynamic shared memory, of which the launch has
// 32 words.
void CopyMine(float* data) {
  CopyAsync(DynamicShared() + Thread(), data + Thread(), 4);
}
void TouchesDynamic(unsigned word, bool write) {
  Touches(DynamicShared() + word, write);
}
void CopyAwaited(float* data) {
  CopyMine(data);
  CommitCopies();
  AwaitCopies(0);
  Barrier();
  TouchesDynamic((Thread() + 1) % 32, false);
}
void CopyReadTooEarly(float* data) {
  CopyMine(data);
  CommitCopies();
  AwaitCopies(1);  // waits for an earlier group, but there is none
  TouchesDynamic(Thread(), false);
  AwaitCopies(0);
}
void CopyOfAnOpenGroup(float* data) {
  CopyMine(data);
  AwaitCopies(0);
  TouchesDynamic(Thread(), false);
}
void CopyReadByOthers(float* data) {
  CopyMine(data);
  CommitCopies();
  AwaitCopies(0);
  TouchesDynamic((Thread() + 1) % 32, false);
}
void CopyOverWhatOthersRead(float* data) {
  TouchesDynamic(Thread(), true);
  Barrier();
  TouchesDynamic((Thread() + 1) % 32, false);
  CopyMine(data);
  CommitCopies();
  AwaitCopies(0);
}
void CopyIsNotAwaited(float* data) {
  CopyMine(data);
  CommitCopies();
}
void CopyMisaligned(float* data) {
  CopyAsync(DynamicShared(), data + 1, 16);
}
void CopyFromShared(float*) {
  CopyAsync(DynamicShared(), shared, 4);
}
void CopyBeyondTheBlocksMemory(float* data) {
  CopyAsync(DynamicShared() + 32, data, 4);
}
void ReadsBeyondTheBlocksMemory(float*) {
  TouchesDynamic(32, true);
}
// The copy gets the bytes at the time of the wait, not of the call.
float late;
void CopyIsLate(float* data) {
  if (Thread() != 0) return;
  CopyMine(data);
  CommitCopies();
  late = DynamicShared()[0];
  AwaitCopies(0);
}

#if defined(ACAN_HAS_ADDRESS_SANITIZER)
// These read memory of 250 words and do not tell the fake GPU of it.
void ReadsLastWord(float* data) {
  late = data[249];
}
void ReadsWordBehind(float* data) {
  late = data[250];
}
#endif

class FakeGpu : public testing::Test {
 protected:
  FakeGpu() {
    Options options;
    options.gpus = {"sm_90", "sm_75"};
    options.order = Order::kLate;
    Configure(options);
    cudaSetDevice(0);
    cudaGetLastError();
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    void* memory = nullptr;
    cudaMalloc(&memory, 1024);
    device_ = static_cast<float*>(memory);
    cudaHostAlloc(&memory, 1024, cudaHostAllocPortable);
    host_ = static_cast<float*>(memory);
  }

  cudaError_t Launch(void (*kernel)(float*), float* data, unsigned threads = 32,
                     unsigned blocks = 1) {
    RegisterKernel(kernel, "test", 64, 0);
    void* parameters[] = {&data};
    return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), {blocks}, {threads}, parameters,
                            128, stream_);
  }
  std::vector<std::string> FoundBy(void (*kernel)(float*), float* data) {
    Launch(kernel, data);
    cudaStreamSynchronize(stream_);
    return findings_.Take();
  }

  Findings findings_;
  cudaStream_t stream_ = nullptr;
  float* device_ = nullptr;
  float* host_ = nullptr;
};

TEST_F(FakeGpu, FindsWhatThreadsMustNotDo) {
  EXPECT_THAT(FoundBy(&OwnWord, device_), IsEmpty());
  EXPECT_THAT(FoundBy(&SharedWithBarrier, device_), IsEmpty());
  const std::pair<void (*)(float*), const char*> kernels[] = {
      {&SameWord, "another thread of the launch"},
      {&HalfABarrier, "wait at a barrier"},
      {&Misaligned, "misaligned"},
      {&SharedRace, "before the next barrier"},
      {&SharedUnwritten, "nobody has written"}};
  for (const auto& [kernel, words] : kernels) {
    EXPECT_THAT(FoundBy(kernel, device_), Contains(HasSubstr(words)));
    EXPECT_NE(cudaStreamSynchronize(stream_), cudaSuccess) << "the device is lost: " << words;
    Configure({{"sm_90", "sm_75"}, 1, Order::kLate, false});
  }
}

TEST_F(FakeGpu, FindsWhatAsynchronousCopiesMustNotDo) {
  EXPECT_THAT(FoundBy(&CopyAwaited, device_), IsEmpty());
  const std::pair<void (*)(float*), const char*> kernels[] = {
      {&CopyReadTooEarly, "into which a copy is under way"},
      {&CopyOfAnOpenGroup, "into which a copy is under way"},
      {&CopyReadByOthers, "copy is under way|before the next barrier|nobody has written"},
      {&CopyOverWhatOthersRead, "before the next barrier|copy is under way"},
      {&CopyIsNotAwaited, "ends before its copies"},
      {&CopyMisaligned, "misaligned"},
      {&CopyFromShared, "not the device's memory"},
      {&CopyBeyondTheBlocksMemory, "byte 128 of 128 bytes"},
      {&ReadsBeyondTheBlocksMemory, "byte 128 of 128 bytes"}};
  for (const auto& [kernel, words] : kernels) {
    EXPECT_THAT(FoundBy(kernel, device_), Contains(testing::ContainsRegex(words)));
    Configure({{"sm_90", "sm_75"}, 1, Order::kLate, false});
  }
}

TEST_F(FakeGpu, AsynchronousCopiesArriveWhenTheyAreAwaited) {
  host_[0] = 3;
  cudaMemcpyAsync(device_, host_, 4, cudaMemcpyHostToDevice, stream_);
  late = 0;
  EXPECT_THAT(FoundBy(&CopyIsLate, device_), IsEmpty());
  EXPECT_NE(late, late) << "a NaN until then";
  EXPECT_EQ(DynamicShared()[0], 3.0f);
}

// A kernel must request more than 48 KiB of shared memory, and may not exceed what the GPU has.
TEST_F(FakeGpu, SharedMemoryHasLimits) {
  RegisterKernel(&OwnWord, "test", 64, 0);
  const auto* const kernel = reinterpret_cast<const void*>(&OwnWord);
  void* parameters[] = {&device_};
  const auto launch = [&](std::size_t bytes) {
    return cudaLaunchKernel(kernel, {1}, {32}, parameters, bytes, stream_);
  };
  constexpr int kKib = 1 << 10;
  EXPECT_EQ(launch(48 * kKib), cudaSuccess);
  EXPECT_NE(launch(48 * kKib + 16), cudaSuccess);
  EXPECT_THAT(findings_.Take(), Contains(HasSubstr("bytes of shared memory")));
  constexpr auto kMost = cudaFuncAttributeMaxDynamicSharedMemorySize;
  EXPECT_NE(cudaFuncSetAttribute(kernel, kMost, 228 * kKib), cudaSuccess);
  EXPECT_THAT(findings_.Take(), Contains(HasSubstr("bytes of shared memory")));
  EXPECT_EQ(cudaFuncSetAttribute(kernel, kMost, 100 * kKib), cudaSuccess);
  EXPECT_EQ(launch(100 * kKib), cudaSuccess);
  EXPECT_NE(launch(101 * kKib), cudaSuccess);
  EXPECT_THAT(findings_.Take(), Contains(HasSubstr("bytes of shared memory")));
}

TEST_F(FakeGpu, FindsRacesThatNoBarrierOfTheBlockPrevents) {
  EXPECT_THAT(FoundBy(&InPlaceWithBarrier, device_), IsEmpty());
  EXPECT_THAT(FoundBy(&BarrierAndBlocks, device_), IsEmpty()) << "one block has no race";
  EXPECT_THAT(FoundBy(&InPlaceWithoutBarrier, device_), Contains(HasSubstr("another thread")));
  for (void (*const kernel)(float*) : {&BarrierAndBlocks, &WriterAndBlocks}) {
    Configure({{"sm_90", "sm_75"}, 1, Order::kLate, false});
    Launch(kernel, device_, 32, 2);
    cudaStreamSynchronize(stream_);
    EXPECT_THAT(findings_.Take(), Contains(HasSubstr("another thread")));
  }
}

TEST_F(FakeGpu, FindsMemoryThatIsNotThere) {
  EXPECT_THAT(FoundBy(&OwnWord, host_), Contains(HasSubstr("pinned memory")));
  Configure({{"sm_90", "sm_75"}, 1, Order::kLate, false});
  EXPECT_THAT(FoundBy(&OwnWord, device_ + 240), Contains(HasSubstr("did not give")));
  Configure({{"sm_90", "sm_75"}, 1, Order::kLate, false});
  Launch(&OwnWord, device_);
  EXPECT_EQ(cudaFree(device_), cudaSuccess);  // does not wait
  cudaStreamSynchronize(stream_);
  EXPECT_THAT(findings_.Take(), Contains(HasSubstr("which was freed")));
  Configure({{"sm_90", "sm_75"}, 1, Order::kLate, false});
  EXPECT_NE(cudaFree(device_), cudaSuccess);
  EXPECT_THAT(findings_.Take(), Contains(HasSubstr("cudaFree of")));
}

#if defined(ACAN_HAS_ADDRESS_SANITIZER)
// The hooks are off in such a build. The piece ends within a page.
TEST_F(FakeGpu, AddressSanitizerFindsTheWordBehindAPiece) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 250 * sizeof(float)), cudaSuccess);
  auto* const data = static_cast<float*>(memory);
  EXPECT_THAT(FoundBy(&ReadsLastWord, data), IsEmpty());
  EXPECT_DEATH(FoundBy(&ReadsWordBehind, data), "use-after-poison");
}
#endif

TEST_F(FakeGpu, FindsCopiesThatCannotBe) {
  float own[4] = {};
  EXPECT_NE(cudaMemcpyAsync(device_, own, 16, cudaMemcpyHostToDevice, stream_), cudaSuccess);
  EXPECT_THAT(findings_.Take(), Contains(HasSubstr("must be pinned memory")));
  EXPECT_NE(cudaMemcpyAsync(device_, host_, 16, cudaMemcpyDeviceToHost, stream_), cudaSuccess);
  EXPECT_NE(cudaMemcpyAsync(device_, host_, 2000, cudaMemcpyHostToDevice, stream_), cudaSuccess);
  EXPECT_NE(cudaMemcpy2DAsync(device_, 8, host_, 16, 16, 2, cudaMemcpyHostToDevice, stream_),
            cudaSuccess);
  EXPECT_EQ(findings_.Take().size(), 3u);
}

TEST_F(FakeGpu, FindsDevicesThatAreMixedUp) {
  std::thread([&] {
    cudaSetDevice(1);
    EXPECT_NE(Launch(&OwnWord, device_), cudaSuccess);
    cudaEvent_t event = nullptr;
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    EXPECT_NE(cudaEventRecord(event, stream_), cudaSuccess);
  }).join();
  EXPECT_EQ(findings_.Take().size(), 2u);
}

TEST_F(FakeGpu, FreshMemoryIsPoisoned) {
  cudaMemcpyAsync(host_, device_, 16, cudaMemcpyDeviceToHost, stream_);
  cudaStreamSynchronize(stream_);
  for (int i = 0; i < 4; ++i) EXPECT_NE(host_[i], host_[i]) << "a NaN";
}

// A wait is for the latest record at the time of the wait's request.
TEST_F(FakeGpu, WaitsAreForTheLatestRecord) {
  cudaStream_t other = nullptr;
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess) << "never recorded";
  host_[0] = 1;
  cudaMemcpyAsync(device_, host_, 4, cudaMemcpyHostToDevice, stream_);
  cudaEventRecord(event, stream_);
  cudaStreamWaitEvent(other, event, 0);
  cudaMemcpyAsync(host_ + 8, device_, 4, cudaMemcpyDeviceToHost, other);
  host_[1] = 2;
  cudaMemcpyAsync(device_, host_ + 1, 4, cudaMemcpyHostToDevice, stream_);
  cudaEventRecord(event, stream_);
  cudaStreamSynchronize(other);
  EXPECT_EQ(host_[8], 1.0f) << "the second copy was not waited for, the first was";
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
}

TEST_F(FakeGpu, StickyErrorsStay) {
  Inject("operation", 0, cudaErrorLaunchFailure);
  EXPECT_EQ(Launch(&OwnWord, device_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorLaunchFailure);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaErrorLaunchFailure);
}

TEST_F(FakeGpu, TheDriverTakesWholeChunks) {
  const std::uint64_t before = CountsOf(0).device_bytes;
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, (2 << 20) + 1), cudaSuccess);
  EXPECT_EQ(CountsOf(0).device_bytes - before, std::uint64_t{4} << 20);
  cudaFree(memory);
  EXPECT_EQ(CountsOf(0).device_bytes, before);
}

TEST_F(FakeGpu, LoadsTheCodeOfAKernelAtItsFirstUse) {
  const auto free_bytes = [] {
    std::size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    return free;
  };
  const std::size_t before = free_bytes();
  Launch(&OwnWord, device_);
  const std::size_t after = free_bytes();
  EXPECT_LT(after, before);
  Launch(&OwnWord, device_);
  EXPECT_EQ(free_bytes(), after);
}

TEST_F(FakeGpu, AThreadThatChoosesNoDeviceUsesTheFirst) {
  Configure({{"sm_90", "sm_75"}, 1, Order::kLate, false});
  cudaSetDevice(1);
  EXPECT_FALSE(CountsOf(0).has_context);
  std::thread([&] { cudaFreeHost(host_); }).join();
  EXPECT_TRUE(CountsOf(0).has_context);
  cudaSetDevice(0);  // for the tests after this one
}

}  // namespace
}  // namespace cuda_on_cpu
