// The kernels over positions of samples on every device, to the bit, against the calls whose order
// they have: group norm is the layer norm of what a group holds, global pooling the column sums of
// a sample, a depthwise convolution the product with each unfolded channel. Cuts at samples change
// nothing.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "reference.h"

namespace acan::test {
namespace {

constexpr std::int64_t kBlock = 16;

// Random, and in every fifth place something that hurts.
Host Hard(std::int64_t rows, std::int64_t cols, std::uint32_t seed) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float hard[] = {0.0f, -0.0f, 1e-41f, 1e30f, -1e-30f, 104.0f, kInfinity, -kInfinity, NAN};
  Host host = Random(rows, cols, seed, -4.0f, 4.0f);
  for (std::size_t i = 4; i < host.v.size(); i += 5) host.v[i] = hard[i / 5 % std::size(hard)];
  return host;
}

using MakeHost = Host (*)(std::int64_t rows, std::int64_t cols, std::uint32_t seed);
Host Plain(std::int64_t rows, std::int64_t cols, std::uint32_t seed) {
  return Random(rows, cols, seed);
}

Host ColumnsOf(const Host& x, std::int64_t begin, std::int64_t end) {
  Host out(x.rows, end - begin);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (std::int64_t c = begin; c < end; ++c) out.at(r, c - begin) = x.at(r, c);
  }
  return out;
}

class SampleKernelTest : public ::testing::TestWithParam<TestDevice> {
 protected:
  // body(device, make): with values that are plain, and with some that are special.
  template <typename Body>
  void ForAll(Body body) {
    ACAN_SKIP_WITHOUT(GetParam());
    for (const int threads : GetParam().threads) {
      const auto device = GetParam().make(threads, kRoomyBytes);
      for (const MakeHost make : {&Plain, &Hard}) {
        SCOPED_TRACE(testing::Message() << threads << " threads, " << (make == &Hard));
        body(*device, make);
        if (HasFatalFailure()) return;
      }
    }
  }
};

void Launch(Device& device, Kernel kernel, const std::vector<Matrix>& m,
            const KernelScalars& scalars) {
  KernelArgs args;
  for (std::size_t i = 0; i < m.size(); ++i) args.m[i] = m[i];
  args.scalars = scalars;
  device.Launch(kernel, args);
}

// ---- group norm ----

struct Grouped {
  std::int64_t samples, positions, groups, width;
};
// One position and one group are a layer norm; leaves that end inside rows, in the middle of one,
// and rows of several leaves; more groups than one call does, and enough work that two threads
// divide a sample's groups. Widths of whole chunks of 8, and more channels than are spread at once.
const Grouped kGrouped[] = {{3, 1, 1, 200}, {2, 11, 3, 13}, {4, 49, 2, 16}, {2, 5, 2, 130},
                            {1, 1, 4, 1},   {2, 3, 40, 2},  {3, 70, 40, 9}, {2, 21, 5, 24},
                            {1, 9, 36, 40}, {2, 40, 3, 8}};

// The elements of each sample and group as one row, in the order that their sums have; and back.
Host Gathered(const Grouped& g, const Host& x) {
  Host out(g.samples * g.groups, g.positions * g.width);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (std::int64_t c = 0; c < x.cols; ++c) {
      const std::int64_t row = r / g.positions * g.groups + c / g.width;
      out.at(row, r % g.positions * g.width + c % g.width) = x.at(r, c);
    }
  }
  return out;
}

Host Scattered(const Grouped& g, const Host& rows) {
  Host out(g.samples * g.positions, g.groups * g.width);
  for (std::int64_t r = 0; r < out.rows; ++r) {
    for (std::int64_t c = 0; c < out.cols; ++c) {
      const std::int64_t row = r / g.positions * g.groups + c / g.width;
      out.at(r, c) = rows.at(row, r % g.positions * g.width + c % g.width);
    }
  }
  return out;
}

// Without a scale, which differs by channel: the layer norm of the rows that groups are.
TEST_P(SampleKernelTest, GroupNormIsTheLayerNormOfWhatAGroupHolds) {
  ForAll([](Device& device, MakeHost make) {
    for (const Grouped& g : kGrouped) {
      const std::int64_t rows = g.samples * g.positions, cols = g.groups * g.width;
      const std::int64_t all = g.samples * g.groups, size = g.positions * g.width;
      const Host x = make(rows, cols, 1), dy = Plain(rows, cols, 2);
      const OnDevice on_x = Put(device, x, 3), on_dy = Put(device, dy, 1);
      const OnDevice out = Space(device, rows, cols, 2), dx = Space(device, rows, cols);
      const OnDevice statistics = Space(device, g.samples, 2 * g.groups);
      const OnDevice again = Space(device, g.samples, 2 * g.groups);
      const KernelScalars scalars{.f = {1e-5f}, .i = {g.positions, g.groups}};
      Launch(device, Kernel::kGroupNorm, {out.matrix, statistics.matrix, on_x.matrix}, scalars);
      Launch(device, Kernel::kGroupNorm, {Matrix{}, again.matrix, on_x.matrix}, scalars);
      Launch(device, Kernel::kGroupNormGradient,
             {dx.matrix, on_x.matrix, statistics.matrix, on_dy.matrix}, scalars);

      const OnDevice row_x = Put(device, Gathered(g, x)), row_dy = Put(device, Gathered(g, dy));
      const OnDevice row_out = Space(device, all, size), row_dx = Space(device, all, size);
      const OnDevice row_statistics = Space(device, all, 2);
      Launch(device, Kernel::kNorm, {row_out.matrix, row_statistics.matrix, row_x.matrix},
             {.f = {1e-5f}, .i = {0}});
      Launch(device, Kernel::kNormGradient,
             {row_dx.matrix, row_x.matrix, row_statistics.matrix, row_dy.matrix}, {});
      Host want = Fetch(device, row_statistics);
      want.rows = g.samples;
      want.cols = 2 * g.groups;
      EXPECT_EQ(Difference(Fetch(device, statistics), want), "");
      EXPECT_EQ(Difference(Fetch(device, again), want), "") << "without a result";
      EXPECT_EQ(Difference(Fetch(device, out), Scattered(g, Fetch(device, row_out))), "");
      EXPECT_EQ(Difference(Fetch(device, dx), Scattered(g, Fetch(device, row_dx))), "");
    }
  });
}

// With a scale it is the gradient for dy * scale, which rounds in the same way before it.
TEST_P(SampleKernelTest, GroupNormGradientScalesEachChannel) {
  ForAll([](Device& device, MakeHost make) {
    for (const Grouped& g : kGrouped) {
      const std::int64_t rows = g.samples * g.positions, cols = g.groups * g.width;
      const Host x = make(rows, cols, 1), dy = Plain(rows, cols, 2), scale = Plain(1, cols, 3);
      Host scaled = dy;
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < cols; ++c) scaled.at(r, c) = dy.at(r, c) * scale.at(0, c);
      }
      const OnDevice on_x = Put(device, x, 3), on_dy = Put(device, dy, 1);
      const OnDevice on_scale = Put(device, scale, 5), on_scaled = Put(device, scaled);
      const OnDevice dx = Space(device, rows, cols), want = Space(device, rows, cols);
      const OnDevice statistics = Space(device, g.samples, 2 * g.groups);
      const KernelScalars scalars{.f = {1e-5f}, .i = {g.positions, g.groups}};
      Launch(device, Kernel::kGroupNorm, {Matrix{}, statistics.matrix, on_x.matrix}, scalars);
      Launch(device, Kernel::kGroupNormGradient,
             {dx.matrix, on_x.matrix, statistics.matrix, on_dy.matrix, on_scale.matrix}, scalars);
      Launch(device, Kernel::kGroupNormGradient,
             {want.matrix, on_x.matrix, statistics.matrix, on_scaled.matrix}, scalars);
      EXPECT_EQ(Difference(Fetch(device, dx), Fetch(device, want)), "") << g.width;
    }
  });
}

// The gradient of the scale is that of a layer norm whose rows have their sample's statistics; in
// place of x too, and with one group of channels after the other.
TEST_P(SampleKernelTest, GroupNormsScaleHasTheGradientOfALayerNorms) {
  ForAll([](Device& device, MakeHost make) {
    const Grouped g{5, 11, 3, 13};
    const std::int64_t rows = g.samples * g.positions, cols = g.groups * g.width;
    const std::int64_t group = 2 * g.positions;
    const Host x = make(rows, cols, 4), dy = Plain(rows, cols, 5);
    const Host statistics = Random(g.samples, 2 * g.groups, 6, 0.5f, 2.0f);
    const OnDevice on_x = Put(device, x, 3), on_dy = Put(device, dy, 1);
    const OnDevice on_statistics = Put(device, statistics);
    const OnDevice d_scale = Space(device, 1, cols), d_bias = Space(device, 1, cols);
    Launch(device, Kernel::kGroupNormScaleGradient,
           {d_scale.matrix, d_bias.matrix, on_x.matrix, on_statistics.matrix, on_dy.matrix},
           {.f = {}, .i = {kBlock, group, g.positions, g.groups}});
    for (std::int64_t i = 0; i < g.groups; ++i) {
      const std::int64_t begin = i * g.width, end = begin + g.width;
      Host of_rows(rows, 2);
      for (std::int64_t r = 0; r < rows; ++r) {
        for (const std::int64_t k : {0, 1}) {
          of_rows.at(r, k) = statistics.at(r / g.positions, 2 * i + k);
        }
      }
      const OnDevice on_rows = Put(device, of_rows);
      const OnDevice scale = Space(device, 1, g.width), bias = Space(device, 1, g.width);
      Launch(device, Kernel::kNormScaleGradient,
             {scale.matrix, bias.matrix, Columns(on_x.matrix, begin, end), on_rows.matrix,
              Columns(on_dy.matrix, begin, end)},
             {.f = {}, .i = {kBlock, group}});
      EXPECT_EQ(Difference(ColumnsOf(Fetch(device, d_scale), begin, end), Fetch(device, scale)),
                "");
      EXPECT_EQ(Difference(ColumnsOf(Fetch(device, d_bias), begin, end), Fetch(device, bias)), "");
    }
  });
}

TEST_P(SampleKernelTest, GroupNormWorksInPlaceAndWithSomeSamples) {
  ForAll([](Device& device, MakeHost make) {
    const Grouped g{5, 11, 3, 13};
    const std::int64_t rows = g.samples * g.positions, cols = g.groups * g.width;
    const KernelScalars scalars{.f = {1e-5f}, .i = {g.positions, g.groups}};
    const Host x = make(rows, cols, 7);
    const OnDevice scale = Put(device, Plain(1, cols, 8)), bias = Put(device, Plain(1, cols, 9));
    const OnDevice on_x = Put(device, x), out = Space(device, rows, cols);
    const OnDevice statistics = Space(device, g.samples, 2 * g.groups);
    Launch(device, Kernel::kGroupNorm,
           {out.matrix, statistics.matrix, on_x.matrix, scale.matrix, bias.matrix}, scalars);
    const OnDevice place = Space(device, rows, cols);
    device.CopyIn(tuplespace::Payload::Copy(x.v.data(), x.v.size() * 4), place.matrix);
    const OnDevice of_part = Space(device, g.samples, 2 * g.groups);
    for (const auto& [begin, end] : {std::pair{0, 2}, std::pair{2, 5}}) {
      const Matrix part = Rows(place.matrix, begin * g.positions, end * g.positions);
      Launch(device, Kernel::kGroupNorm,
             {part, Rows(of_part.matrix, begin, end), part, scale.matrix, bias.matrix}, scalars);
    }
    EXPECT_EQ(Difference(Fetch(device, place), Fetch(device, out)), "");
    EXPECT_EQ(Difference(Fetch(device, of_part), Fetch(device, statistics)), "");
  });
}

// ---- pooling over all positions ----

TEST_P(SampleKernelTest, GlobalAverageIsTheSumOfASamplesRows) {
  ForAll([](Device& device, MakeHost make) {
    const std::int64_t samples = 4, positions = 37, cols = 83;
    const std::int64_t counts[] = {37, 1, 33, 99};  // one beyond the positions
    const Host x = make(samples * positions, cols, 10);
    Host lengths(samples, 1);
    for (std::int64_t s = 0; s < samples; ++s) {
      lengths.at(s, 0) = std::bit_cast<float>(static_cast<std::int32_t>(counts[s]));
    }
    const OnDevice on_x = Put(device, x, 2), on_lengths = Put(device, lengths);
    const OnDevice out = Space(device, samples, cols, 1), sums = Space(device, 1, cols);
    const OnDevice mean = Space(device, 1, cols);
    Launch(device, Kernel::kGlobalAveragePooling, {out.matrix, on_x.matrix, on_lengths.matrix},
           {.f = {}, .i = {kBlock, positions}});
    const Host got = Fetch(device, out);
    for (std::int64_t s = 0; s < samples; ++s) {
      const std::int64_t length = std::min(counts[s], positions);
      Launch(device, Kernel::kColumnSums,
             {sums.matrix, Rows(on_x.matrix, s * positions, s * positions + length)},
             {.f = {}, .i = {kBlock}});
      Launch(device, Kernel::kDivide, {mean.matrix, sums.matrix},
             {.f = {static_cast<float>(length)}, .i = {}});
      Host want(1, cols);
      for (std::int64_t c = 0; c < cols; ++c) want.at(0, c) = got.at(s, c);
      EXPECT_EQ(Difference(want, Fetch(device, mean)), "") << "sample " << s;
    }
  });
}

// Lengths that no data should have: nothing is read beyond the sample, and nothing hangs.
TEST_P(SampleKernelTest, GlobalPoolingOfNothing) {
  ForAll([](Device& device, MakeHost) {
    const Host x = Plain(2 * 5, 3, 11), dy = Plain(2, 3, 12);
    Host lengths(2, 1);
    lengths.at(0, 0) = std::bit_cast<float>(std::int32_t{0});
    lengths.at(1, 0) = std::bit_cast<float>(std::int32_t{-7});
    const OnDevice on_x = Put(device, x), on_dy = Put(device, dy),
                   on_lengths = Put(device, lengths);
    const OnDevice out = Space(device, 2, 3), dx = Space(device, 10, 3);
    const auto all = [&](const OnDevice& of, float value) {
      const Host host = Fetch(device, of);
      for (const float got : host.v) {
        EXPECT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(value));
      }
    };
    const KernelScalars positions{.f = {}, .i = {5}};
    Launch(device, Kernel::kGlobalAveragePooling, {out.matrix, on_x.matrix, on_lengths.matrix},
           {.f = {}, .i = {kBlock, 5}});
    all(out, Canonical(NAN));
    Launch(device, Kernel::kGlobalMaxPooling, {out.matrix, on_x.matrix, on_lengths.matrix},
           positions);
    all(out, -std::numeric_limits<float>::infinity());
    Launch(device, Kernel::kGlobalAveragePoolingGradient,
           {dx.matrix, on_lengths.matrix, on_dy.matrix}, positions);
    all(dx, 0.0f);
    Launch(device, Kernel::kGlobalMaxPoolingGradient,
           {dx.matrix, on_x.matrix, on_lengths.matrix, on_dy.matrix}, positions);
    all(dx, 0.0f);
  });
}

// ---- positions ----

TEST_P(SampleKernelTest, SlicesOfAConcatenationAreItsOperands) {
  ForAll([](Device& device, MakeHost make) {
    const std::int64_t samples = 3, first = 1, second = 7, cols = 21;
    const std::int64_t both = first + second;
    const Host token = make(samples * first, cols, 13), patches = make(samples * second, cols, 14);
    const OnDevice on_token = Put(device, token, 1), on_patches = Put(device, patches, 2);
    const OnDevice joined = Space(device, samples * both, cols, 3);
    Launch(device, Kernel::kPlacePositions, {joined.matrix, on_patches.matrix},
           {.f = {}, .i = {both, second, first}});
    Launch(device, Kernel::kCopyPositions, {joined.matrix, on_token.matrix},
           {.f = {}, .i = {both, first, 0}});
    const Host got = Fetch(device, joined);
    for (std::int64_t r = 0; r < got.rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        const std::int64_t s = r / both, p = r % both;
        const float want =
            p < first ? token.at(s * first + p, c) : patches.at(s * second + p - first, c);
        ASSERT_EQ(std::bit_cast<std::uint32_t>(got.at(r, c)),
                  std::bit_cast<std::uint32_t>(Canonical(want)));
      }
    }
    const OnDevice slice = Space(device, samples * second, cols);
    Launch(device, Kernel::kPlacePositions, {slice.matrix, joined.matrix},
           {.f = {}, .i = {second, both, -first}});
    Host want = patches;
    for (float& x : want.v) x = Canonical(x);
    EXPECT_EQ(Difference(Fetch(device, slice), want), "");
  });
}

// Where nothing of x lies in out: zeros, or all stays; no place overflows.
TEST_P(SampleKernelTest, PositionsThatLieOutside) {
  ForAll([](Device& device, MakeHost) {
    const Host old = Plain(6, 5, 15);
    const OnDevice x = Put(device, Plain(4, 5, 16)), out = Space(device, 6, 5);
    for (const std::int64_t first :
         {std::int64_t{3}, std::int64_t{-2}, std::numeric_limits<std::int64_t>::min(),
          std::numeric_limits<std::int64_t>::max()}) {
      device.CopyIn(tuplespace::Payload::Copy(old.v.data(), old.v.size() * 4), out.matrix);
      Launch(device, Kernel::kCopyPositions, {out.matrix, x.matrix}, {.f = {}, .i = {3, 2, first}});
      EXPECT_EQ(Difference(Fetch(device, out), old), "") << first;
      Launch(device, Kernel::kPlacePositions, {out.matrix, x.matrix},
             {.f = {}, .i = {3, 2, first}});
      EXPECT_EQ(Difference(Fetch(device, out), Host(6, 5)), "") << first;
    }
  });
}

// ---- convolutions ----

struct Images {
  std::int64_t samples, height, width;
  std::int64_t window_height, window_width, stride_y, stride_x, padding_y, padding_x;
  std::int64_t block = kBlock;
  std::int64_t out_height() const {
    return (height + 2 * padding_y - window_height) / stride_y + 1;
  }
  std::int64_t out_width() const { return (width + 2 * padding_x - window_width) / stride_x + 1; }
  std::int64_t taps() const { return window_height * window_width; }
  std::int64_t pixels() const { return samples * height * width; }
  std::int64_t results() const { return samples * out_height() * out_width(); }
  KernelScalars scalars(std::int64_t group) const {
    return {.f = {},
            .i = {height, width, window_height, window_width, stride_y, stride_x, padding_y,
                  padding_x, block, group}};
  }
};
// ConvNeXt's window of four leaves and of one; steps that leave pixels out; a window wider than the
// image; an image that is packed in several bands.
const Images kImages[] = {{2, 9, 8, 7, 7, 1, 1, 3, 3},      {3, 8, 5, 3, 2, 3, 2, 0, 1},
                          {1, 3, 2, 5, 6, 2, 1, 2, 4},      {2, 4, 4, 1, 1, 2, 2, 0, 0},
                          {2, 9, 19, 7, 7, 1, 1, 3, 3, 64}, {1, 11, 15, 5, 5, 1, 3, 2, 2, 64},
                          {1, 48, 34, 3, 3, 1, 1, 1, 1, 32}};

// One channel of a convolution and its gradients by unfolding, products and folding.
struct Channel {
  Host out, dx, d_weight;
};
Channel ByProducts(Device& device, const Images& at, const Host& x, const Host& dy,
                   const Host& weight) {
  const OnDevice on_x = Put(device, x), on_dy = Put(device, dy), on_weight = Put(device, weight);
  const OnDevice unfolded = Space(device, at.results(), at.taps());
  const OnDevice out = Space(device, at.results(), 1), d_weight = Space(device, 1, at.taps());
  const OnDevice d_unfolded = Space(device, at.results(), at.taps());
  const OnDevice dx = Space(device, at.pixels(), 1);
  Launch(device, Kernel::kUnfold, {unfolded.matrix, on_x.matrix}, at.scalars(1));
  device.Gemm(GemmForm::kForward, Precision::kExact, at.block, unfolded.matrix, on_weight.matrix,
              out.matrix);
  device.Gemm(GemmForm::kBackward, Precision::kExact, at.block, on_dy.matrix, on_weight.matrix,
              d_unfolded.matrix);
  Launch(device, Kernel::kFold, {dx.matrix, d_unfolded.matrix}, at.scalars(1));
  device.Gemm(GemmForm::kGradient, Precision::kExact, at.block, on_dy.matrix, unfolded.matrix,
              d_weight.matrix);
  return {Fetch(device, out), Fetch(device, dx), Fetch(device, d_weight)};
}

TEST_P(SampleKernelTest, DepthwiseIsTheProductWithEachUnfoldedChannel) {
  ForAll([](Device& device, MakeHost make) {
    constexpr std::int64_t kChannels = 101;  // 64, 32 and 5
    for (const Images& at : kImages) {
      const Host x = make(at.pixels(), kChannels, 20), dy = make(at.results(), kChannels, 21);
      const Host weight = make(kChannels, at.taps(), 22);
      const OnDevice on_x = Put(device, x, 2), on_dy = Put(device, dy, 1);
      const OnDevice on_weight = Put(device, weight, 3);
      const OnDevice by_tap = Space(device, at.taps(), kChannels, 1);
      Launch(device, Kernel::kTranspose, {by_tap.matrix, on_weight.matrix}, {});
      const OnDevice out = Space(device, at.results(), kChannels, 2);
      const OnDevice dx = Space(device, at.pixels(), kChannels);
      const OnDevice d_weight = Space(device, at.taps(), kChannels, 4);
      const KernelScalars all_rows = at.scalars(at.results());
      Launch(device, Kernel::kDepthwise, {out.matrix, on_x.matrix, by_tap.matrix}, all_rows);
      Launch(device, Kernel::kDepthwiseInputGradient, {dx.matrix, on_dy.matrix, by_tap.matrix},
             all_rows);
      Launch(device, Kernel::kDepthwiseWeightGradient, {d_weight.matrix, on_x.matrix, on_dy.matrix},
             all_rows);
      const OnDevice d_rows = Space(device, kChannels, at.taps());
      Launch(device, Kernel::kTranspose, {d_rows.matrix, d_weight.matrix}, {});
      const Host got = Fetch(device, out), got_dx = Fetch(device, dx);
      const Host got_d_weight = Fetch(device, d_rows);
      for (const std::int64_t c : {0, 40, 63, 64, 95, 96, 100}) {
        Host row(1, at.taps()), got_row(1, at.taps());
        for (std::int64_t k = 0; k < at.taps(); ++k) {
          row.at(0, k) = weight.at(c, k);
          got_row.at(0, k) = got_d_weight.at(c, k);
        }
        const Channel want =
            ByProducts(device, at, ColumnsOf(x, c, c + 1), ColumnsOf(dy, c, c + 1), row);
        ASSERT_EQ(Difference(ColumnsOf(got, c, c + 1), want.out), "") << "channel " << c;
        ASSERT_EQ(Difference(ColumnsOf(got_dx, c, c + 1), want.dx), "") << "channel " << c;
        ASSERT_EQ(Difference(got_row, want.d_weight), "") << "channel " << c;
      }
    }
  });
}

// The gradient over samples in groups is the sum of its parts.
TEST_P(SampleKernelTest, ACutBetweenSamplesKeepsTheDepthwiseWeightsGradient) {
  ForAll([](Device& device, MakeHost make) {
    constexpr std::int64_t kChannels = 70;
    const Images at{3, 8, 5, 3, 2, 3, 2, 0, 1};
    const std::int64_t rows = at.out_height() * at.out_width(), pixels = at.height * at.width;
    const OnDevice x = Put(device, make(at.pixels(), kChannels, 23), 1);
    const OnDevice dy = Put(device, make(at.results(), kChannels, 24), 2);
    const auto gradient = [&](std::int64_t begin, std::int64_t end) {
      OnDevice out = Space(device, at.taps(), kChannels);
      Launch(device, Kernel::kDepthwiseWeightGradient,
             {out.matrix, Rows(x.matrix, begin * pixels, end * pixels),
              Rows(dy.matrix, begin * rows, end * rows)},
             at.scalars(rows));
      return out;
    };
    const OnDevice whole = gradient(0, 3), left = gradient(0, 2), right = gradient(2, 3);
    const OnDevice sum = Space(device, at.taps(), kChannels);
    Launch(device, Kernel::kAdd, {sum.matrix, left.matrix, right.matrix}, {});
    EXPECT_EQ(Difference(Fetch(device, sum), Fetch(device, whole)), "");
  });
}

// A convolution in groups: views of the group's channels are operands of the calls of one group.
TEST_P(SampleKernelTest, GroupsOfAConvolutionAreViewsOfChannels) {
  ForAll([](Device& device, MakeHost) {
    constexpr std::int64_t kGroups = 2, kInputs = 3, kOutputs = 5;
    const Images at{2, 9, 8, 3, 3, 2, 1, 1, 1};
    const std::int64_t depth = at.taps() * kInputs;
    const Host x = Plain(at.pixels(), kGroups * kInputs, 25);
    const Host weight = Plain(kGroups * kOutputs, depth, 26);
    const OnDevice on_x = Put(device, x, 1), on_weight = Put(device, weight);
    const OnDevice out = Space(device, at.results(), kGroups * kOutputs, 2);
    const OnDevice unfolded = Space(device, at.results(), depth);
    for (std::int64_t g = 0; g < kGroups; ++g) {
      Launch(device, Kernel::kUnfold,
             {unfolded.matrix, Columns(on_x.matrix, g * kInputs, (g + 1) * kInputs)},
             at.scalars(1));
      device.Gemm(GemmForm::kForward, Precision::kExact, kBlock, unfolded.matrix,
                  Rows(on_weight.matrix, g * kOutputs, (g + 1) * kOutputs),
                  Columns(out.matrix, g * kOutputs, (g + 1) * kOutputs));
    }
    const Host got = Fetch(device, out);
    for (std::int64_t r = 0; r < got.rows; ++r) {
      const std::int64_t area = at.out_height() * at.out_width();
      for (std::int64_t o = 0; o < got.cols; ++o) {
        double want = 0.0;
        for (std::int64_t k = 0; k < depth; ++k) {
          const std::int64_t tap = k / kInputs, i = o / kOutputs * kInputs + k % kInputs;
          const std::int64_t y = r % area / at.out_width() * 2 - 1 + tap / 3;
          const std::int64_t column = r % at.out_width() - 1 + tap % 3;
          if (y < 0 || y >= at.height || column < 0 || column >= at.width) continue;
          want += double{x.at((r / area * at.height + y) * at.width + column, i)} * weight.at(o, k);
        }
        ASSERT_NEAR(got.at(r, o), want, 1e-5) << r << ", " << o;
      }
    }
  });
}

// A convolution and its input gradient as one call: shapes of few and many channels and outputs,
// windows that step over pixels, lines of several tiles, sums of several leaves.
struct Convolved {
  Images at;
  std::int64_t channels, outputs;
};
const Convolved kConvolved[] = {
    {{2, 9, 7, 3, 3, 1, 1, 1, 1, 16}, 3, 10},   {{1, 14, 29, 3, 3, 1, 1, 1, 1, 64}, 16, 17},
    {{2, 8, 9, 3, 3, 2, 2, 1, 1, 16}, 20, 64},  {{1, 7, 26, 1, 1, 2, 2, 0, 0, 64}, 33, 100},
    {{2, 5, 6, 5, 4, 2, 3, 2, 3, 32}, 9, 130},  {{1, 6, 5, 2, 2, 3, 3, 0, 1, 16}, 70, 5},
    {{1, 30, 33, 3, 3, 1, 1, 1, 1, 64}, 64, 64}};

TEST_P(SampleKernelTest, ConvolutionsAreProductsWithUnfoldedImages) {
  ForAll([](Device& device, MakeHost make) {
    for (const auto& [at, channels, outputs] : kConvolved) {
      const std::int64_t depth = at.taps() * channels;
      SCOPED_TRACE(testing::Message() << depth << " deep, " << outputs << " outputs");
      const OnDevice x = Put(device, make(at.pixels(), channels, 40), 1);
      const OnDevice dy = Put(device, make(at.results(), outputs, 41), 2);
      const OnDevice weight = Put(device, make(outputs, depth, 42), 3);
      const OnDevice unfolded = Space(device, at.results(), depth);
      const OnDevice apart = Space(device, at.results(), outputs),
                     relu = Space(device, at.results(), outputs);
      const OnDevice together = Space(device, at.results(), outputs, 1);
      const OnDevice then = Space(device, at.results(), outputs);
      const OnDevice dx_apart = Space(device, at.pixels(), channels);
      const OnDevice dx = Space(device, at.pixels(), channels, 2);
      const KernelScalars activation{.f = {}, .i = {static_cast<std::int64_t>(Activation::kRelu)}};
      Launch(device, Kernel::kUnfold, {unfolded.matrix, x.matrix}, at.scalars(1));
      device.Gemm(GemmForm::kForward, Precision::kExact, at.block, unfolded.matrix, weight.matrix,
                  apart.matrix);
      Launch(device, Kernel::kActivation, {relu.matrix, apart.matrix}, activation);
      device.Gemm(GemmForm::kBackward, Precision::kExact, at.block, dy.matrix, weight.matrix,
                  unfolded.matrix);
      Launch(device, Kernel::kFold, {dx_apart.matrix, unfolded.matrix}, at.scalars(1));

      KernelArgs unfold, fold;
      unfold.m = {unfolded.matrix, x.matrix};
      fold.m = {dx.matrix, unfolded.matrix};
      unfold.scalars = fold.scalars = at.scalars(1);
      device.Convolve(Precision::kExact, at.block, unfold, weight.matrix, together.matrix, nullptr);
      EXPECT_EQ(Difference(Fetch(device, together), Fetch(device, apart)), "");
      Device::Following following{Kernel::kActivation, {}};
      following.args.m = {then.matrix, together.matrix};
      following.args.scalars = activation;
      device.Convolve(Precision::kExact, at.block, unfold, weight.matrix, together.matrix,
                      &following);
      EXPECT_EQ(Difference(Fetch(device, then), Fetch(device, relu)), "");
      device.ConvolveBack(Precision::kExact, at.block, dy.matrix, weight.matrix, fold);
      EXPECT_EQ(Difference(Fetch(device, dx), Fetch(device, dx_apart)), "");
    }
  });
}

TEST_P(SampleKernelTest, BiasAndResidualAreTwoAdditions) {
  ForAll([](Device& device, MakeHost make) {
    const Host sums = make(13, 37, 30), bias = make(1, 37, 31), residual = make(13, 37, 32);
    const OnDevice on_sums = Put(device, sums, 1), on_bias = Put(device, bias);
    const OnDevice on_residual = Put(device, residual, 2), out = Space(device, 13, 37);
    Launch(device, Kernel::kBiasResidual,
           {out.matrix, on_sums.matrix, on_bias.matrix, on_residual.matrix}, {});
    Host want(13, 37);
    for (std::int64_t r = 0; r < 13; ++r) {
      for (std::int64_t c = 0; c < 37; ++c) {
        const float z = sums.at(r, c) + bias.at(0, c);
        want.at(r, c) = Canonical(z + residual.at(r, c));
      }
    }
    EXPECT_EQ(Difference(Fetch(device, out), want), "");
  });
}

INSTANTIATE_TEST_SUITE_P(Devices, SampleKernelTest, ::testing::ValuesIn(AllTestDevices()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace acan::test
