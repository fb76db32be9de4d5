// The kernels that look up values by a row's number, class or position, on every device, bit for
// bit: embeddings, positions, rotary angles, dropout.
#include <algorithm>
#include <cmath>
#include <utility>

#include "acan/core/philox.h"
#include "row_kernel_cases.h"

namespace acan::test {
namespace {

TEST_P(RowKernelTest, EmbeddingGradientIsTheProductWithTheOneHotMatrix) {
  ForAll([](Device& device, const Case& at) {
    const Launcher launch{device};
    constexpr std::int64_t kWords = 9, kFirst = 2;
    for (const int which : {0, 1, 2}) {
      // Words that are spread out, all equal, and two that are far apart.
      const Host index = Integers(at.rows, [&](std::int64_t r) -> std::int64_t {
        if (which == 1) return 4;
        if (which == 2) return r == 0 || r + 1 == at.rows ? 5 : 100;
        return r * r % 13;
      });
      const Host dy = Random(at.rows, at.cols, 13);
      const Host one_hot = Make(at.rows, kWords, [&](auto r, auto t) {
        return IntegerAt(index, r) == kFirst + t && kFirst + t != 3 ? 1.0f : 0.0f;
      });
      const OnDevice indices = Put(device, index), dys = Put(device, dy, at.pad);
      const OnDevice out = Space(device, kWords, at.cols, at.pad);
      launch(Kernel::kEmbeddingGradient, {out.matrix, indices.matrix, dys.matrix},
             {.f = {}, .i = {16, std::max<std::int64_t>(at.rows, 16), kFirst, 3}});
      EXPECT_EQ(Difference(Fetch(device, out), GemmReference(GemmForm::kGradient, 16, one_hot, dy)),
                "")
          << which;
      launch(Kernel::kEmbeddingGradient, {out.matrix, indices.matrix, dys.matrix},
             {.f = {}, .i = {16, 40, kFirst, 3}});
      const Host want = Make(kWords, at.cols, [&](auto t, auto c) {
        return GroupSum(at.rows, 40, 16, [&](float s, auto r) {
          return std::fma(one_hot.at(r, t), dy.at(r, c), s);
        });
      });
      EXPECT_EQ(Difference(Fetch(device, out), want), "") << which << ", in groups";
    }
  });
}

TEST_P(RowKernelTest, EmbeddingAndPositions) {
  ForAll([](Device& device, const Case& at) {
    const Launcher launch{device};
    const Host table = Hard(11, at.cols, 14), x = Random(at.rows, at.cols, 15);
    const Host index = Integers(at.rows, [](std::int64_t r) { return r * 5 % 13 - 1; });
    const OnDevice tables = Put(device, table, at.pad), indices = Put(device, index);
    const OnDevice out = Put(device, x);
    const auto position = [](auto r) { return (3 + r) % 11; };
    launch(Kernel::kPositions, {out.matrix, out.matrix, tables.matrix}, {.f = {}, .i = {3}});
    EXPECT_EQ(Difference(Fetch(device, out), Make(at.rows, at.cols,
                                                  [&](auto r, auto c) {
                                                    return x.at(r, c) + table.at(position(r), c);
                                                  })),
              "");
    launch(Kernel::kPositions, {out.matrix, {}, tables.matrix}, {.f = {}, .i = {3}});
    EXPECT_EQ(Difference(
                  Fetch(device, out),
                  Make(at.rows, at.cols, [&](auto r, auto c) { return table.at(position(r), c); })),
              "");
    launch(Kernel::kEmbedding, {out.matrix, indices.matrix, tables.matrix}, {});
    EXPECT_EQ(Difference(Fetch(device, out), Make(at.rows, at.cols,
                                                  [&](auto r, auto c) {
                                                    const std::int64_t word = IntegerAt(index, r);
                                                    return word < 0 || word > 10
                                                               ? NAN
                                                               : table.at(word, c);
                                                  })),
              "");
  });
}

TEST_P(RowKernelTest, PartsOfATableAddUpToItsRows) {
  ForAll([](Device& device, const Case& at) {
    const Launcher launch{device};
    const Host table = Hard(11, at.cols, 14);
    const Host index = Integers(at.rows, [](std::int64_t r) { return r * 5 % 13 - 1; });
    const OnDevice tables = Put(device, table, at.pad), indices = Put(device, index);
    const OnDevice whole = Space(device, at.rows, at.cols), sum = Space(device, at.rows, at.cols),
                   part = Space(device, at.rows, at.cols);
    launch(Kernel::kEmbedding, {whole.matrix, indices.matrix, tables.matrix}, {});
    for (const auto& [begin, end] : {std::pair{0, 4}, std::pair{4, 9}, std::pair{9, 11}}) {
      Matrix rows = tables.matrix;
      rows.offset += begin * rows.stride;
      rows.rows = end - begin;
      const Matrix& out = begin == 0 ? sum.matrix : part.matrix;
      launch(Kernel::kEmbedding, {out, indices.matrix, rows}, {.f = {}, .i = {begin, 11}});
      if (begin > 0) launch(Kernel::kAdd, {sum.matrix, sum.matrix, part.matrix}, {});
    }
    EXPECT_EQ(Difference(Fetch(device, sum), Fetch(device, whole)), "");
  });
}

TEST_P(RowKernelTest, PositionsGradientIsThatOfAnEmbedding) {
  ACAN_SKIP_WITHOUT(GetParam());
  const auto device = GetParam().make(1, kRoomyBytes);
  const Launcher launch{*device};
  // Samples of 5 positions, hence groups of 2 samples (with blocks of 16, 3 would fit, but the
  // number must be a power of two), and samples of 40, hence one sample per group of three leaves.
  for (const auto& [positions, group] : {std::pair{5, 2}, std::pair{40, 1}}) {
    const std::int64_t rows = 7 * positions;
    const OnDevice dy = Put(*device, Random(rows, 70, 16));
    const OnDevice index =
        Put(*device, Integers(rows, [p = positions](std::int64_t r) { return r % p; }));
    const OnDevice table = Space(*device, positions, 70), other = Space(*device, positions, 70);
    launch(Kernel::kPositionsGradient, {table.matrix, dy.matrix}, {.f = {}, .i = {group}});
    launch(Kernel::kEmbeddingGradient, {other.matrix, index.matrix, dy.matrix},
           {.f = {}, .i = {16, group * positions, 0, -1}});
    EXPECT_EQ(Difference(Fetch(*device, table), Fetch(*device, other)), "") << positions;
  }
}

TEST_P(RowKernelTest, RotaryTurnsAndTurnsBack) {
  ForAll([](Device& device, const Case& at) {
    const Launcher launch{device};
    const std::int64_t half = std::max<std::int64_t>(1, at.cols / 4), cols = 3 * 2 * half;
    const Host x = Hard(at.rows, cols, 17);
    const Host cosine = Random(13, half, 18), sine = Random(13, half, 19);
    const OnDevice in = Put(device, x, at.pad);
    const OnDevice cosines = Put(device, cosine), sines = Put(device, sine);
    const auto turned = [&](float sign) {
      return Make(at.rows, cols, [&](auto r, auto c) {
        const std::int64_t p = (6 + r) % 13, i = c % half;
        const float s = sign * sine.at(p, i);
        return c % (2 * half) < half
                   ? std::fma(x.at(r, c), cosine.at(p, i), -(x.at(r, c + half) * s))
                   : std::fma(x.at(r, c), cosine.at(p, i), x.at(r, c - half) * s);
      });
    };
    const OnDevice out = Space(device, at.rows, cols);
    launch(Kernel::kRotary, {out.matrix, in.matrix, cosines.matrix, sines.matrix},
           {.f = {}, .i = {0, 6}});
    EXPECT_EQ(Difference(Fetch(device, out), turned(1.0f)), "");
    launch(Kernel::kRotary, {in.matrix, in.matrix, cosines.matrix, sines.matrix},
           {.f = {}, .i = {1, 6}});
    EXPECT_EQ(Difference(Fetch(device, in), turned(-1.0f)), "") << "back, in place";
  });
}

TEST_P(RowKernelTest, DropoutIsAFunctionOfThePlaceAlone) {
  ForAll([](Device& device, const Case& at) {
    const Launcher launch{device};
    const Host x = Hard(at.rows, at.cols, 20);
    const std::uint64_t high = std::uint64_t{1} << 63 | 77;
    for (const std::int64_t unit : {0, 1}) {
      for (const float rate : {0.0f, 0.3f, 0x1.8p-24f, 0.999f}) {
        const OnDevice in = Put(device, x, at.pad);
        launch(Kernel::kDropout, {in.matrix, in.matrix},
               {.f = {rate, 1.25f},
                .i = {unit, 0x123456789, static_cast<std::int64_t>(high), 9, 6, 1000, 3}});
        const Host want = Make(at.rows, at.cols, [&](std::int64_t r, std::int64_t c) {
          const std::int64_t element = unit == 0 ? (9 + r) * 1000 + 6 + c : (9 + r) / 3;
          const auto e = static_cast<std::uint64_t>(element);
          const float u = acan_unit_float(acan_philox(0x123456789, e / 4, high).v[e % 4]);
          return u >= rate ? x.at(r, c) * 1.25f : 0.0f;
        });
        EXPECT_EQ(Difference(Fetch(device, in), want), "") << unit << ", " << rate;
      }
    }
  });
}

}  // namespace
}  // namespace acan::test
