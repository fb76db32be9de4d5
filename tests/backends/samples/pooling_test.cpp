// Pooling and folding over windows on every device, compared bit for bit with their definitions:
// chains, in ascending order, over the taps of a window or over the windows that contain a pixel.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "reference.h"

namespace acan::test {
namespace {

struct Windows {
  std::int64_t samples, height, width;
  std::int64_t window_height, window_width, stride_y, stride_x, padding_y, padding_x;
  std::int64_t out_height() const {
    return (height + 2 * padding_y - window_height) / stride_y + 1;
  }
  std::int64_t out_width() const { return (width + 2 * padding_x - window_width) / stride_x + 1; }
  std::int64_t pixels() const { return samples * height * width; }
  std::int64_t results() const { return samples * out_height() * out_width(); }
  KernelScalars scalars() const {
    return {.f = {},
            .i = {height, width, window_height, window_width, stride_y, stride_x, padding_y,
                  padding_x}};
  }
  float area() const { return static_cast<float>(window_height * window_width); }
};
// Overlapping windows, separate ones, and ones that skip pixels; images with more rows than one
// call handles at once; a window wider than the image; one pixel.
const Windows kWindows[] = {{2, 37, 9, 3, 3, 2, 2, 1, 1}, {1, 20, 6, 3, 2, 1, 1, 1, 0},
                            {3, 8, 8, 2, 2, 2, 2, 0, 0},  {2, 19, 5, 2, 1, 3, 2, 0, 0},
                            {1, 3, 2, 5, 6, 2, 1, 2, 4},  {2, 1, 1, 1, 1, 1, 1, 0, 0}};
// Below, at and above the number of channels that are summed in parallel.
constexpr std::array<std::int64_t, 4> kPooledChannels = {3, 32, 64, 103};

// Few distinct values, so that windows contain equal elements; a difficult value in every seventh
// place.
Host Steps(std::int64_t rows, std::int64_t cols, std::uint32_t seed) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::array<float, 5> hard = {-0.0f, kInfinity, -kInfinity, NAN, 1e-41f};
  Host host = Random(rows, cols, seed, -3.0f, 3.0f);
  for (float& x : host.v) x = std::floor(x);
  for (std::size_t i = 6; i < host.v.size(); i += 7) host.v[i] = hard[i / 7 % hard.size()];
  return host;
}

// Calls body(result row, image row, tap) for each tap inside the image, in ascending order.
template <typename Body>
void ForEachTap(const Windows& at, Body body) {
  for (std::int64_t r = 0; r < at.results(); ++r) {
    const std::int64_t place = r % (at.out_height() * at.out_width());
    const std::int64_t image = r / (at.out_height() * at.out_width());
    for (std::int64_t tap = 0; tap < at.window_height * at.window_width; ++tap) {
      const std::int64_t y =
          place / at.out_width() * at.stride_y - at.padding_y + tap / at.window_width;
      const std::int64_t x =
          place % at.out_width() * at.stride_x - at.padding_x + tap % at.window_width;
      if (y < 0 || y >= at.height || x < 0 || x >= at.width) continue;
      body(r, (image * at.height + y) * at.width + x, tap);
    }
  }
}

Host Stored(Host host) {
  for (float& x : host.v) x = Canonical(x);
  return host;
}

// The largest element of each window and its position: the first of equal ones, the last NaN.
struct Largest {
  Host value;
  std::vector<std::int64_t> pixel;
};
Largest LargestOf(const Windows& at, const Host& x) {
  Largest out{Host(at.results(), x.cols), {}};
  for (float& each : out.value.v) each = -std::numeric_limits<float>::infinity();
  out.pixel.assign(out.value.v.size(), -1);
  ForEachTap(at, [&](std::int64_t r, std::int64_t pixel, std::int64_t) {
    for (std::int64_t c = 0; c < x.cols; ++c) {
      const float value = x.at(pixel, c);
      std::int64_t& of = out.pixel[static_cast<std::size_t>(r * x.cols + c)];
      if (of >= 0 && !(value > out.value.at(r, c)) && !std::isnan(value)) continue;
      out.value.at(r, c) = value;
      of = pixel;
    }
  });
  return out;
}

class PoolingTest : public ::testing::TestWithParam<TestDevice> {
 protected:
  // Calls body(device, images, channels).
  template <typename Body>
  void ForAll(Body body) {
    ACAN_SKIP_WITHOUT(GetParam());
    for (const int threads : GetParam().threads) {
      const auto device = GetParam().make(threads, kRoomyBytes);
      for (const Windows& at : kWindows) {
        for (const std::int64_t channels : kPooledChannels) {
          SCOPED_TRACE(testing::Message() << threads << " threads, " << at.height << " x "
                                          << at.width << ", " << channels << " channels");
          body(*device, at, channels);
        }
      }
    }
  }
};

Host ResultOf(Device& device, Kernel kernel, const Windows& at, const std::vector<Host>& operands,
              std::int64_t rows, std::int64_t cols) {
  const OnDevice out = Space(device, rows, cols, 1);
  std::vector<OnDevice> on_device;
  KernelArgs args;
  args.m[0] = out.matrix;
  args.scalars = at.scalars();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    on_device.push_back(Put(device, operands[i], static_cast<std::int64_t>(i) + 2));
    args.m[i + 1] = on_device.back().matrix;
  }
  device.Launch(kernel, args);
  return Fetch(device, out);
}

TEST_P(PoolingTest, Maximum) {
  ForAll([](Device& device, const Windows& at, std::int64_t channels) {
    const Host x = Steps(at.pixels(), channels, 1), dy = Random(at.results(), channels, 2);
    const Largest largest = LargestOf(at, x);
    Host dx(at.pixels(), channels);
    for (std::int64_t r = 0; r < at.results(); ++r) {
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::int64_t pixel = largest.pixel[static_cast<std::size_t>(r * channels + c)];
        if (pixel >= 0) dx.at(pixel, c) = dx.at(pixel, c) + dy.at(r, c);
      }
    }
    EXPECT_EQ(Difference(ResultOf(device, Kernel::kMaxPooling, at, {x}, at.results(), channels),
                         Stored(largest.value)),
              "");
    EXPECT_EQ(
        Difference(
            ResultOf(device, Kernel::kMaxPoolingGradient, at, {x, dy}, at.pixels(), channels), dx),
        "");
  });
}

// Of equal pixels the first one gets the gradient, whatever their value is.
TEST_P(PoolingTest, MaximumOfPixelsThatAreAllMinusInfinity) {
  ForAll([](Device& device, const Windows& at, std::int64_t channels) {
    Host x(at.pixels(), channels), dx(at.pixels(), channels);
    for (float& each : x.v) each = -INFINITY;
    const Host dy = Random(at.results(), channels, 2);
    std::vector<bool> has_first(static_cast<std::size_t>(at.results()));
    ForEachTap(at, [&](std::int64_t r, std::int64_t pixel, std::int64_t) {
      if (has_first[static_cast<std::size_t>(r)]) return;
      has_first[static_cast<std::size_t>(r)] = true;
      for (std::int64_t c = 0; c < channels; ++c) dx.at(pixel, c) = dx.at(pixel, c) + dy.at(r, c);
    });
    EXPECT_EQ(
        Difference(
            ResultOf(device, Kernel::kMaxPoolingGradient, at, {x, dy}, at.pixels(), channels), dx),
        "");
  });
}

TEST_P(PoolingTest, Average) {
  ForAll([](Device& device, const Windows& at, std::int64_t channels) {
    const Host x = Steps(at.pixels(), channels, 3), dy = Steps(at.results(), channels, 4);
    Host out(at.results(), channels), dx(at.pixels(), channels);
    ForEachTap(at, [&](std::int64_t r, std::int64_t pixel, std::int64_t) {
      for (std::int64_t c = 0; c < channels; ++c) {
        out.at(r, c) = out.at(r, c) + x.at(pixel, c);
        dx.at(pixel, c) = dx.at(pixel, c) + dy.at(r, c);
      }
    });
    for (float& each : out.v) each /= at.area();
    for (float& each : dx.v) each /= at.area();
    EXPECT_EQ(Difference(ResultOf(device, Kernel::kAveragePooling, at, {x}, at.results(), channels),
                         Stored(out)),
              "");
    EXPECT_EQ(Difference(ResultOf(device, Kernel::kAveragePoolingGradient, at, {dy}, at.pixels(),
                                  channels),
                         Stored(dx)),
              "");
  });
}

// Unfolding and its gradient: the taps on a pixel ascend when the windows descend.
TEST_P(PoolingTest, UnfoldAndFold) {
  ForAll([](Device& device, const Windows& at, std::int64_t channels) {
    const std::int64_t cols = at.window_height * at.window_width * channels;
    const Host x = Steps(at.pixels(), channels, 5), dy = Random(at.results(), cols, 6);
    Host unfolded(at.results(), cols), dx(at.pixels(), channels);
    std::vector<std::array<std::int64_t, 3>> taps;
    ForEachTap(at, [&](std::int64_t r, std::int64_t pixel, std::int64_t tap) {
      taps.push_back({r, pixel, tap});
      for (std::int64_t c = 0; c < channels; ++c) {
        unfolded.at(r, tap * channels + c) = x.at(pixel, c);
      }
    });
    for (std::size_t i = taps.size(); i-- > 0;) {
      for (std::int64_t c = 0; c < channels; ++c) {
        float& sum = dx.at(taps[i][1], c);
        sum = sum + dy.at(taps[i][0], taps[i][2] * channels + c);
      }
    }
    EXPECT_EQ(Difference(ResultOf(device, Kernel::kUnfold, at, {x}, at.results(), cols),
                         Stored(unfolded)),
              "");
    EXPECT_EQ(Difference(ResultOf(device, Kernel::kFold, at, {dy}, at.pixels(), channels), dx), "");
  });
}

INSTANTIATE_TEST_SUITE_P(Devices, PoolingTest, ::testing::ValuesIn(KernelTestDevices()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace acan::test
