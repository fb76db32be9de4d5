// Cross entropy on every device, to the bit: against a plain definition, and with its classes cut
// at nodes against the whole.
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "row_kernel_cases.h"

namespace acan::test {
namespace {

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

}  // namespace
}  // namespace acan::test
