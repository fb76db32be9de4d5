// Cross entropy on every device, bit for bit: compared with a plain definition, and split at nodes
// of the classes compared with the whole.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "row_kernel_cases.h"

namespace acan::test {
namespace {

// Computes cross entropy of the logits in one task or in several that each have nodes of the
// classes.
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

  // `cuts`: the columns at which the classes are split, each a multiple of 64.
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
    std::int64_t first = -1;
    float largest = -std::numeric_limits<float>::infinity();
    for (std::int64_t c = 0; c < x.cols; ++c) {
      if (x.at(r, c) > largest || (first < 0 && x.at(r, c) == largest)) {
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
    // The answer of a row of NaNs only is class 0.
    const std::int64_t answer = std::max<std::int64_t>(first, 0);
    want.correct.at(r, 0) = !ignored && answer == label ? 1.0f : 0.0f;
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
            continue;  // only the children of the root
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

// Of a run that has diverged: the largest logit of a row is minus infinity behind nodes of NaNs. Of
// these the maximum is minus infinity, too.
TEST_P(RowKernelTest, AnswersOfNaNsAndMinusInfinityAreTheSameHoweverClassesAreCut) {
  ForAll([](Device& device, const Case& at) {
    constexpr std::int64_t kNode = 64;
    if (at.cols <= kNode) return;
    const auto only_nans = [](std::int64_t r) { return r % 4 == 3; };
    const auto first = [&](std::int64_t r) { return kNode + r % (at.cols - kNode); };
    const Host x = Make(at.rows, at.cols, [&](auto r, auto c) {
      const bool found = !only_nans(r) && (c == first(r) || c == at.cols - 1);
      return found ? -std::numeric_limits<float>::infinity() : NAN;
    });
    for (const bool of_zero : {false, true}) {
      const Host labels =
          Integers(at.rows, [&](std::int64_t r) { return of_zero ? std::int64_t{0} : first(r); });
      const CrossEntropy of(device, x, labels, 0.0f);
      const CrossEntropy::Results want = CrossEntropyOf(x, labels, 0.0f);
      for (std::int64_t r = 0; r < at.rows; ++r) {
        EXPECT_EQ(want.correct.at(r, 0), only_nans(r) == of_zero ? 1.0f : 0.0f) << r;
      }
      std::vector<std::vector<std::int64_t>> all_cuts = {{0, at.cols}, {0, kNode, at.cols}};
      if (at.cols > 2 * kNode) all_cuts.push_back({0, kNode, 2 * kNode, at.cols});
      for (const std::vector<std::int64_t>& cuts : all_cuts) {
        const CrossEntropy::Results got = of.Run(cuts);
        EXPECT_EQ(Difference(got.loss, want.loss), "") << cuts.size() << " cuts";
        EXPECT_EQ(Difference(got.correct, want.correct), "") << cuts.size() << " cuts";
        EXPECT_EQ(Difference(got.gradient, want.gradient), "") << cuts.size() << " cuts";
      }
    }
  });
}

// ---- rows that a GPU gives to many threads ----

// Lengths around a block's numbers of leaves, threads and rounds, and rows of a large vocabulary.
constexpr Case kLongRows[] = {{1, 1, 0},    {3, 63, 1},   {2, 127, 0},   {3, 511, 1},  {2, 2049, 0},
                              {2, 4096, 3}, {1, 8193, 0}, {2, 32768, 0}, {1, 33001, 5}};

template <typename Body>
void ForLongRows(const TestDevice& at, Body body) {
  ACAN_SKIP_WITHOUT(at);
  if (DiffersByProducts(at)) return;
  const auto device = at.make(at.threads.front(), kRoomyBytes);
  for (const Case& each : kLongRows) {
    SCOPED_TRACE(::testing::Message() << "[" << each.rows << ", " << each.cols << "]");
    body(*device, each);
  }
}

// Elements that are all at most zero, with zeros of both signs, infinities and NaNs.
Host Zeros(std::int64_t rows, std::int64_t cols) {
  Host x = Random(rows, cols, 31, -9.0f, -1.0f);
  for (std::size_t i = 0; i < x.v.size(); ++i) {
    if (i % 13 == 5) x.v[i] = i % 3 == 0 ? 0.0f : -0.0f;
    if (i % 17 == 0) x.v[i] = NAN;
    if (i % 19 == 0) x.v[i] = -std::numeric_limits<float>::infinity();
  }
  return x;
}

// The result has the sign of the first zero in the order (column mod 64, column); the elements of a
// partial last leaf come after all others.
TEST_P(RowKernelTest, TheLargestOfLongRows) {
  ForLongRows(GetParam(), [](Device& device, const Case& at) {
    const Launcher launch{device};
    for (const int which : {0, 1, 2, 3}) {
      const float lowest = -std::numeric_limits<float>::infinity();
      const Host x = which == 0   ? Zeros(at.rows, at.cols)
                     : which == 1 ? Hard(at.rows, at.cols, 32)
                     : which == 2 ? Make(at.rows, at.cols, [](auto, auto) { return NAN; })
                                  : Make(at.rows, at.cols, [&](auto, auto) { return lowest; });
      Host largest(at.rows, 1), column(at.rows, 1);
      for (std::int64_t r = 0; r < at.rows; ++r) {
        float most = lowest;
        const std::int64_t full = at.cols / 64 * 64;
        for (std::int64_t lane = 0; lane < 64; ++lane) {
          for (std::int64_t c = lane; c < full; c += 64)
            most = x.at(r, c) > most ? x.at(r, c) : most;
        }
        for (std::int64_t c = full; c < at.cols; ++c) most = x.at(r, c) > most ? x.at(r, c) : most;
        std::int64_t first = 0;
        while (first < at.cols && x.at(r, first) != most) ++first;
        largest.at(r, 0) = most;
        column.at(r, 0) =
            std::bit_cast<float>(static_cast<std::int32_t>(first == at.cols ? -1 : first + 7));
      }
      const OnDevice in = Put(device, x, at.pad);
      const OnDevice values = Space(device, at.rows, 1), columns = Space(device, at.rows, 1);
      launch(Kernel::kClassMaxima, {values.matrix, columns.matrix, in.matrix}, {.f = {}, .i = {7}});
      EXPECT_EQ(Difference(Fetch(device, values), largest), "") << which;
      EXPECT_EQ(Difference(Fetch(device, columns), column), "") << which;
    }
  });
}

TEST_P(RowKernelTest, CrossEntropyOfLongRows) {
  ForLongRows(GetParam(), [](Device& device, const Case& at) {
    const Host x = Random(at.rows, at.cols, 33, -9.0f, 9.0f);
    const Host labels =
        Integers(at.rows, [&](std::int64_t r) { return at.cols - 1 - r % at.cols; });
    const CrossEntropy::Results want = CrossEntropyOf(x, labels, 0.1f);
    const CrossEntropy::Results got = CrossEntropy(device, x, labels, 0.1f).Run({0, at.cols});
    EXPECT_EQ(Difference(got.loss, want.loss), "");
    EXPECT_EQ(Difference(got.correct, want.correct), "");
    EXPECT_EQ(Difference(got.gradient, want.gradient), "");
  });
}

// The sum of a row's terms: leaves of `block` terms, each summed as a chain, combined by the tree.
float ChainSum(std::int64_t n, std::int64_t block, const Fold& fold) {
  return GroupSum(n, block, block, fold);
}

TEST_P(RowKernelTest, LossesOfLongRowsInTheCanonicalOrder) {
  ForLongRows(GetParam(), [](Device& device, const Case& at) {
    const Launcher launch{device};
    const Host x = Random(at.rows, at.cols, 34, -9.0f, 9.0f), y = Random(at.rows, at.cols, 35);
    const Host labels =
        Integers(at.rows, [&](std::int64_t r) { return (at.cols - 1) * (1 - r % 2); });
    const OnDevice label = Put(device, labels), targets = Put(device, y);
    const OnDevice loss = Space(device, at.rows, 1), correct = Space(device, at.rows, 1);
    for (const std::int64_t block : {std::int64_t{16}, std::int64_t{64}, std::int64_t{1} << 40}) {
      if (block > 64 && at.cols > 3000) continue;  // one long chain is slow
      Host softmax(at.rows, 1), gradient(at.rows, at.cols);
      for (std::int64_t r = 0; r < at.rows; ++r) {
        float most = x.at(r, 0);
        for (std::int64_t c = 1; c < at.cols; ++c) most = std::max(most, x.at(r, c));
        const float sum = ChainSum(at.cols, std::min(block, at.cols), [&](float s, auto c) {
          return s + KernelExp(x.at(r, c) - most);
        });
        const std::int64_t is = IntegerAt(labels, r);
        softmax.at(r, 0) = KernelLog(sum) - (x.at(r, is) - most);
        for (std::int64_t c = 0; c < at.cols; ++c) {
          const float p = KernelExp(x.at(r, c) - most) / sum;
          gradient.at(r, c) = (c == is ? p - 1.0f : p) * 0.5f;
        }
      }
      const OnDevice in = Put(device, x, at.pad);
      const KernelScalars scalars{.f = {0.5f}, .i = {block}};
      launch(Kernel::kSoftmaxCrossEntropy,
             {{}, in.matrix, label.matrix, loss.matrix, correct.matrix}, scalars);
      EXPECT_EQ(Difference(Fetch(device, loss), softmax), "") << block << ", without a gradient";
      launch(Kernel::kSoftmaxCrossEntropy,
             {in.matrix, in.matrix, label.matrix, loss.matrix, correct.matrix}, scalars);
      EXPECT_EQ(Difference(Fetch(device, loss), softmax), "") << block;
      EXPECT_EQ(Difference(Fetch(device, in), gradient), "") << block << ", in place";

      const Host squares = Make(at.rows, 1, [&](auto r, auto) {
        return ChainSum(at.cols, std::min(block, at.cols), [&](float s, auto c) {
          const float d = x.at(r, c) - y.at(r, c);
          return std::fma(d, d, s);
        });
      });
      const Host differences =
          Make(at.rows, at.cols, [&](auto r, auto c) { return (x.at(r, c) - y.at(r, c)) * 0.5f; });
      const OnDevice outputs = Put(device, x);
      launch(Kernel::kSquaredError, {outputs.matrix, outputs.matrix, targets.matrix, loss.matrix},
             scalars);
      EXPECT_EQ(Difference(Fetch(device, loss), squares), "") << block;
      EXPECT_EQ(Difference(Fetch(device, outputs), differences), "") << block;
    }
  });
}

}  // namespace
}  // namespace acan::test
