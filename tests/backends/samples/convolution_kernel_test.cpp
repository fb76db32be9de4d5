// Convolutions on every device, compared bit for bit with the calls whose order they follow. A
// depthwise convolution equals the product with each unfolded channel, a grouped one works on views
// of channels, and a convolution in one call equals the product with the unfolded images. Splitting
// at samples changes nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "sample_kernel_cases.h"

namespace acan::test {
namespace {

class ConvolutionKernelTest : public SampleKernelTest {};

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
// ConvNeXt's 7 x 7 window as four leaves and as one; strides that skip pixels; a window wider than
// the image; an image that is packed in several bands.
const Images kImages[] = {{2, 9, 8, 7, 7, 1, 1, 3, 3},       {3, 8, 5, 3, 2, 3, 2, 0, 1},
                          {1, 3, 2, 5, 6, 2, 1, 2, 4},       {2, 4, 4, 1, 1, 2, 2, 0, 0},
                          {2, 9, 19, 7, 7, 1, 1, 3, 3, 64},  {1, 11, 15, 5, 5, 1, 3, 2, 2, 64},
                          {1, 48, 34, 3, 3, 1, 1, 1, 1, 32}, {1, 5, 26, 5, 5, 1, 1, 2, 2},
                          {1, 5, 39, 3, 7, 2, 2, 1, 3},      {1, 5, 23, 3, 3, 2, 2, 1, 1}};

// A convolution of one channel and its gradients, computed by unfolding, products and folding.
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

TEST_P(ConvolutionKernelTest, DepthwiseIsTheProductWithEachUnfoldedChannel) {
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

// Whether the device computes a convolution's weight gradient without an unfolded image.
bool HasWeightGradients(const Device& device) {
  return device.info().vector_isa == "avx512" || device.info().vector_isa == "avx2";
}

// The gradient over groups of samples is the sum of its parts.
TEST_P(ConvolutionKernelTest, ACutBetweenSamplesKeepsTheDepthwiseWeightsGradient) {
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

// Grouped convolution: the operands of the calls for one group are views of its channels.
TEST_P(ConvolutionKernelTest, GroupsOfAConvolutionAreViewsOfChannels) {
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

// A convolution and its input gradient as one call: few and many channels and outputs, windows that
// skip pixels, lines of several tiles, sums of several leaves.
struct Convolved {
  Images at;
  std::int64_t channels, outputs;
};
const Convolved kConvolved[] = {
    {{2, 9, 7, 3, 3, 1, 1, 1, 1, 16}, 3, 10},   {{1, 14, 29, 3, 3, 1, 1, 1, 1, 64}, 16, 17},
    {{2, 8, 9, 3, 3, 2, 2, 1, 1, 16}, 20, 64},  {{1, 7, 26, 1, 1, 2, 2, 0, 0, 64}, 33, 100},
    {{2, 5, 6, 5, 4, 2, 3, 2, 3, 32}, 9, 130},  {{1, 6, 5, 2, 2, 3, 3, 0, 1, 16}, 70, 5},
    {{1, 30, 33, 3, 3, 1, 1, 1, 1, 64}, 64, 64}};

TEST_P(ConvolutionKernelTest, ConvolutionsAreProductsWithUnfoldedImages) {
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

// A convolution is computed in bands of lines. What touches other lines must wait for all of them.
TEST_P(ConvolutionKernelTest, WhatFollowsMayReadOtherLinesOfTheResult) {
  ForAll([](Device& device, MakeHost make) {
    const Images at{1, 48, 34, 3, 3, 1, 1, 1, 1, 64};
    constexpr std::int64_t kChannels = 64, kOutputs = 8;
    const OnDevice x = Put(device, make(at.pixels(), kChannels, 43));
    const OnDevice weight = Put(device, make(kOutputs, at.taps() * kChannels, 44));
    const OnDevice unfolded = Space(device, at.results(), at.taps() * kChannels);
    const Host nothing(at.results(), kOutputs);
    const OnDevice apart = Put(device, nothing), together = Put(device, nothing);
    const OnDevice shifted = Put(device, nothing), shifted_together = Put(device, nothing);
    const KernelScalars shift{.f = {}, .i = {at.results(), at.results(), -1}};
    Launch(device, Kernel::kUnfold, {unfolded.matrix, x.matrix}, at.scalars(1));
    device.Gemm(GemmForm::kForward, Precision::kExact, at.block, unfolded.matrix, weight.matrix,
                apart.matrix);
    Launch(device, Kernel::kPlacePositions, {shifted.matrix, apart.matrix}, shift);

    KernelArgs unfold;
    unfold.m = {unfolded.matrix, x.matrix};
    unfold.scalars = at.scalars(1);
    Device::Following following{Kernel::kPlacePositions, {}};
    following.args.m = {shifted_together.matrix, together.matrix};
    following.args.scalars = shift;
    device.Convolve(Precision::kExact, at.block, unfold, weight.matrix, together.matrix,
                    &following);
    EXPECT_EQ(Difference(Fetch(device, shifted_together), Fetch(device, shifted)), "");
  });
}

// The weight gradient as one call: lines of several whole vectors and of none; outputs of several
// tiles; groups of several images, one image, part of a leaf, and several bands; one pixel, channel
// and output; a window wider than its image; strides that skip pixels.
struct Weighed {
  Images at;
  std::int64_t channels, outputs, group_samples;
};
const Weighed kWeighed[] = {
    {{1, 1, 1, 1, 1, 1, 1, 0, 0, 16}, 1, 1, 1},     {{9, 1, 1, 1, 1, 1, 1, 0, 0, 16}, 5, 3, 16},
    {{35, 2, 2, 2, 2, 1, 1, 1, 1, 64}, 1, 7, 4},    {{5, 28, 28, 3, 3, 1, 1, 1, 1, 64}, 16, 16, 1},
    {{3, 14, 14, 3, 3, 2, 2, 1, 1, 64}, 32, 64, 1}, {{7, 7, 7, 3, 3, 1, 1, 1, 1, 64}, 64, 29, 1},
    {{4, 9, 8, 1, 1, 2, 2, 0, 0, 32}, 33, 30, 1},   {{2, 5, 6, 5, 4, 2, 3, 2, 3, 32}, 9, 10, 2},
    {{3, 3, 2, 5, 6, 2, 1, 2, 4, 16}, 3, 5, 1},     {{1, 40, 34, 3, 3, 1, 1, 1, 1, 16}, 20, 11, 1},
    {{6, 8, 8, 3, 3, 1, 1, 1, 1, 64}, 1, 24, 6}};

TEST_P(ConvolutionKernelTest, WeightGradientsAreSumsOfProductsOfGroups) {
  ForAll([](Device& device, MakeHost make) {
    for (const auto& [at, channels, outputs, group_samples] : kWeighed) {
      const std::int64_t depth = at.taps() * channels;
      const std::int64_t group = group_samples * at.out_height() * at.out_width();
      SCOPED_TRACE(testing::Message() << depth << " deep, " << outputs << " outputs");
      const OnDevice x = Put(device, make(at.pixels(), channels, 50), 1);
      const OnDevice dy = Put(device, make(at.results(), outputs, 51), 2);
      const OnDevice unfolded = Space(device, at.results(), depth);
      const OnDevice together = Space(device, outputs, depth, 3);
      KernelArgs unfold;
      unfold.m = {unfolded.matrix, x.matrix};
      unfold.scalars = at.scalars(1);
      if (!device.ConvolveWeights(Precision::kExact, at.block, group, unfold, dy.matrix,
                                  together.matrix)) {
        EXPECT_FALSE(HasWeightGradients(device));
        continue;
      }
      Launch(device, Kernel::kUnfold, {unfolded.matrix, x.matrix}, at.scalars(1));
      std::vector<OnDevice> sums;
      for (std::int64_t row = 0; row < at.results(); row += group) {
        const std::int64_t end = std::min(row + group, at.results());
        sums.push_back(Space(device, outputs, depth));
        device.Gemm(GemmForm::kGradient, Precision::kExact, at.block, Rows(dy.matrix, row, end),
                    Rows(unfolded.matrix, row, end), sums.back().matrix);
      }
      for (std::size_t size = 1; size < sums.size(); size *= 2) {
        for (std::size_t left = 0; left + size < sums.size(); left += 2 * size) {
          const Matrix& sum = sums[left].matrix;
          Launch(device, Kernel::kAdd, {sum, sum, sums[left + size].matrix}, {});
        }
      }
      EXPECT_EQ(Difference(Fetch(device, together), Fetch(device, sums.front())), "");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Devices, ConvolutionKernelTest, ::testing::ValuesIn(KernelTestDevices()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace acan::test
