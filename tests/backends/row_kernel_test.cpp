// The kernels of graphs of operators on every device, to the bit: their orders (lanes, row groups,
// nodes of classes) against plain definitions, and cuts at nodes against the whole.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "acan/core/philox.h"
#include "reference.h"

namespace acan::test {
namespace {

// ---- the orders, written apart from the kernels ----

// The aligned tree over leaves that are there: the left child is the largest power of two below.
float Tree(const std::vector<float>& leaves, std::size_t begin, std::size_t end) {
  if (end - begin == 1) return leaves[begin];
  const std::size_t left = std::bit_floor(end - begin - 1);
  return Tree(leaves, begin, begin + left) + Tree(leaves, begin + left, end);
}

using Fold = std::function<float(float acc, std::int64_t i)>;

// Lane i mod 16 of a leaf of 64 folds element i.
float LaneSum(std::int64_t n, const Fold& fold) {
  std::vector<float> leaves;
  for (std::int64_t begin = 0; begin < n; begin += 64) {
    std::vector<float> lanes(16, 0.0f);
    for (std::int64_t i = begin; i < std::min(n, begin + 64); ++i) {
      float& lane = lanes[static_cast<std::size_t>(i % 16)];
      lane = fold(lane, i);
    }
    for (std::size_t half = 8; half > 0; half /= 2) {
      for (std::size_t l = 0; l < half; ++l) lanes[l] = lanes[l] + lanes[l + half];
    }
    leaves.push_back(lanes[0]);
  }
  return Tree(leaves, 0, leaves.size());
}

float GroupSum(std::int64_t rows, std::int64_t group, std::int64_t block, const Fold& fold) {
  std::vector<float> groups;
  for (std::int64_t first = 0; first < rows; first += group) {
    std::vector<float> leaves;
    const std::int64_t last = std::min(rows, first + group);
    for (std::int64_t begin = first; begin < last; begin += block) {
      float acc = 0.0f;
      for (std::int64_t r = begin; r < std::min(last, begin + block); ++r) acc = fold(acc, r);
      leaves.push_back(acc);
    }
    groups.push_back(Tree(leaves, 0, leaves.size()));
  }
  return Tree(groups, 0, groups.size());
}

// ---- matrices ----

template <typename Of>
Host Make(std::int64_t rows, std::int64_t cols, Of of) {
  Host host(rows, cols);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) host.at(r, c) = Canonical(of(r, c));
  }
  return host;
}

Host Integers(std::int64_t rows, const std::function<std::int64_t(std::int64_t)>& of) {
  Host host(rows, 1);
  for (std::int64_t r = 0; r < rows; ++r) {
    host.at(r, 0) = std::bit_cast<float>(static_cast<std::int32_t>(of(r)));
  }
  return host;
}

std::int64_t IntegerAt(const Host& host, std::int64_t r) {
  return std::bit_cast<std::int32_t>(host.at(r, 0));
}

// Random, and in every fifth place something that hurts.
Host Hard(std::int64_t rows, std::int64_t cols, std::uint32_t seed) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float hard[] = {0.0f, -0.0f, 1e-41f, 1e30f, -90.0f, 104.0f, kInfinity, -kInfinity, NAN};
  Host host = Random(rows, cols, seed, -4.0f, 4.0f);
  for (std::size_t i = 4; i < host.v.size(); i += 5) host.v[i] = hard[i / 5 % std::size(hard)];
  return host;
}

Matrix Columns(const Matrix& m, std::int64_t begin, std::int64_t end) {
  Matrix part = m;
  part.offset += begin;
  part.cols = end - begin;
  return part;
}

Matrix Rows(const Matrix& m, std::int64_t begin, std::int64_t end) {
  Matrix part = m;
  part.offset += begin * m.stride;
  part.rows = end - begin;
  return part;
}

struct Case {
  std::int64_t rows, cols, pad;
};
// One element, one row, a leaf, a leaf and one, ragged, several leaves, enough for two threads.
const Case kCases[] = {{1, 1, 0},  {1, 37, 0},   {3, 64, 0},    {5, 65, 2},
                       {7, 15, 3}, {70, 200, 1}, {130, 130, 0}, {600, 321, 5}};

class RowKernelTest : public ::testing::TestWithParam<TestDevice> {
 protected:
  template <typename Body>
  void ForAll(Body body) {
    ACAN_SKIP_WITHOUT(GetParam());
    for (const int threads : GetParam().threads) {
      const auto device = GetParam().make(threads, kRoomyBytes);
      for (const Case& at : kCases) {
        SCOPED_TRACE(::testing::Message() << "[" << at.rows << ", " << at.cols << "] pad " << at.pad
                                          << ", " << threads << " threads");
        body(*device, at);
      }
    }
  }
};

// Runs a kernel on matrices that are there.
struct Launcher {
  Device& device;
  void operator()(Kernel kernel, const std::vector<Matrix>& m, const KernelScalars& scalars) const {
    KernelArgs args;
    std::copy(m.begin(), m.end(), args.m.begin());
    args.scalars = scalars;
    device.Launch(kernel, args);
  }
};

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
  // With one position a sample these are the column sums that have always been.
  launch(Kernel::kColumnDots, {left.matrix, xs.matrix}, {.f = {}, .i = {16, 16}});
  launch(Kernel::kColumnSums, {right.matrix, xs.matrix}, {.f = {}, .i = {16}});
  EXPECT_EQ(Difference(Fetch(*device, left), Fetch(*device, right)), "");
}

// ---- tables ----

TEST_P(RowKernelTest, EmbeddingGradientIsTheProductWithTheOneHotMatrix) {
  ForAll([](Device& device, const Case& at) {
    const Launcher launch{device};
    constexpr std::int64_t kWords = 9, kFirst = 2;
    for (const int which : {0, 1, 2}) {
      // Spread, all the same, and two words that are far apart.
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

TEST_P(RowKernelTest, PositionsGradientIsThatOfAnEmbedding) {
  ACAN_SKIP_WITHOUT(GetParam());
  const auto device = GetParam().make(1, kRoomyBytes);
  const Launcher launch{*device};
  // Samples of 5 positions, so groups of 2 (block 16: 3 would fit, but 2 is the power of two), and
  // of 40, so one sample is a group of three leaves.
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

// ---- cross entropy ----

// What one task, or several that have nodes of the classes, makes of logits.
class CrossEntropy {
 public:
  CrossEntropy(Device& device, const Host& logits, const Host& labels, float smoothing)
      : device_(device),
        launch_{device},
        logits_(Put(device, logits, 3)),
        labels_(Put(device, labels)),
        smoothing_(smoothing) {}

  struct Results {
    Host loss, correct, gradient;
  };

  // `cuts`: where the columns are cut, each a multiple of 64.
  Results Run(const std::vector<std::int64_t>& cuts) const {
    const std::int64_t rows = logits_.matrix.rows, classes = logits_.matrix.cols;
    std::vector<OnDevice> largest, columns, sums;
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      largest.push_back(Space(device_, rows, 1));
      columns.push_back(Space(device_, rows, 1));
      launch_(Kernel::kClassMaxima, {largest[i].matrix, columns[i].matrix, Part(cuts, i)},
              {.f = {}, .i = {cuts[i]}});
      if (i == 0) continue;
      launch_(Kernel::kCombineMaxima,
              {largest[0].matrix, columns[0].matrix, largest[0].matrix, columns[0].matrix,
               largest[i].matrix, columns[i].matrix},
              {});
    }
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      sums.push_back(Space(device_, rows, 3));
      launch_(Kernel::kClassSums,
              {sums[i].matrix, Part(cuts, i), largest[0].matrix, labels_.matrix},
              {.f = {}, .i = {cuts[i]}});
      if (i == 0) continue;
      launch_(Kernel::kAdd, {sums[0].matrix, sums[0].matrix, sums[i].matrix}, {});
    }
    const OnDevice loss = Space(device_, rows, 1), correct = Space(device_, rows, 1);
    launch_(Kernel::kCrossEntropyLoss,
            {loss.matrix, correct.matrix, sums[0].matrix, columns[0].matrix, labels_.matrix},
            {.f = {smoothing_}, .i = {classes, kIgnored}});
    const OnDevice gradient = Space(device_, rows, classes);
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      launch_(Kernel::kCrossEntropyGradient,
              {Columns(gradient.matrix, cuts[i], cuts[i + 1]), Part(cuts, i), largest[0].matrix,
               sums[0].matrix, labels_.matrix},
              {.f = {0.125f, smoothing_}, .i = {cuts[i], classes, kIgnored}});
    }
    return {Fetch(device_, loss), Fetch(device_, correct), Fetch(device_, gradient)};
  }

  static constexpr std::int64_t kIgnored = -100;

 private:
  Matrix Part(const std::vector<std::int64_t>& cuts, std::size_t i) const {
    return Columns(logits_.matrix, cuts[i], cuts[i + 1]);
  }

  Device& device_;
  Launcher launch_;
  OnDevice logits_, labels_;
  float smoothing_;
};

CrossEntropy::Results CrossEntropyOf(const Host& x, const Host& labels, float smoothing) {
  CrossEntropy::Results want{Host(x.rows, 1), Host(x.rows, 1), Host(x.rows, x.cols)};
  const auto classes = static_cast<float>(x.cols);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const std::int64_t label = IntegerAt(labels, r);
    const bool ignored = label == CrossEntropy::kIgnored;
    std::int64_t first = 0;
    float largest = -std::numeric_limits<float>::infinity();
    for (std::int64_t c = 0; c < x.cols; ++c) {
      if (x.at(r, c) > largest) {
        largest = x.at(r, c);
        first = c;
      }
    }
    const float sum =
        LaneSum(x.cols, [&](float s, auto c) { return s + KernelExp(x.at(r, c) - largest); });
    const float all = LaneSum(x.cols, [&](float s, auto c) { return s + (x.at(r, c) - largest); });
    const bool valid = label >= 0 && label < x.cols;
    const float of_label = valid ? KernelLog(sum) - (x.at(r, label) - largest) : NAN;
    const float smooth = KernelLog(sum) - all / classes;
    const float loss =
        smoothing > 0.0f ? std::fma(smoothing, smooth, (1.0f - smoothing) * of_label) : of_label;
    want.loss.at(r, 0) = ignored ? 0.0f : Canonical(loss);
    want.correct.at(r, 0) = !ignored && first == label ? 1.0f : 0.0f;
    for (std::int64_t c = 0; c < x.cols; ++c) {
      const float p = KernelExp(x.at(r, c) - largest) / sum;
      const float on = c == label ? 1.0f - smoothing : 0.0f;
      want.gradient.at(r, c) =
          ignored ? 0.0f : Canonical(((p - on) - smoothing / classes) * 0.125f);
    }
  }
  return want;
}

TEST_P(RowKernelTest, CrossEntropyIsTheSameHoweverItsClassesAreCut) {
  ForAll([](Device& device, const Case& at) {
    for (const float smoothing : {0.0f, 0.1f}) {
      for (const bool hard : {false, true}) {
        const Host x =
            hard ? Hard(at.rows, at.cols, 21) : Random(at.rows, at.cols, 21, -9.0f, 9.0f);
        const Host labels = Integers(at.rows, [&](std::int64_t r) -> std::int64_t {
          return r % 7 == 3 ? CrossEntropy::kIgnored : r % 11 == 5 ? at.cols + 1 : r * 5 % at.cols;
        });
        const CrossEntropy of(device, x, labels, smoothing);
        const CrossEntropy::Results want = CrossEntropyOf(x, labels, smoothing);
        std::vector<std::vector<std::int64_t>> all_cuts = {{0, at.cols}};
        if (at.cols > 64) all_cuts.push_back({0, 64, at.cols});
        if (at.cols > 128) all_cuts.back() = {0, 128, at.cols};
        if (at.cols > 256) all_cuts.push_back({0, 256, at.cols});
        for (const std::vector<std::int64_t>& cuts : all_cuts) {
          if (cuts.size() == 3 && cuts[1] != static_cast<std::int64_t>(std::bit_floor(
                                                 static_cast<std::uint64_t>(at.cols - 1)))) {
            continue;  // the children of the root only
          }
          const CrossEntropy::Results got = of.Run(cuts);
          EXPECT_EQ(Difference(got.loss, want.loss), "") << cuts.size() << " cuts";
          EXPECT_EQ(Difference(got.correct, want.correct), "");
          EXPECT_EQ(Difference(got.gradient, want.gradient), "");
        }
      }
    }
  });
}

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

INSTANTIATE_TEST_SUITE_P(Devices, RowKernelTest, ::testing::ValuesIn(AllTestDevices()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace acan::test
