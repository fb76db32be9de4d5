// The kernels over positions of samples on every device, compared bit for bit with the calls whose
// order they follow: group norm is the layer norm over each group's elements, and global pooling is
// a sample's column sums. Splitting at samples changes nothing.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "sample_kernel_cases.h"

namespace acan::test {
namespace {

// ---- group norm ----

struct Grouped {
  std::int64_t samples, positions, groups, width;
};
// One position and one group make a layer norm; leaves that end at the end of a row or inside one,
// and rows of several leaves; more groups than one call handles, and enough work that two threads
// share a sample's groups; widths that are multiples of 8, and more channels than are spread at
// once; groups as large as the rows that many threads share, and of one element.
const Grouped kGrouped[] = {{3, 1, 1, 200}, {2, 11, 3, 13}, {4, 49, 2, 16},  {2, 5, 2, 130},
                            {1, 1, 4, 1},   {2, 3, 40, 2},  {3, 70, 40, 9},  {2, 21, 5, 24},
                            {1, 9, 36, 40}, {2, 40, 3, 8},  {1, 301, 2, 17}, {2, 1, 3, 1}};

// The elements of each sample and group as one row, in the order in which they are summed; and the
// inverse.
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

// Without a scale, which differs by channel, group norm equals the layer norm of rows that each
// hold one group.
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

// With a scale, it equals the gradient for dy * scale, whose rounding is the same.
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

// The gradient of the scale equals that of a layer norm whose rows have their sample's statistics;
// also when it overwrites x, and when the groups of channels come one after the other.
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
    const std::int64_t counts[] = {37, 1, 33, 99};  // one larger than the number of positions
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

// Lengths that are out of range: nothing outside the sample is read, and nothing hangs.
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

// No position of x falls into out: placing writes zeros and copying changes nothing. Nothing
// overflows.
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

INSTANTIATE_TEST_SUITE_P(Devices, SampleKernelTest, ::testing::ValuesIn(KernelTestDevices()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace acan::test
