// The CPU device's memory, views and errors; the kernel table; conformance.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <system_error>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/operators/operators.h"
#include "acan/cpu/cpu_device.h"
#include "acan/handler/conformance.h"
#include "forwarding_device.h"
#include "reference.h"
#include "room_for_threads.h"

namespace acan::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::unique_ptr<Device> Make(std::uint64_t limit_bytes, int threads = 1) {
  return MakeCpuDevice({threads, limit_bytes, std::nullopt});
}

tuplespace::Payload Floats(const std::vector<float>& v) {
  return tuplespace::Payload::Copy(v.data(), v.size() * 4);
}

TEST(CpuDevice, SaysThatItsThreadsCannotAllStart) {
  {
    const RoomForThreads room(2);
    EXPECT_THROW(Make(10000, /*threads=*/8), std::system_error);
  }
  EXPECT_EQ(Make(10000, /*threads=*/8)->info().threads, 8);
}

TEST(CpuDeviceMemory, IsCountedToTheByteAndGivenBack) {
  const auto device = Make(10000);
  EXPECT_EQ(device->budget().used_bytes(), 0u);
  BufferPtr a = device->Allocate(6001);
  EXPECT_EQ(a->size_bytes(), 6001u);
  EXPECT_EQ(device->budget().used_bytes(), 6001u);
  EXPECT_THAT([&] { device->Allocate(4000); },
              ThrowsMessage<OutOfMemory>(HasSubstr("limit of 10000 bytes")));
  EXPECT_EQ(device->budget().used_bytes(), 6001u);
  const BufferPtr b = device->Allocate(3999);
  EXPECT_EQ(device->budget().used_bytes(), 10000u);
  a.reset();
  EXPECT_EQ(device->budget().used_bytes(), 3999u);
  EXPECT_EQ(device->budget().peak_bytes(), 10000u);
}

TEST(CpuDeviceMemory, UploadsAreChargedButNotCopied) {
  const auto device = Make(1000);
  const tuplespace::Payload payload = Floats(std::vector<float>(200, 1.5f));
  const BufferPtr buffer = device->Upload(payload);
  EXPECT_EQ(device->budget().used_bytes(), 800u);
  const tuplespace::Payload back = device->Download(buffer, {buffer.get(), 0, 10, 20, 20});
  EXPECT_EQ(back.data(), payload.data());
  EXPECT_THROW(device->Upload(payload), OutOfMemory);
  EXPECT_EQ(device->budget().used_bytes(), 800u);
}

TEST(CpuDeviceMemory, UnalignedPayloadsAreCopied) {
  const auto device = Make(1000);
  const std::vector<float> values{1.0f, 2.0f, 3.0f};
  std::vector<std::byte> bytes(13);
  std::memcpy(bytes.data() + 1, values.data(), 12);
  const auto whole = tuplespace::Payload::Copy(bytes.data(), bytes.size());
  const tuplespace::Payload shifted(whole.owner(), whole.data() + 1, 12);
  const BufferPtr buffer = device->Upload(shifted);
  const tuplespace::Payload back = device->Download(buffer, {buffer.get(), 0, 1, 3, 3});
  EXPECT_EQ(std::memcmp(back.data(), values.data(), 12), 0);
}

TEST(CpuDeviceMemory, BuffersAndPayloadsOutliveTheDevice) {
  auto device = Make(1 << 20);
  BufferPtr buffer = device->Allocate(4000);
  KernelArgs args;
  args.m[0] = {buffer.get(), 0, 10, 100, 100};
  args.scalars.f[0] = 2.0f;
  device->Launch(Kernel::kFill, args);
  const tuplespace::Payload payload = device->Download(buffer, args.m[0]);
  device.reset();
  buffer.reset();
  float last = 0.0f;
  std::memcpy(&last, payload.data() + 3996, 4);
  EXPECT_EQ(last, 2.0f);
}

TEST(CpuDeviceMemory, ScratchIsAShareOfTheLimit) {
  for (const int threads : {1, 2, 7}) {
    for (const std::uint64_t limit :
         {std::uint64_t{0}, std::uint64_t{64} << 10, std::uint64_t{4} << 20,
          std::uint64_t{512} << 20, std::uint64_t{1} << 40}) {
      const auto device = Make(limit, threads);
      EXPECT_EQ(device->budget().used_bytes(), CpuScratchBytes(threads, limit));
      EXPECT_LE(device->budget().used_bytes(), limit / 16);
    }
  }
  EXPECT_EQ(CpuScratchBytes(1, 64 << 10), 0u);
}

TEST(CpuDeviceViews, PartsOfMatricesAreCopiedInAndOut) {
  const auto device = Make(1 << 20);
  const OnDevice whole = Put(*device, Random(6, 9, 1));
  const Host before = Fetch(*device, whole);
  const Matrix part{whole.buffer.get(), 2 * 9 + 3, 3, 4, 9};
  device->CopyIn(Floats(std::vector<float>(12, 7.0f)), part);
  const Host after = Fetch(*device, whole);
  for (std::int64_t r = 0; r < 6; ++r) {
    for (std::int64_t c = 0; c < 9; ++c) {
      const bool inside = r >= 2 && r < 5 && c >= 3 && c < 7;
      EXPECT_EQ(after.at(r, c), inside ? 7.0f : before.at(r, c));
    }
  }
  const tuplespace::Payload packed = device->Download(whole.buffer, part);
  ASSERT_EQ(packed.size(), 48u);
  EXPECT_NE(packed.data(), device->Download(whole.buffer, whole.matrix).data());
}

TEST(CpuDeviceErrors, NameTheOperandAndWhatWouldBeRight) {
  const auto device = Make(1 << 20);
  const OnDevice a = Put(*device, Random(4, 5, 1));
  const OnDevice b = Put(*device, Random(4, 6, 2));
  const OnDevice c = Space(*device, 4, 4);
  const BufferPtr uploaded = device->Upload(Floats(std::vector<float>(20)));
  using Invalid = std::invalid_argument;
  KernelArgs args;
  args.m = {a.matrix, a.matrix, b.matrix};
  EXPECT_THAT([&] { device->Launch(Kernel::kAdd, args); },
              ThrowsMessage<Invalid>(HasSubstr("kAdd operand 2 is [4, 6], must be [4, 5]")));
  args.m = {Matrix{uploaded.get(), 0, 4, 5, 5}, a.matrix, a.matrix};
  EXPECT_THAT([&] { device->Launch(Kernel::kAdd, args); },
              ThrowsMessage<Invalid>(HasSubstr("read-only")));
  args.m = {a.matrix, a.matrix, Matrix{}};
  EXPECT_THAT([&] { device->Launch(Kernel::kAdd, args); },
              ThrowsMessage<Invalid>(HasSubstr("operand 2 has no buffer")));
  args.m = {a.matrix, a.matrix, Matrix{a.buffer.get(), 1, 4, 5, 5}};
  EXPECT_THAT([&] { device->Launch(Kernel::kAdd, args); },
              ThrowsMessage<Invalid>(HasSubstr("must lie in its buffer of 20 words")));
  EXPECT_THAT(
      [&] {
        device->Gemm(GemmForm::kForward, Precision::kExact, 64, a.matrix, b.matrix, c.matrix);
      },
      ThrowsMessage<Invalid>(HasSubstr("gemm forward operand 1 is [4, 6], must be [4, 5]")));
  EXPECT_THAT(
      [&] {
        device->Gemm(GemmForm::kForward, Precision::kExact, 48, a.matrix, a.matrix, c.matrix);
      },
      ThrowsMessage<Invalid>(HasSubstr("block 48 must be a power of two")));
  const Matrix overlapping{a.buffer.get(), 4, 4, 4, 4};
  EXPECT_THAT(
      [&] {
        device->Gemm(GemmForm::kForward, Precision::kExact, 64, a.matrix, a.matrix, overlapping);
      },
      ThrowsMessage<Invalid>(HasSubstr("overlaps")));
  args = {};
  args.m = {c.matrix, a.matrix};
  EXPECT_THROW(device->Launch(Kernel::kColumnSums, args), Invalid) << "block 0";
  EXPECT_THROW(device->CopyIn(Floats({1.0f}), a.matrix), Invalid);
  EXPECT_THAT([] { Make(1000, 0); }, ThrowsMessage<Error>(HasSubstr("0 threads")));
}

// The shapes are equal by chance, but the result would overwrite an operand that is still being
// read.
TEST(CpuDeviceErrors, ResultsOverWhatIsStillReadAreRefused) {
  const auto device = Make(10000);
  const auto space = [&](std::int64_t rows, std::int64_t cols) {
    return Space(*device, rows, cols);
  };
  const OnDevice x = space(2, 4), y = space(2, 4), statistics = space(2, 4), columns = space(1, 4);
  const OnDevice o = space(2, 4), row = space(1, 2), dy = space(1, 2), mean = space(1, 2);
  struct Case {
    Kernel kernel;
    std::vector<Matrix> m;
    std::vector<std::int64_t> integers;
    const char* says;
  };
  const Case cases[] = {
      {Kernel::kColumnNorm,
       {statistics.matrix, x.matrix, statistics.matrix, columns.matrix, columns.matrix},
       {},
       "out[rows, cols] must not overlap statistics[2, cols]"},
      {Kernel::kColumnNormGradient,
       {statistics.matrix, x.matrix, statistics.matrix, y.matrix, columns.matrix, columns.matrix,
        columns.matrix},
       {},
       "dx[rows, cols] must not overlap statistics[2, cols]"},
      {Kernel::kAttentionJoin,
       {statistics.matrix, o.matrix, x.matrix, statistics.matrix, y.matrix, y.matrix},
       {2},
       "o[rows, heads * width] must not overlap left_statistics[rows, 2 * heads]"},
      {Kernel::kNormScaleGradient,
       {mean.matrix, Matrix{}, row.matrix, mean.matrix, dy.matrix},
       {64, 1},
       "d_scale[1, cols] must not overlap statistics[rows, 2]"}};
  for (const Case& each : cases) {
    KernelArgs args;
    std::ranges::copy(each.m, args.m.begin());
    std::ranges::copy(each.integers, args.scalars.i.begin());
    EXPECT_THAT([&] { device->Launch(each.kernel, args); },
                ThrowsMessage<std::invalid_argument>(HasSubstr(each.says)));
  }
}

TEST(CpuIsaNames, AreParsedAndPrinted) {
  for (const CpuIsa isa : {CpuIsa::kPortable, CpuIsa::kAvx2, CpuIsa::kAvx512})
    EXPECT_EQ(ParseCpuIsa(CpuIsaName(isa)), isa);
  EXPECT_EQ(ParseCpuIsa("sse9"), std::nullopt);
  EXPECT_TRUE(CpuIsaAvailable(CpuIsa::kPortable));
  EXPECT_TRUE(CpuIsaAvailable(DetectCpuIsa()));
}

// The tests of a device are skipped if it is missing. So these tests show, without asking acan,
// that a device is there, and that acan does not call it missing.

#if defined(__x86_64__)
TEST(TestDevices, HaveTheInstructionsOfTheBuildAndTheCpu) {
  const std::string built = ACAN_TEST_CPU_ISAS;  // such as "avx2,avx512"
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw");
  if (avx2 && built.find("avx2") != std::string::npos) {
    EXPECT_EQ(WhyMissing("cpu_avx2"), "");
  }
  if (avx512 && built.find("avx512") != std::string::npos) {
    EXPECT_EQ(WhyMissing("cpu_avx512"), "");
  }
}
#endif

#if defined(ACAN_TEST_FAKE_GPUS)
TEST(TestDevices, HaveTheFakeGpus) {
  for (const char* name : {"cuda", "cuda_tile128", "cuda_tile64", "cuda_tile32"}) {
    EXPECT_EQ(WhyMissing(name), "") << name;
  }
}
#endif

#if defined(__x86_64__)
// If code leaves the upper half of a vector register in use, each fma of the C library (which uses
// AVX) is slow when called from code without AVX.
TEST(CpuIsaPortable, BeginsWithoutUpperHalvesOfVectorRegisters) {
  if (!__builtin_cpu_supports("avx")) GTEST_SKIP() << "this CPU has no AVX";
  const auto device = MakeCpuDevice({1, std::uint64_t{1} << 20, CpuIsa::kPortable});
  const BufferPtr buffer = device->Upload(Floats(std::vector<float>(8)));
  const Matrix a{buffer.get(), 0, 2, 4, 4};
  const BufferPtr result = device->Allocate(16);
  const Matrix c{result.get(), 0, 2, 2, 2};
  KernelArgs args;
  args.m = {c, c};
  args.scalars.f = {2.0f};
  const std::vector<std::function<void()>> calls = {
      [&] { device->Gemm(GemmForm::kForward, Precision::kExact, 64, a, a, c); },
      [&] { device->Launch(Kernel::kScale, args); }};
  for (const auto& call : calls) {
    std::array<std::uint64_t, 2> upper{};
    __asm__ volatile("vcmpps $15, %%ymm9, %%ymm9, %%ymm9" ::: "xmm9");  // sets all bits to 1
    call();
    __asm__ volatile("vextractf128 $1, %%ymm9, %0" : "=m"(upper));
    EXPECT_THAT(upper, ::testing::Each(0u));
  }
}
#endif

// The lines of conformance_table.inc from the first operation that differs on.
std::string TableFrom(Device& device, const std::string& first_difference) {
  std::string lines;
  for (const OperationHash& hash : RunConformanceBattery(device)) {
    if (lines.empty() && hash.operation != first_difference) continue;
    lines += "{\"" + hash.operation + "\",\n \"" + hash.sha256 + "\"},\n";
  }
  return lines;
}

class ConformanceTest : public ::testing::TestWithParam<TestDevice> {};

TEST_P(ConformanceTest, EveryDeviceIsExactWithin64KiB) {
  ACAN_SKIP_WITHOUT(GetParam());
  for (const int threads : GetParam().threads) {
    const auto device = GetParam().make(threads, 64 << 10);
    const std::uint64_t scratch_bytes = device->budget().used_bytes();
    EXPECT_LE(scratch_bytes, (64u << 10) / 16);
    const ConformanceResult result = RunConformance(*device);
    EXPECT_TRUE(result.exact) << result.first_difference
                              << " differs. Its line and those behind it, "
                              << "as this device has them:\n"
                              << TableFrom(*device, result.first_difference);
    EXPECT_EQ(result.first_difference, "");
    EXPECT_EQ(result.hash, RunConformance(*Make(64 << 10)).hash);
    EXPECT_EQ(device->budget().used_bytes(), scratch_bytes);
    EXPECT_GT(MeasureGflops(*device), 0.0);
    EXPECT_GT(MeasureTransfer(*device).upload_gb_s, 0.0);
    EXPECT_GT(MeasureTransfer(*device).download_gb_s, 0.0);
  }
}

// With little memory, kernels do without scratch; with more memory, other kernels may run.
TEST_P(ConformanceTest, EveryDeviceIsExactWithRoom) {
  ACAN_SKIP_WITHOUT(GetParam());
  const auto device = GetParam().make(GetParam().threads.back(), kRoomyBytes);
  const ConformanceResult result = RunConformance(*device);
  EXPECT_TRUE(result.exact) << result.first_difference << " differs";
}

INSTANTIATE_TEST_SUITE_P(Devices, ConformanceTest, ::testing::ValuesIn(AllTestDevices()),
                         [](const auto& test) { return test.param.name; });

// A device whose result is wrong by one bit in one operation.
class WrongDevice final : public ForwardingDevice {
 public:
  explicit WrongDevice(Kernel wrong) : ForwardingDevice(Make(64 << 10)), wrong_(wrong) {}
  void Launch(Kernel kernel, const KernelArgs& args) override {
    inner_->Launch(kernel, args);
    if (kernel != wrong_) return;
    Matrix last = args.m[0];
    last.offset += (last.rows - 1) * last.stride + last.cols - 1;
    last.rows = last.cols = 1;
    KernelArgs add;
    add.m = {last, last, last};
    inner_->Launch(Kernel::kAdd, add);
  }

 private:
  Kernel wrong_;
};

TEST(Conformance, NamesTheFirstOperationThatDiffers) {
  WrongDevice momentum(Kernel::kMomentum);
  const ConformanceResult result = RunConformance(momentum);
  EXPECT_FALSE(result.exact);
  EXPECT_EQ(result.first_difference, "kMomentum");
  WrongDevice softmax(Kernel::kSoftmaxCrossEntropy);
  EXPECT_EQ(RunConformance(softmax).first_difference, "kSoftmaxCrossEntropy");
}

// Gradients over groups of rows in one call are wrong in one of the device's two ways.
class WrongGroups final : public ForwardingDevice {
 public:
  // -1: in the way that it chooses itself.
  explicit WrongGroups(int wrong_way) : ForwardingDevice(Make(64 << 10)), wrong_way_(wrong_way) {}
  int ExactWays() const override { return 2; }
  void UseExactWay(int way) override { way_ = way; }
  int way() const { return way_; }
  bool GemmGroups(Precision precision, std::int64_t block, std::int64_t group_rows, const Matrix& a,
                  const Matrix& b, const Matrix& c) override {
    if (!inner_->GemmGroups(precision, block, group_rows, a, b, c)) return false;
    if (way_ != wrong_way_) return true;
    Matrix first = c;
    first.rows = first.cols = 1;
    KernelArgs add;
    add.m = {first, first, first};
    inner_->Launch(Kernel::kAdd, add);
    return true;
  }

 private:
  const int wrong_way_;
  int way_ = -1;
};

TEST(Conformance, TriesGroupsOfRowsInEveryWay) {
  for (const auto& [way, where] :
       {std::pair{-1, ""}, std::pair{0, " in way 1 of 2"}, std::pair{1, " in way 2 of 2"}}) {
    WrongGroups device(way);
    const ConformanceResult result = RunConformance(device);
    EXPECT_FALSE(result.exact);
    EXPECT_EQ(result.first_difference,
              std::string("a gradient over groups of 33 rows in one call") + where);
    EXPECT_EQ(device.way(), -1);
  }
  WrongGroups right(2);
  EXPECT_TRUE(RunConformance(right).exact);
}

TEST(Conformance, CoversEveryKernel) {
  const auto device = Make(64 << 10);
  const std::vector<OperationHash> hashes = RunConformanceBattery(*device);
  for (const OperatorRow* row : kKernelRows) {
    EXPECT_TRUE(std::any_of(hashes.begin(), hashes.end(), [&](const OperationHash& hash) {
      // The name of the kernel, and after a space the variant.
      return hash.operation.substr(0, hash.operation.find(' ')) == row->name;
    })) << row->name;
  }
}

}  // namespace
}  // namespace acan::test
