// The definitions of norms over rows and of windows over images.
#include "operations_define.h"

namespace acan::test {
namespace {

constexpr std::int64_t kImageGroup = 48;

double H(const Host& x, const Host& statistics, std::int64_t r, std::int64_t c) {
  return (double{x.at(r, c)} - statistics.at(0, c)) * statistics.at(1, c);
}

Out ColumnNormSums(const Shape& s, const In& in) {
  return {DefineSums(1, s.cols,
                     [&](auto, auto c, Sum& sum) {
                       for (std::int64_t r = 0; r < s.rows; ++r) {
                         sum.Add(in[2].at(r, c) * H(in[0], in[1], r, c));
                       }
                     }),
          DefineSums(1, s.cols, [&](auto, auto c, Sum& sum) {
            for (std::int64_t r = 0; r < s.rows; ++r) sum.Add(in[2].at(r, c));
          })};
}

void AddColumnNorms(std::vector<Operation>& all) {
  const Values x = Between(71), y = Between(72), statistics = Between(73, 0.5f, 2.0f);
  const KernelScalars groups{.f = {}, .i = {kBlock, kImageGroup}};
  all.push_back(
      {"divide", Kernel::kDivide, {.f = {3.0f}, .i = {}}, {x}, ElementByElement([](auto at) {
         return at(0) / 3;
       })});
  all.push_back({"inverse_root",
                 Kernel::kInverseRoot,
                 {.f = {0.25f}, .i = {}},
                 {Between(74, 0.0f, 2.0f)},
                 ElementByElement([](auto at) { return 1 / std::sqrt(at(0) + 0.25); })});
  all.push_back({"blend",
                 Kernel::kBlend,
                 {.f = {0.75f, 0.25f}, .i = {}},
                 {x, y},
                 ElementByElement([](auto at) { return 0.75 * at(0) + 0.25 * at(1); })});
  all.push_back({"column_squares",
                 Kernel::kColumnSquares,
                 groups,
                 {x, y},
                 [](const Shape& s, const In& in) -> Out {
                   return {DefineSums(1, s.cols, [&](auto, auto c, Sum& sum) {
                     for (std::int64_t r = 0; r < s.rows; ++r) {
                       sum.Add(std::pow(double{in[0].at(r, c)} - in[1].at(0, c), 2));
                     }
                   })};
                 }});
  all.push_back({"column_norm",
                 Kernel::kColumnNorm,
                 {},
                 {x, statistics, y, Between(75)},
                 [](const Shape& s, const In& in) -> Out {
                   return {Define(s.rows, s.cols, [&](auto r, auto c, double& magnitude) {
                     magnitude = 10.0;
                     return H(in[0], in[1], r, c) * in[2].at(0, c) + in[3].at(0, c);
                   })};
                 }});
  all.push_back({"column_norm_sums",
                 Kernel::kColumnNormSums,
                 groups,
                 {x, statistics, Between(76)},
                 ColumnNormSums});
  all.push_back({"column_norm_gradient",
                 Kernel::kColumnNormGradient,
                 {},
                 {x, statistics, Between(77), y, Between(78), Between(79)},
                 [](const Shape& s, const In& in) -> Out {
                   return {Define(s.rows, s.cols, [&](auto r, auto c, double& magnitude) {
                     magnitude = 20.0;
                     const double g = in[2].at(r, c) - double{in[5].at(0, c)} -
                                      H(in[0], in[1], r, c) * in[4].at(0, c);
                     return g * in[3].at(0, c) * in[1].at(1, c);
                   })};
                 }});
}

// Three images of 5 x 4, windows of 3 x 2 with stride (2, 1) and padding (1, 0): 3 x 3 results.
constexpr std::int64_t kImage = 20, kResult = 9, kTaps = 6, kImages = 3;

// Calls visit(result row, image row, tap) for each pair, results and taps in ascending order.
template <typename Visit>
void ForEachTap(Visit visit) {
  for (std::int64_t r = 0; r < kImages * kResult; ++r) {
    for (std::int64_t tap = 0; tap < kTaps; ++tap) {
      const std::int64_t y = r % kResult / 3 * 2 - 1 + tap / 2, x = r % 3 + tap % 2;
      if (y >= 0 && y < 5 && x < 4) visit(r, r / kResult * kImage + y * 4 + x, tap);
    }
  }
}

// A result made of sums, to which visits add terms.
class Sums {
 public:
  Sums(std::int64_t rows, std::int64_t cols) : cols_(cols), sums_(rows * cols) {}
  Sum& at(std::int64_t r, std::int64_t c) { return sums_[static_cast<std::size_t>(r * cols_ + c)]; }
  Doubles Of() {
    return DefineSums(static_cast<std::int64_t>(sums_.size()) / cols_, cols_,
                      [&](auto r, auto c, Sum& sum) { sum = at(r, c); });
  }

 private:
  std::int64_t cols_;
  std::vector<Sum> sums_;
};

Out Unfold(const Shape& s, const In& in) {
  Sums out(kImages * kResult, kTaps * s.cols);
  ForEachTap([&](auto r, auto pixel, auto tap) {
    for (std::int64_t c = 0; c < s.cols; ++c) out.at(r, tap * s.cols + c).Add(in[0].at(pixel, c));
  });
  return {out.Of()};
}

Out Fold(const Shape& s, const In& in) {
  Sums out(kImages * kImage, s.cols);
  ForEachTap([&](auto r, auto pixel, auto tap) {
    for (std::int64_t c = 0; c < s.cols; ++c) out.at(pixel, c).Add(in[0].at(r, tap * s.cols + c));
  });
  return {out.Of()};
}

// For each window, the row of the image that has its maximum.
std::vector<std::int64_t> Largest(const Host& x) {
  std::vector<std::int64_t> best(static_cast<std::size_t>(kImages * kResult * x.cols), -1);
  ForEachTap([&](auto r, auto pixel, auto) {
    for (std::int64_t c = 0; c < x.cols; ++c) {
      std::int64_t& at = best[static_cast<std::size_t>(r * x.cols + c)];
      if (at < 0 || x.at(pixel, c) > x.at(at, c)) at = pixel;
    }
  });
  return best;
}

Out MaxPooling(const Shape& s, const In& in) {
  const std::vector<std::int64_t> best = Largest(in[0]);
  return {Define(kImages * kResult, s.cols, [&](auto r, auto c, double&) {
    return double{in[0].at(best[static_cast<std::size_t>(r * s.cols + c)], c)};
  })};
}

Out MaxPoolingGradient(const Shape& s, const In& in) {
  const std::vector<std::int64_t> best = Largest(in[0]);
  Sums out(kImages * kImage, s.cols);
  for (std::int64_t r = 0; r < kImages * kResult; ++r) {
    for (std::int64_t c = 0; c < s.cols; ++c) {
      out.at(best[static_cast<std::size_t>(r * s.cols + c)], c).Add(in[1].at(r, c));
    }
  }
  return {out.Of()};
}

Out AveragePooling(const Shape& s, const In& in) {
  Sums out(kImages * kResult, s.cols);
  ForEachTap([&](auto r, auto pixel, auto) {
    for (std::int64_t c = 0; c < s.cols; ++c) out.at(r, c).Add(in[0].at(pixel, c) / 6.0);
  });
  return {out.Of()};
}

Out AveragePoolingGradient(const Shape& s, const In& in) {
  Sums out(kImages * kImage, s.cols);
  ForEachTap([&](auto r, auto pixel, auto) {
    for (std::int64_t c = 0; c < s.cols; ++c) out.at(pixel, c).Add(in[0].at(r, c) / 6.0);
  });
  return {out.Of()};
}

}  // namespace

void AddImageOperations(std::vector<Operation>& all) {
  AddColumnNorms(all);
  const KernelScalars window{.f = {}, .i = {5, 4, 3, 2, 2, 1, 1, 0}};
  // Few distinct values, so that windows contain equal elements.
  const Values steps = [](const Shape&, std::int64_t rows, std::int64_t cols) {
    Host host = Random(rows, cols, 80, 0.0f, 4.0f);
    for (float& x : host.v) x = std::floor(x);
    return host;
  };
  all.push_back({"unfold", Kernel::kUnfold, window, {Between(81)}, Unfold});
  all.push_back({"fold", Kernel::kFold, window, {Between(82)}, Fold});
  all.push_back({"max_pooling", Kernel::kMaxPooling, window, {steps}, MaxPooling});
  all.push_back({"max_pooling_gradient",
                 Kernel::kMaxPoolingGradient,
                 window,
                 {steps, Between(83)},
                 MaxPoolingGradient});
  all.push_back(
      {"average_pooling", Kernel::kAveragePooling, window, {Between(84)}, AveragePooling});
  all.push_back({"average_pooling_gradient",
                 Kernel::kAveragePoolingGradient,
                 window,
                 {Between(85)},
                 AveragePoolingGradient});
}

}  // namespace acan::test
