// Exact products: every form, device and thread count, compared with the definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "acan/core/operators/operators.h"
#include "acan/core/range.h"
#include "acan/cpu/cpu_device.h"
#include "reference.h"

namespace acan::test {
namespace {

struct Shape {
  std::int64_t m, n, k, block;
};

std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << s.m << "x" << s.n << "x" << s.k << " block " << s.block;
}

Host LeftOf(GemmForm form, const Shape& s, std::uint32_t seed) {
  return form == GemmForm::kGradient ? Random(s.k, s.m, seed) : Random(s.m, s.k, seed);
}

Host RightOf(GemmForm form, const Shape& s, std::uint32_t seed) {
  return form == GemmForm::kForward ? Random(s.n, s.k, seed) : Random(s.k, s.n, seed);
}

Host Product(Device& device, GemmForm form, std::int64_t block, const Host& a, const Host& b,
             std::int64_t pad, Precision precision = Precision::kExact) {
  const OnDevice left = Put(device, a, pad);
  const OnDevice right = Put(device, b, pad);
  const std::int64_t m = form == GemmForm::kGradient ? a.cols : a.rows;
  const std::int64_t n = form == GemmForm::kForward ? b.rows : b.cols;
  const OnDevice c = Space(device, m, n, pad);
  device.Gemm(form, precision, block, left.matrix, right.matrix, c.matrix);
  return Fetch(device, c);
}

const Shape kShapes[] = {
    {1, 1, 1, 16},      {1, 1, 1000, 64},   {1, 33, 64, 64},    {7, 1, 65, 64},
    {1, 100, 300, 64},  {2, 70, 129, 32},   {3, 5, 15, 16},     {3, 5, 16, 16},
    {3, 5, 17, 16},     {12, 32, 64, 64},   {12, 32, 128, 64},  {13, 33, 127, 64},
    {24, 64, 192, 64},  {25, 47, 63, 64},   {31, 95, 257, 64},  {64, 64, 64, 64},
    {11, 31, 1100, 16}, {40, 41, 400, 32},  {5, 66, 2100, 64},  {48, 17, 700, 128},
    {9, 19, 1500, 512}, {6, 8, 1030, 1024}, {130, 10, 70, 64},  {10, 130, 70, 64},
    {100, 257, 90, 64}, {257, 100, 90, 64}, {4, 40, 4200, 16},  {132, 260, 72, 16},
    {25, 40, 1024, 64}, {36, 40, 1024, 64}, {40, 17, 1500, 64},
};
constexpr GemmForm kForms[] = {GemmForm::kForward, GemmForm::kBackward, GemmForm::kGradient};

class GemmTest : public ::testing::TestWithParam<std::tuple<TestDevice, GemmForm>> {};

// Every shape gives the bits of the definition, whatever the scratch, stride and thread count.
TEST_P(GemmTest, EqualsTheDefinition) {
  const auto& [on, form] = GetParam();
  ACAN_SKIP_WITHOUT(on);
  std::vector<Host> want;
  for (const Shape& s : kShapes) {
    want.push_back(GemmReference(form, s.block, LeftOf(form, s, 1), RightOf(form, s, 2)));
  }
  for (const int threads : on.threads) {
    // The small limit leaves no packing scratch on CPUs, and only a little in OpenCL.
    for (const std::uint64_t limit : {std::uint64_t{1} << 20, kRoomyBytes}) {
      const auto device = on.make(threads, limit);
      for (const std::int64_t pad : {0, 5}) {
        // Fake GPUs are slow, and their kernels do not depend on the combination of both.
        if (IsFakeGpu(on) && (pad == 0) != (limit == kRoomyBytes)) continue;
        for (std::size_t i = 0; i < std::size(kShapes); ++i) {
          const Shape& s = kShapes[i];
          const Host got =
              Product(*device, form, s.block, LeftOf(form, s, 1), RightOf(form, s, 2), pad);
          EXPECT_EQ(Difference(got, want[i]), "")
              << s << ", " << threads << " threads, limit " << limit << ", pad " << pad;
        }
      }
    }
  }
}

// Operands and result lie inside larger matrices of NaN, whose rows may or may not start at
// multiples of four floats.
TEST_P(GemmTest, ReadsAndWritesNothingBesideItsMatrices) {
  const auto& [on, form] = GetParam();
  ACAN_SKIP_WITHOUT(on);
  const auto device = on.make(on.threads.back(), kRoomyBytes);
  const Shape s{36, 44, 72, 16};
  const Host a = LeftOf(form, s, 21);
  const Host b = RightOf(form, s, 22);
  for (const std::int64_t pad : {4, 5}) {
    const auto place = [&](const Host& host) {
      OnDevice out = Space(*device, host.rows, host.cols, pad);
      Host all(1, host.rows * out.matrix.stride + pad);
      std::fill(all.v.begin(), all.v.end(), NAN);
      const Matrix whole{out.buffer.get(), 0, 1, all.cols, all.cols};
      device->CopyIn(tuplespace::Payload::Copy(all.v.data(), all.v.size() * 4), whole);
      device->CopyIn(tuplespace::Payload::Copy(host.v.data(), host.v.size() * 4), out.matrix);
      return std::pair(out, whole);
    };
    const OnDevice left = place(a).first;
    const OnDevice right = place(b).first;
    const auto [c, all_of_c] = place(Host(s.m, s.n));
    device->Gemm(form, Precision::kExact, s.block, left.matrix, right.matrix, c.matrix);
    EXPECT_EQ(Difference(Fetch(*device, c), GemmReference(form, s.block, a, b)), "") << pad;
    const Host all = Fetch(*device, {c.buffer, all_of_c});
    for (std::int64_t i = 0; i < all.cols; ++i) {
      const std::int64_t at = i - pad;
      const bool inside = at >= 0 && at % c.matrix.stride < s.n;
      ASSERT_EQ(std::isnan(all.at(0, i)), !inside) << "word " << i << ", pad " << pad;
    }
  }
}

TEST_P(GemmTest, IsCloseToFloat64) {
  const auto& [on, form] = GetParam();
  ACAN_SKIP_WITHOUT(on);
  const auto device = on.make(1, kRoomyBytes);
  for (const Shape& s : {Shape{17, 40, 1000, 64}, Shape{40, 17, 5000, 64}}) {
    const Host a = LeftOf(form, s, 3);
    const Host b = RightOf(form, s, 4);
    const Host c = Product(*device, form, s.block, a, b, 0);
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t j = 0; j < s.n; ++j) {
        double want = 0.0;
        double magnitude = 0.0;
        for (std::int64_t k = 0; k < s.k; ++k) {
          const double term = static_cast<double>(LeftAt(form, a, i, k)) * RightAt(form, b, j, k);
          want += term;
          magnitude += std::abs(term);
        }
        // Each term goes through at most block + levels roundings of 2^-24.
        const double levels = RootLevel(s.k, s.block);
        ASSERT_NEAR(c.at(i, j), want, magnitude * 0x1p-24 * (s.block + levels));
      }
    }
  }
}

TEST_P(GemmTest, SpecialValuesAreKept) {
  const auto& [on, form] = GetParam();
  ACAN_SKIP_WITHOUT(on);
  const auto device = on.make(1, kRoomyBytes);
  const Shape s{14, 35, 150, 64};
  Host a = LeftOf(form, s, 5);
  Host b = RightOf(form, s, 6);
  const float inf = INFINITY;
  a.at(3, 2) = inf;
  a.at(4, 4) = NAN;
  b.at(5, 7) = -inf;
  b.at(9, 1) = -0.0f;
  a.at(1, 1) = 1e-41f;
  for (std::int64_t i = 0; i < a.rows; ++i) a.at(i, 6) = 1e-30f;
  for (std::int64_t i = 0; i < b.rows; ++i) b.at(i, 6) = 1e-12f;
  EXPECT_EQ(
      Difference(Product(*device, form, s.block, a, b, 0), GemmReference(form, s.block, a, b)), "");
  // Makes sums and products denormal, and adds products of zeros of both signs.
  for (float& x : a.v) x *= 1e-22f;
  for (float& x : b.v) x *= 1e-20f;
  EXPECT_EQ(
      Difference(Product(*device, form, s.block, a, b, 0), GemmReference(form, s.block, a, b)), "");
}

// Sums over nodes of the k axis, combined as range.h says, equal the sum over the whole axis.
TEST_P(GemmTest, HalvingKChangesNothing) {
  const auto& [on, form] = GetParam();
  ACAN_SKIP_WITHOUT(on);
  const auto device = on.make(on.threads.back(), kRoomyBytes);
  const Shape s{21, 39, 1450, 64};
  const Host a = LeftOf(form, s, 7);
  const Host b = RightOf(form, s, 8);
  const Host whole = Product(*device, form, s.block, a, b, 0);
  const auto part = [](const Host& host, bool k_is_row, const Range& range) {
    Host out = k_is_row ? Host(range.size(), host.cols) : Host(host.rows, range.size());
    for (std::int64_t r = 0; r < out.rows; ++r) {
      for (std::int64_t c = 0; c < out.cols; ++c) {
        out.at(r, c) = k_is_row ? host.at(range.begin + r, c) : host.at(r, range.begin + c);
      }
    }
    return out;
  };
  // Nodes of mixed sizes, as when only some tasks were split in half.
  std::vector<std::vector<Range>> cuts;
  for (int level = 0; level <= RootLevel(s.k, s.block); ++level) {
    cuts.push_back(NodesOfLevel(s.k, s.block, level));
  }
  cuts.push_back({{0, 512}, {512, 768}, {768, 832}, {832, 896}, {896, 1024}, {1024, 1450}});
  for (const std::vector<Range>& ranges : cuts) {
    std::vector<OnDevice> partials;
    for (const Range& range : ranges) {
      const Host c = Product(*device, form, s.block, part(a, form == GemmForm::kGradient, range),
                             part(b, form != GemmForm::kForward, range), 0);
      partials.push_back(Put(*device, c));
    }
    for (const Combine& combine : CombineOrder(ranges, s.block)) {
      KernelArgs args;
      args.m[0] = args.m[1] = partials[combine.left].matrix;
      args.m[2] = partials[combine.right].matrix;
      device->Launch(Kernel::kAdd, args);
    }
    EXPECT_EQ(Difference(Fetch(*device, partials[0]), whole), "") << ranges.size() << " parts";
  }
}

// A product with a fused kernel gives the same bits as the product followed by the kernel: in
// place, as tasks use it, and also where the kernel touches operands of the product, which prevents
// working piece by piece.
TEST_P(GemmTest, ThenIsTheProductAndThenTheKernel) {
  const auto& [on, form] = GetParam();
  ACAN_SKIP_WITHOUT(on);
  for (const Shape& s :
       {Shape{14, 35, 150, 64}, Shape{150, 300, IsFakeGpu(on) ? 130 : 700, 64},
        Shape{300, 40, 90, 16},
        // On the CPU, the kernel runs on strips of two groups of columns, and after two spans of k.
        Shape{160, 160, 40, 64}, Shape{64, 50, 1030, 64}}) {
    const Host a = LeftOf(form, s, 13);
    const Host b = RightOf(form, s, 14);
    const Host w = Random(s.m, s.n, 15);
    const Host bias = Random(1, s.n, 16);
    for (const int threads : on.threads) {
      const auto device = on.make(threads, kRoomyBytes);
      const Host product = Product(*device, form, s.block, a, b, 0);
      for (const Kernel kernel : {Kernel::kSgd, Kernel::kMomentum, Kernel::kBiasActivation}) {
        const auto run = [&](const Host& start, const auto& body) {
          const OnDevice c = Put(*device, start, 3);
          const OnDevice weight = Put(*device, w);
          const OnDevice state = Put(*device, w, 2);
          const OnDevice other = Put(*device, bias);
          const OnDevice saved = Space(*device, s.m, s.n, 0);
          KernelArgs args;
          args.scalars.f = {0.1f, 0.9f, 0.01f};
          if (kernel == Kernel::kSgd) args.m = {c.matrix, weight.matrix, c.matrix};
          if (kernel == Kernel::kMomentum) {
            args.m = {c.matrix, saved.matrix, weight.matrix, state.matrix, c.matrix};
          }
          if (kernel == Kernel::kBiasActivation) {
            args.m = {c.matrix, c.matrix, other.matrix, saved.matrix};
            args.scalars.i[0] = static_cast<std::int64_t>(Activation::kGelu);
          }
          body(c.matrix, args);
          std::vector<Host> out{Fetch(*device, c)};
          if (kernel != Kernel::kSgd) out.push_back(Fetch(*device, saved));
          return out;
        };
        const std::vector<Host> apart = run(
            product, [&](const Matrix&, const KernelArgs& args) { device->Launch(kernel, args); });
        const std::vector<Host> together =
            run(Host(s.m, s.n), [&](const Matrix& c, const KernelArgs& args) {
              const OnDevice left = Put(*device, a, 1);
              const OnDevice right = Put(*device, b, 1);
              device->GemmThen(form, Precision::kExact, s.block, left.matrix, right.matrix, c,
                               kernel, args);
            });
        for (std::size_t i = 0; i < apart.size(); ++i) {
          EXPECT_EQ(Difference(together[i], apart[i]), "") << s << ", " << threads << " threads";
        }
      }
    }
  }
}

TEST_P(GemmTest, ThenMayWriteWhatTheProductReads) {
  const auto& [on, form] = GetParam();
  ACAN_SKIP_WITHOUT(on);
  const auto device = on.make(on.threads.back(), kRoomyBytes);
  // Square, so that the kernel can write over an operand, and large enough for several tiles.
  const std::int64_t size = IsFakeGpu(on) ? 150 : 300;
  const Host a = Random(size, size, 17);
  const OnDevice left = Put(*device, a);
  const OnDevice right = Put(*device, Random(size, size, 18));
  const OnDevice c = Space(*device, size, size, 0);
  device->Gemm(form, Precision::kExact, 64, left.matrix, right.matrix, c.matrix);
  const Host product = Fetch(*device, c);
  KernelArgs args;
  args.m = {left.matrix, left.matrix, c.matrix};
  device->GemmThen(form, Precision::kExact, 64, left.matrix, right.matrix, c.matrix, Kernel::kAdd,
                   args);
  EXPECT_EQ(Difference(Fetch(*device, c), product), "");
  Host want = a;
  for (std::size_t i = 0; i < want.v.size(); ++i) want.v[i] += product.v[i];
  EXPECT_EQ(Difference(Fetch(*device, left), want), "");
}

// While a product is computed piece by piece, other elements of its result have what the memory had
// before, and a kernel's writes to them would be lost.
TEST_P(GemmTest, ThenMayTouchOtherElementsOfTheResult) {
  const auto& [on, form] = GetParam();
  ACAN_SKIP_WITHOUT(on);
  const std::int64_t size = IsFakeGpu(on) ? 70 : 256;
  const Host a = LeftOf(form, {size, size, 16, 16}, 23);
  const Host b = RightOf(form, {size, size, 16, 16}, 24);
  const Host w = Random(size, size, 25);
  Host before(size, size);
  std::fill(before.v.begin(), before.v.end(), NAN);
  for (const int threads : on.threads) {
    const auto device = on.make(threads, kRoomyBytes);
    const OnDevice left = Put(*device, a);
    const OnDevice right = Put(*device, b);
    for (const Kernel kernel :
         {Kernel::kTranspose, Kernel::kPlacePositions, Kernel::kCopyPositions}) {
      const bool writes_c = kernel == Kernel::kCopyPositions;
      const auto run = [&](bool together) {
        const OnDevice c = Put(*device, before, 3);
        const OnDevice other = Put(*device, w);
        KernelArgs args;
        args.m = {other.matrix, c.matrix};
        if (writes_c) std::swap(args.m[0], args.m[1]);
        // Each row of `other` is the next one of c, or each row of c the one before it of `other`.
        if (kernel != Kernel::kTranspose) args.scalars.i = {size, size, writes_c ? 1 : -1};
        if (together) {
          device->GemmThen(form, Precision::kExact, 16, left.matrix, right.matrix, c.matrix, kernel,
                           args);
        } else {
          device->Gemm(form, Precision::kExact, 16, left.matrix, right.matrix, c.matrix);
          device->Launch(kernel, args);
        }
        return std::pair(Fetch(*device, c), Fetch(*device, other));
      };
      const auto [c, other] = run(false);
      const auto [c_together, other_together] = run(true);
      SCOPED_TRACE(testing::Message() << RowOf(kernel).name << ", " << threads << " threads");
      EXPECT_EQ(Difference(c_together, c), "");
      EXPECT_EQ(Difference(other_together, other), "");
    }
  }
}

TEST_P(GemmTest, FastAgreesUpToRounding) {
  const auto& [on, form] = GetParam();
  ACAN_SKIP_WITHOUT(on);
  const auto device = on.make(1, kRoomyBytes);
  const Shape s{33, 65, 300, 64};
  const Host a = LeftOf(form, s, 9);
  const Host b = RightOf(form, s, 10);
  const Host exact = Product(*device, form, s.block, a, b, 3);
  const Host fast = Product(*device, form, s.block, a, b, 3, Precision::kFast);
  for (std::size_t i = 0; i < exact.v.size(); ++i) ASSERT_NEAR(exact.v[i], fast.v[i], 1e-4);
}

// Rounding to bf16 changes each operand by at most 2^-9 of its value, so each term by slightly more
// than 2^-8. The roundings of the sum are those of k fp32 additions in any order.
TEST(CpuBf16, IsWithinTheBoundOfItsRoundings) {
  if (const std::string problem = CpuBf16Problem(); !problem.empty()) GTEST_SKIP() << problem;
  const auto device = MakeCpuDevice({.threads = 2,
                                     .memory_limit_bytes = kRoomyBytes,
                                     .isa = std::nullopt,
                                     .fast_math = FastMath::kBf16});
  const Shape s{65, 130, 515, 64};
  for (const GemmForm form : kForms) {
    const Host a = LeftOf(form, s, 19);
    const Host b = RightOf(form, s, 20);
    const Host c = Product(*device, form, s.block, a, b, 3, Precision::kFast);
    double worst = 0.0;
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t j = 0; j < s.n; ++j) {
        double want = 0.0;
        double magnitude = 0.0;
        for (std::int64_t k = 0; k < s.k; ++k) {
          const double term = static_cast<double>(LeftAt(form, a, i, k)) * RightAt(form, b, j, k);
          want += term;
          magnitude += std::abs(term);
        }
        const double k = static_cast<double>(s.k);
        ASSERT_NEAR(c.at(i, j), want, magnitude * (0x1p-8 + 0x1p-18 + k * 0x1p-24));
        worst = std::max(worst, std::abs(c.at(i, j) - want) / magnitude);
      }
    }
    // A smaller error would mean that the product did not use bf16.
    EXPECT_GT(worst, 0x1p-20);
  }
}

std::string NameOf(const ::testing::TestParamInfo<std::tuple<TestDevice, GemmForm>>& info) {
  constexpr const char* kNames[] = {"forward", "backward", "gradient"};
  return std::get<0>(info.param).name + "_" + kNames[static_cast<int>(std::get<1>(info.param))];
}

INSTANTIATE_TEST_SUITE_P(Devices, GemmTest,
                         ::testing::Combine(::testing::ValuesIn(ProductTestDevices()),
                                            ::testing::ValuesIn(kForms)),
                         NameOf);

// Large products with all block sizes of the packing; the test spot-checks single elements.
class GemmLargeTest : public ::testing::TestWithParam<TestDevice> {};

TEST_P(GemmLargeTest, SpotChecksEqualTheDefinition) {
  ACAN_SKIP_WITHOUT(GetParam());
  std::vector<Shape> shapes = {{515, 1030, 2100, 64},
                               {1, 3000, 2500, 64},
                               {130, 2050, 1000, 64},
                               {1500, 1300, 130, 64},
                               {300, 700, 5000, 32}};
  // With several tiles of every size along both axes, and many leaves.
  if (IsFakeGpu(GetParam())) shapes = {{131, 261, 530, 64}, {70, 134, 1030, 32}};
  const auto roomy = GetParam().make(2, kRoomyBytes);
  // On CPUs, these limits leave scratch for some spans of k, and for fewer.
  const auto tight = GetParam().make(2, std::uint64_t{80} << 20);
  const auto tighter = GetParam().make(2, std::uint64_t{40} << 20);
  for (const GemmForm form : kForms) {
    for (const Shape& s : shapes) {
      const Host a = LeftOf(form, s, 11);
      const Host b = RightOf(form, s, 12);
      const Host c = Product(*roomy, form, s.block, a, b, 0);
      if (!IsFakeGpu(GetParam())) {
        EXPECT_EQ(Difference(Product(*tight, form, s.block, a, b, 0), c), "") << s;
        EXPECT_EQ(Difference(Product(*tighter, form, s.block, a, b, 0), c), "") << s;
      }
      for (std::int64_t spot = 0; spot < 500; ++spot) {
        const std::int64_t i = spot * 7919 % s.m;
        const std::int64_t j = spot * 104729 % s.n;
        const float want = TreeSum(s.k, s.block, [&](float acc, std::int64_t at) {
          return std::fma(LeftAt(form, a, i, at), RightAt(form, b, j, at), acc);
        });
        ASSERT_EQ(c.at(i, j), want) << s << " at " << i << ", " << j;
      }
    }
  }
}

// Leaves out cpu_portable, which would take ten seconds.
std::vector<TestDevice> LargeTestDevices() {
  std::vector<TestDevice> devices = ProductTestDevices();
  std::erase_if(devices, [](const TestDevice& device) { return device.name == "cpu_portable"; });
  return devices;
}

INSTANTIATE_TEST_SUITE_P(Devices, GemmLargeTest, ::testing::ValuesIn(LargeTestDevices()),
                         [](const auto& test) { return test.param.name; });

// Kept operands are packed in groups (on CPUs, of 132 rows or up to 144 columns). With these sizes,
// the last group has fewer rows or columns than one tile of the groups before it. On fake GPUs,
// this holds for the last tile.
class GemmLastGroupTest : public ::testing::TestWithParam<TestDevice> {};

TEST_P(GemmLastGroupTest, EqualsTheDefinition) {
  ACAN_SKIP_WITHOUT(GetParam());
  const auto device = GetParam().make(1, std::uint64_t{1} << 30);
  constexpr std::int64_t kDepth = 2, kLast = 40;
  std::vector<std::int64_t> sizes = {721, 728, 1453, 1458, 4096, 5677};
  if (IsFakeGpu(GetParam())) sizes = {129, 161, 223};
  for (const GemmForm form : kForms) {
    for (const std::int64_t size : sizes) {
      for (const Shape& s : {Shape{size, size, kDepth, 16}, Shape{size + 7, size, kDepth, 16}}) {
        const Host a = LeftOf(form, s, 13), b = RightOf(form, s, 14);
        const Host c = Product(*device, form, s.block, a, b, 0);
        const auto check = [&](std::int64_t i, std::int64_t j) {
          const float first = std::fma(LeftAt(form, a, i, 0), RightAt(form, b, j, 0), 0.0f);
          const float want = std::fma(LeftAt(form, a, i, 1), RightAt(form, b, j, 1), first);
          ASSERT_EQ(c.at(i, j), want) << s << " at " << i << ", " << j;
        };
        for (std::int64_t i = 0; i < s.m; ++i) {
          const std::int64_t first = i < s.m - kLast ? s.n - kLast : 0;
          for (std::int64_t j = first; j < s.n; ++j) check(i, j);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, GemmLastGroupTest, ::testing::ValuesIn(LargeTestDevices()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace acan::test
