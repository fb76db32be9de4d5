// Norms, sums over rows and clipping on every device, bit for bit: the order of their sums (lanes,
// row groups) compared with plain definitions, and calls split at groups compared with the whole.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "row_kernel_cases.h"

namespace acan::test {
namespace {

// ---- norms ----

struct NormWant {
  Host out, statistics;
};

NormWant NormOf(const Host& x, const Host* scale, const Host* bias, bool centered) {
  NormWant want{Host(x.rows, x.cols), Host(x.rows, 2)};
  const auto count = static_cast<float>(x.cols);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const float mean =
        centered ? LaneSum(x.cols, [&](float s, auto c) { return s + x.at(r, c); }) / count : 0.0f;
    const float squares = LaneSum(x.cols, [&](float s, auto c) {
      const float d = x.at(r, c) - mean;
      return std::fma(d, d, s);
    });
    const float inverse = 1.0f / std::sqrt(squares / count + 1e-5f);
    want.statistics.at(r, 0) = Canonical(mean);
    want.statistics.at(r, 1) = Canonical(inverse);
    for (std::int64_t c = 0; c < x.cols; ++c) {
      float y = (x.at(r, c) - mean) * inverse;
      if (scale != nullptr && bias != nullptr) {
        y = std::fma(y, scale->at(0, c), bias->at(0, c));
      } else if (scale != nullptr) {
        y = y * scale->at(0, c);
      } else if (bias != nullptr) {
        y = y + bias->at(0, c);
      }
      want.out.at(r, c) = Canonical(y);
    }
  }
  return want;
}

TEST_P(RowKernelTest, Norms) {
  ForAll([](Device& device, const Case& at) {
    const Launcher launch{device};
    const Host scale = Random(1, at.cols, 2), bias = Random(1, at.cols, 3);
    const OnDevice scales = Put(device, scale), biases = Put(device, bias);
    for (const int which : {0, 1, 2, 3, 4, 5}) {
      const std::int64_t kind = which % 2;
      const bool scaled = which != 4, biased = which < 2 || which == 4;
      const Host x = which < 2 ? Hard(at.rows, at.cols, 1) : Random(at.rows, at.cols, 1);
      const NormWant want =
          NormOf(x, scaled ? &scale : nullptr, biased ? &bias : nullptr, kind == 0);
      const OnDevice in = Put(device, x, at.pad), statistics = Space(device, at.rows, 2);
      launch(Kernel::kNorm,
             {in.matrix, statistics.matrix, in.matrix, scaled ? scales.matrix : Matrix{},
              biased ? biases.matrix : Matrix{}},
             {.f = {1e-5f}, .i = {kind}});
      EXPECT_EQ(Difference(Fetch(device, statistics), want.statistics), "") << which;
      EXPECT_EQ(Difference(Fetch(device, in), want.out), "") << which << ", in place";
    }
  });
}

TEST_P(RowKernelTest, NormGradients) {
  ForAll([](Device& device, const Case& at) {
    const Launcher launch{device};
    for (const int which : {0, 1, 2, 3}) {
      const bool centered = which % 2 == 0, scaled = which < 2;
      const Host x = which == 3 ? Hard(at.rows, at.cols, 4) : Random(at.rows, at.cols, 4);
      const Host statistics = Random(at.rows, 2, 5, 0.25f, 2.0f);
      const Host dy = Random(at.rows, at.cols, 6), scale = Random(1, at.cols, 7);
      const auto h = [&](auto r, auto c) {
        return (x.at(r, c) - statistics.at(r, 0)) * statistics.at(r, 1);
      };
      const auto g = [&](auto r, auto c) {
        return scaled ? dy.at(r, c) * scale.at(0, c) : dy.at(r, c);
      };
      Host want(at.rows, at.cols);
      for (std::int64_t r = 0; r < at.rows; ++r) {
        const auto count = static_cast<float>(at.cols);
        const float sum = LaneSum(at.cols, [&](float s, auto c) { return s + g(r, c); }) / count;
        const float dot =
            LaneSum(at.cols, [&](float s, auto c) { return std::fma(g(r, c), h(r, c), s); }) /
            count;
        for (std::int64_t c = 0; c < at.cols; ++c) {
          const float less = centered ? g(r, c) - sum : g(r, c);
          want.at(r, c) = Canonical(std::fma(-h(r, c), dot, less) * statistics.at(r, 1));
        }
      }
      const OnDevice xs = Put(device, x, at.pad), rows = Put(device, statistics);
      const OnDevice dys = Put(device, dy), scales = Put(device, scale);
      launch(Kernel::kNormGradient,
             {dys.matrix, xs.matrix, rows.matrix, dys.matrix, scaled ? scales.matrix : Matrix{}},
             {.f = {}, .i = {centered ? 0 : 1}});
      EXPECT_EQ(Difference(Fetch(device, dys), want), "") << which << ", in place of dy";
    }
  });
}

// ---- sums over rows in groups ----

TEST_P(RowKernelTest, SumsOverRowsAreInGroups) {
  ForAll([](Device& device, const Case& at) {
    const Launcher launch{device};
    for (const std::int64_t group : {16, 40, 50, 1000}) {
      const Host x = Hard(at.rows, at.cols, 8), y = Random(at.rows, at.cols, 9);
      const Host statistics = Random(at.rows, 2, 10, 0.25f, 2.0f);
      const auto sums = [&](const std::function<float(float, std::int64_t, std::int64_t)>& fold) {
        return Make(1, at.cols, [&](auto, auto c) {
          return GroupSum(at.rows, group, 16, [&](float s, auto r) { return fold(s, r, c); });
        });
      };
      const Host plain = sums([&](float s, auto r, auto c) { return s + x.at(r, c); });
      const Host dots =
          sums([&](float s, auto r, auto c) { return std::fma(x.at(r, c), y.at(r, c), s); });
      const Host scale = sums([&](float s, auto r, auto c) {
        const float h = (x.at(r, c) - statistics.at(r, 0)) * statistics.at(r, 1);
        return std::fma(y.at(r, c), h, s);
      });
      const Host bias = sums([&](float s, auto r, auto c) { return s + y.at(r, c); });
      const OnDevice xs = Put(device, x, at.pad), ys = Put(device, y);
      const OnDevice rows = Put(device, statistics);
      const OnDevice out = Space(device, 1, at.cols), second = Space(device, 1, at.cols);
      const KernelScalars scalars{.f = {}, .i = {16, group}};
      launch(Kernel::kColumnDots, {out.matrix, xs.matrix}, scalars);
      EXPECT_EQ(Difference(Fetch(device, out), plain), "") << group;
      launch(Kernel::kColumnDots, {out.matrix, xs.matrix, ys.matrix}, scalars);
      EXPECT_EQ(Difference(Fetch(device, out), dots), "") << group;
      launch(Kernel::kNormScaleGradient,
             {out.matrix, second.matrix, xs.matrix, rows.matrix, ys.matrix}, scalars);
      EXPECT_EQ(Difference(Fetch(device, out), scale), "") << group;
      EXPECT_EQ(Difference(Fetch(device, second), bias), "") << group;
      launch(Kernel::kNormScaleGradient, {out.matrix, {}, xs.matrix, rows.matrix, ys.matrix},
             scalars);
      EXPECT_EQ(Difference(Fetch(device, out), scale), "") << group << ", without a bias";
    }
  });
}

TEST_P(RowKernelTest, ACutBetweenGroupsChangesNoBit) {
  ACAN_SKIP_WITHOUT(GetParam());
  const auto device = GetParam().make(1, kRoomyBytes);
  const Launcher launch{*device};
  const Host x = Random(350, 70, 11), y = Random(350, 70, 12);  // seven samples of 50 positions
  const OnDevice xs = Put(*device, x), ys = Put(*device, y);
  const OnDevice left = Space(*device, 1, 70), right = Space(*device, 1, 70);
  const KernelScalars scalars{.f = {}, .i = {16, 50}};
  launch(Kernel::kColumnDots, {left.matrix, xs.matrix, ys.matrix}, scalars);
  const Host whole = Fetch(*device, left);
  launch(Kernel::kColumnDots, {left.matrix, Rows(xs.matrix, 0, 200), Rows(ys.matrix, 0, 200)},
         scalars);
  launch(Kernel::kColumnDots, {right.matrix, Rows(xs.matrix, 200, 350), Rows(ys.matrix, 200, 350)},
         scalars);
  launch(Kernel::kAdd, {left.matrix, left.matrix, right.matrix}, {});
  EXPECT_EQ(Difference(Fetch(*device, left), whole), "");
  // With one position per sample, these are ordinary column sums.
  launch(Kernel::kColumnDots, {left.matrix, xs.matrix}, {.f = {}, .i = {16, 16}});
  launch(Kernel::kColumnSums, {right.matrix, xs.matrix}, {.f = {}, .i = {16}});
  EXPECT_EQ(Difference(Fetch(*device, left), Fetch(*device, right)), "");
}

// A GPU assigns several threads to a column: numbers of rows around a block's leaves, groups and
// rounds.
TEST_P(RowKernelTest, SumsOverManyRows) {
  ACAN_SKIP_WITHOUT(GetParam());
  if (DiffersByProducts(GetParam())) return;
  const auto device = GetParam().make(GetParam().threads.front(), kRoomyBytes);
  const Launcher launch{*device};
  constexpr std::int64_t kBlock = 16;
  constexpr Case kRows[] = {{15, 1, 0},   {33, 31, 0},  {511, 33, 1}, {513, 9, 0},
                            {1025, 8, 3}, {5003, 3, 0}, {70, 8192, 0}};
  for (const Case& at : kRows) {
    const Host x = Hard(at.rows, at.cols, 41), y = Random(at.rows, at.cols, 42);
    const Host statistics = Random(2, at.cols, 43, 0.25f, 2.0f);
    const OnDevice xs = Put(*device, x, at.pad), ys = Put(*device, y);
    const OnDevice columns = Put(*device, statistics), out = Space(*device, 1, at.cols);
    const OnDevice second = Space(*device, 1, at.cols);
    for (const std::int64_t group : {std::int64_t{37}, at.rows}) {
      SCOPED_TRACE(::testing::Message() << at.rows << " rows in groups of " << group);
      const auto sums = [&](const std::function<float(float, std::int64_t, std::int64_t)>& fold) {
        return Make(1, at.cols, [&](auto, auto c) {
          return GroupSum(at.rows, group, kBlock, [&](float s, auto r) { return fold(s, r, c); });
        });
      };
      const Host dots =
          sums([&](float s, auto r, auto c) { return std::fma(x.at(r, c), y.at(r, c), s); });
      const Host squares = sums([&](float s, auto r, auto c) {
        const float d = x.at(r, c) - statistics.at(0, c);
        return std::fma(d, d, s);
      });
      const Host scale = sums([&](float s, auto r, auto c) {
        return std::fma(y.at(r, c), (x.at(r, c) - statistics.at(0, c)) * statistics.at(1, c), s);
      });
      const Host bias = sums([&](float s, auto r, auto c) { return s + y.at(r, c); });
      const KernelScalars scalars{.f = {}, .i = {kBlock, group}};
      launch(Kernel::kColumnDots, {out.matrix, xs.matrix, ys.matrix}, scalars);
      EXPECT_EQ(Difference(Fetch(*device, out), dots), "");
      Matrix means = columns.matrix;
      means.rows = 1;
      launch(Kernel::kColumnSquares, {out.matrix, xs.matrix, means}, scalars);
      EXPECT_EQ(Difference(Fetch(*device, out), squares), "");
      launch(Kernel::kColumnNormSums,
             {out.matrix, second.matrix, xs.matrix, columns.matrix, ys.matrix}, scalars);
      EXPECT_EQ(Difference(Fetch(*device, out), scale), "");
      EXPECT_EQ(Difference(Fetch(*device, second), bias), "");
    }
    for (const std::int64_t block : {kBlock, std::int64_t{128}, std::int64_t{1} << 40}) {
      const Host plain = Make(1, at.cols, [&](auto, auto c) {
        const std::int64_t leaf = std::min(block, at.rows);
        return GroupSum(at.rows, leaf, leaf, [&](float s, auto r) { return s + x.at(r, c); });
      });
      launch(Kernel::kColumnSums, {out.matrix, xs.matrix}, {.f = {}, .i = {block}});
      EXPECT_EQ(Difference(Fetch(*device, out), plain), "") << at.rows << ", leaves of " << block;
    }
  }
}

TEST_P(RowKernelTest, SumsOfManyColumns) {
  ACAN_SKIP_WITHOUT(GetParam());
  if (DiffersByProducts(GetParam())) return;
  const auto device = GetParam().make(GetParam().threads.front(), kRoomyBytes);
  const Host x = Random(70, 32771, 44);
  const OnDevice xs = Put(*device, x, 1), out = Space(*device, 1, x.cols);
  Launcher{*device}(Kernel::kColumnSums, {out.matrix, xs.matrix}, {.f = {}, .i = {64}});
  const Host want = Make(1, x.cols, [&](auto, auto c) {
    return GroupSum(x.rows, 64, 64, [&](float s, auto r) { return s + x.at(r, c); });
  });
  EXPECT_EQ(Difference(Fetch(*device, out), want), "");
}

// ---- clipping ----

TEST_P(RowKernelTest, SquaresAndTheFactorThatClips) {
  ForAll([](Device& device, const Case& at) {
    const Launcher launch{device};
    const Host x = Random(at.rows, at.cols, 22);
    const Host want = Make(at.rows, 1, [&](auto r, auto) {
      return LaneSum(at.cols, [&](float s, auto c) { return std::fma(x.at(r, c), x.at(r, c), s); });
    });
    const OnDevice in = Put(device, x, at.pad), squares = Space(device, at.rows, 1);
    const OnDevice sum = Space(device, 1, 1), factor = Space(device, 1, 1);
    launch(Kernel::kRowSquares, {squares.matrix, in.matrix}, {});
    EXPECT_EQ(Difference(Fetch(device, squares), want), "");
    launch(Kernel::kColumnDots, {sum.matrix, squares.matrix}, {.f = {}, .i = {16, 1 << 20}});
    for (const float limit : {0.5f, 1e9f}) {
      launch(Kernel::kClipFactor, {factor.matrix, sum.matrix}, {.f = {limit, 1e-6f}, .i = {}});
      const float norm = std::sqrt(Fetch(device, sum).v[0]);
      const float least = std::min(1.0f, limit / (norm + 1e-6f));
      EXPECT_EQ(Fetch(device, factor).v[0], least);
      const OnDevice scaled = Space(device, at.rows, at.cols);
      launch(Kernel::kScaleBy, {scaled.matrix, in.matrix, factor.matrix}, {});
      EXPECT_EQ(
          Difference(Fetch(device, scaled),
                     Make(at.rows, at.cols, [&](auto r, auto c) { return x.at(r, c) * least; })),
          "");
    }
  });
}

// min(1, limit / norm) also where the norm is zero or not finite: PyTorch's clip_grad_norm_ does
// the same, and a NaN must stay visible.
TEST_P(RowKernelTest, TheFactorThatClipsUnusualNorms) {
  ACAN_SKIP_WITHOUT(GetParam());
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto device = GetParam().make(GetParam().threads.front(), kRoomyBytes);
  const auto factor = [&device](float squares) {
    const OnDevice sum = Put(*device, Make(1, 1, [squares](auto, auto) { return squares; }));
    const OnDevice out = Space(*device, 1, 1);
    Launcher{*device}(Kernel::kClipFactor, {out.matrix, sum.matrix}, {.f = {0.5f, 1e-6f}, .i = {}});
    return Fetch(*device, out).v[0];
  };
  EXPECT_EQ(factor(0.0f), 1.0f);
  EXPECT_EQ(factor(infinity), 0.0f);
  EXPECT_TRUE(std::isnan(factor(nan)));
}

INSTANTIATE_TEST_SUITE_P(Devices, RowKernelTest, ::testing::ValuesIn(KernelTestDevices()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace acan::test
