// The definitions of operations over the positions of samples: copies of positions, group norm,
// global pooling and depthwise convolution.
#include "operations_define.h"

namespace acan::test {
namespace {

constexpr std::int64_t kSamples = 3, kGroups = 2;
constexpr double kEpsilon = 0.125;

// `shape` is [positions, columns] of one sample, or of one of two groups of channels. Copies come
// from or go to samples of another length.
std::int64_t From(const Shape& s) {
  return std::min<std::int64_t>(s.inner, 60);
}
std::int64_t First(const Shape& s) {
  return (s.rows - From(s)) / 2;
}

Operation::Names Dimensions(const Shape& s) {
  return {{"samples", kSamples}, {"positions", s.rows}, {"groups", kGroups}, {"width", s.cols},
          {"cols", s.cols},      {"to", s.rows},        {"from", From(s)},   {"group", 1}};
}

// ---- positions ----

Operation::Names SizeCopy(const Shape& s, KernelScalars& scalars) {
  scalars.i = {s.rows, From(s), First(s)};
  return Dimensions(s);
}

Out Place(const Shape& s, const In& in) {
  return {Define(kSamples * s.rows, s.cols, [&](auto r, auto c, double&) {
    const std::int64_t p = r % s.rows - First(s);
    return p >= 0 && p < From(s) ? double{in[0].at(r / s.rows * From(s) + p, c)} : 0.0;
  })};
}

Out Copy(const Shape& s, const In& in) {
  return {Define(kSamples * s.rows, s.cols, [&](auto r, auto c, double&) {
    const std::int64_t p = r % s.rows - First(s);
    const bool copied = p >= 0 && p < From(s);
    return double{copied ? in[1].at(r / s.rows * From(s) + p, c) : in[0].at(r, c)};
  })};
}

// ---- group norm ----

Operation::Names SizeGroups(const Shape& s, KernelScalars& scalars) {
  scalars.i = {s.rows, kGroups};
  return Dimensions(s);
}

// Calls visit(row, column) for the elements of the group that (row, column) belongs to.
template <typename Visit>
void ForEachOfGroup(const Shape& s, std::int64_t row, std::int64_t column, Visit visit) {
  const std::int64_t first = row / s.rows * s.rows, begin = column / s.cols * s.cols;
  for (std::int64_t r = first; r < first + s.rows; ++r) {
    for (std::int64_t c = begin; c < begin + s.cols; ++c) visit(r, c);
  }
}

struct Moments {
  double mean = 0, inverse = 0;
};

// The moments of sample i / kGroups and group i % kGroups.
std::vector<Moments> MomentsOf(const Shape& s, const Host& x) {
  std::vector<Moments> out;
  const double count = static_cast<double>(s.rows * s.cols);
  for (std::int64_t i = 0; i < kSamples * kGroups; ++i) {
    const std::int64_t row = i / kGroups * s.rows, column = i % kGroups * s.cols;
    double sum = 0, squares = 0;
    ForEachOfGroup(s, row, column, [&](auto r, auto c) { sum += x.at(r, c); });
    ForEachOfGroup(s, row, column, [&](auto r, auto c) {
      squares += std::pow(double{x.at(r, c)} - sum / count, 2);
    });
    out.push_back({sum / count, 1 / std::sqrt(squares / count + kEpsilon)});
  }
  return out;
}

std::size_t GroupOf(const Shape& s, std::int64_t r, std::int64_t c) {
  return static_cast<std::size_t>(r / s.rows * kGroups + c / s.cols);
}

Out GroupNorm(const Shape& s, const In& in) {
  const std::vector<Moments> all = MomentsOf(s, in[0]);
  return {Define(kSamples * s.rows, kGroups * s.cols,
                 [&](auto r, auto c, double& magnitude) {
                   magnitude = 10.0;
                   const Moments& of = all[GroupOf(s, r, c)];
                   return (in[0].at(r, c) - of.mean) * of.inverse * in[1].at(0, c) + in[2].at(0, c);
                 }),
          Define(kSamples, 2 * kGroups, [&](auto r, auto c, double& magnitude) {
            magnitude = 4.0;
            const Moments& of = all[static_cast<std::size_t>(r * kGroups + c / 2)];
            return c % 2 == 0 ? of.mean : of.inverse;
          })};
}

double HOf(const Shape& s, const Host& x, const Host& statistics, std::int64_t r, std::int64_t c) {
  const std::int64_t sample = r / s.rows, group = c / s.cols;
  return (double{x.at(r, c)} - statistics.at(sample, 2 * group)) *
         statistics.at(sample, 2 * group + 1);
}

Out GroupNormGradient(const Shape& s, const In& in) {
  const Host &x = in[0], &statistics = in[1], &dy = in[2], &scale = in[3];
  const auto g = [&](auto r, auto c) { return double{dy.at(r, c)} * scale.at(0, c); };
  struct Means {
    double g = 0, gh = 0;
  };
  std::vector<Means> all;
  for (std::int64_t i = 0; i < kSamples * kGroups; ++i) {
    Means of;
    ForEachOfGroup(s, i / kGroups * s.rows, i % kGroups * s.cols, [&](auto r, auto c) {
      of.g += g(r, c) / static_cast<double>(s.rows * s.cols);
      of.gh += g(r, c) * HOf(s, x, statistics, r, c) / static_cast<double>(s.rows * s.cols);
    });
    all.push_back(of);
  }
  return {Define(kSamples * s.rows, kGroups * s.cols, [&](auto r, auto c, double& magnitude) {
    magnitude = 60.0;
    const Means& of = all[GroupOf(s, r, c)];
    const double inner = g(r, c) - of.g - HOf(s, x, statistics, r, c) * of.gh;
    return inner * statistics.at(r / s.rows, c / s.cols * 2 + 1);
  })};
}

Out GroupNormScaleGradient(const Shape& s, const In& in) {
  return {DefineSums(1, kGroups * s.cols,
                     [&](auto, auto c, Sum& sum) {
                       for (std::int64_t r = 0; r < in[0].rows; ++r) {
                         sum.Add(in[2].at(r, c) * HOf(s, in[0], in[1], r, c));
                       }
                     }),
          DefineSums(1, kGroups * s.cols, [&](auto, auto c, Sum& sum) {
            for (std::int64_t r = 0; r < in[0].rows; ++r) sum.Add(in[2].at(r, c));
          })};
}

void AddGroupNorms(std::vector<Operation>& all) {
  const Values statistics = Between(103, 0.5f, 2.0f);
  all.push_back({"group_norm",
                 Kernel::kGroupNorm,
                 {.f = {static_cast<float>(kEpsilon)}, .i = {}},
                 {Between(100), Between(101), Between(102)},
                 GroupNorm,
                 SizeGroups});
  all.push_back({"group_norm_gradient",
                 Kernel::kGroupNormGradient,
                 {},
                 {Between(104), statistics, Between(105), Between(106)},
                 GroupNormGradient,
                 SizeGroups});
  all.push_back({"group_norm_scale_gradient",
                 Kernel::kGroupNormScaleGradient,
                 {},
                 {Between(107), statistics, Between(108)},
                 GroupNormScaleGradient,
                 [](const Shape& s, KernelScalars& scalars) {
                   scalars.i = {kBlock, s.rows, s.rows, kGroups};
                   return Dimensions(s);
                 }});
}

// ---- global pooling ----

std::int64_t LengthOf(const Shape& s, std::int64_t sample) {
  return 1 + sample * 7 % s.rows;
}

Host SampleLengths(const Shape& s, std::int64_t rows, std::int64_t) {
  return Integers(rows, [&](std::int64_t r) { return LengthOf(s, r); });
}

// Few distinct values, so that columns contain equal elements.
Host Steps(const Shape&, std::int64_t rows, std::int64_t cols) {
  Host host = Random(rows, cols, 110, 0.0f, 6.0f);
  for (float& x : host.v) x = std::floor(x);
  return host;
}

std::int64_t LargestRow(const Shape& s, const Host& x, std::int64_t sample, std::int64_t c) {
  std::int64_t best = sample * s.rows;
  for (std::int64_t p = 1; p < LengthOf(s, sample); ++p) {
    if (x.at(sample * s.rows + p, c) > x.at(best, c)) best = sample * s.rows + p;
  }
  return best;
}

Out GlobalMaximum(const Shape& s, const In& in) {
  return {Define(kSamples, s.cols, [&](auto r, auto c, double&) {
    return double{in[0].at(LargestRow(s, in[0], r, c), c)};
  })};
}

Out GlobalMaximumGradient(const Shape& s, const In& in) {
  return {Define(kSamples * s.rows, s.cols, [&](auto r, auto c, double&) {
    const std::int64_t sample = r / s.rows;
    return LargestRow(s, in[0], sample, c) == r ? double{in[2].at(sample, c)} : 0.0;
  })};
}

Out GlobalAverage(const Shape& s, const In& in) {
  return {DefineSums(kSamples, s.cols, [&](auto r, auto c, Sum& sum) {
    const auto length = static_cast<double>(LengthOf(s, r));
    for (std::int64_t p = 0; p < LengthOf(s, r); ++p) {
      sum.Add(in[0].at(r * s.rows + p, c) / length);
    }
  })};
}

Out GlobalAverageGradient(const Shape& s, const In& in) {
  return {Define(kSamples * s.rows, s.cols, [&](auto r, auto c, double&) {
    const std::int64_t sample = r / s.rows, length = LengthOf(s, sample);
    return r % s.rows < length ? in[1].at(sample, c) / static_cast<double>(length) : 0.0;
  })};
}

void AddGlobalPooling(std::vector<Operation>& all) {
  const auto size = [](const Shape& s, KernelScalars& scalars) {
    scalars.i = {s.rows};
    return Dimensions(s);
  };
  all.push_back({"global_max_pooling",
                 Kernel::kGlobalMaxPooling,
                 {},
                 {Steps, SampleLengths},
                 GlobalMaximum,
                 size});
  all.push_back({"global_max_pooling_gradient",
                 Kernel::kGlobalMaxPoolingGradient,
                 {},
                 {Steps, SampleLengths, Between(111)},
                 GlobalMaximumGradient,
                 size});
  all.push_back({"global_average_pooling",
                 Kernel::kGlobalAveragePooling,
                 {},
                 {Between(112), SampleLengths},
                 GlobalAverage,
                 [](const Shape& s, KernelScalars& scalars) {
                   scalars.i = {kBlock, s.rows};
                   return Dimensions(s);
                 }});
  all.push_back({"global_average_pooling_gradient",
                 Kernel::kGlobalAveragePoolingGradient,
                 {},
                 {SampleLengths, Between(113)},
                 GlobalAverageGradient,
                 size});
}

// ---- depthwise convolution ----

// Two images of 8 x 7, windows of 7 x 5 with stride (2, 1) and padding (3, 2): 4 x 7 results of 35
// taps, which are two leaves.
constexpr std::int64_t kDepthwiseImages = 2, kDepthwiseImage = 56, kDepthwiseResult = 28,
                       kDepthwiseTaps = 35;
constexpr KernelScalars kWindow{.f = {}, .i = {8, 7, 7, 5, 2, 1, 3, 2, kBlock, kDepthwiseResult}};

Operation::Names SizeImages(const Shape& s, KernelScalars& scalars) {
  scalars = kWindow;
  return {{"samples", kDepthwiseImages},
          {"channels", s.cols},
          {"height", 8},
          {"width", 7},
          {"window_height", 7},
          {"window_width", 5},
          {"stride_y", 2},
          {"stride_x", 1},
          {"padding_y", 3},
          {"padding_x", 2},
          {"out_height", 4},
          {"out_width", 7},
          {"group", kDepthwiseResult}};
}

// The image row under a tap of the window for result row r; -1: outside the image.
std::int64_t PixelUnder(std::int64_t r, std::int64_t tap) {
  const std::int64_t y = r % kDepthwiseResult / 7 * 2 - 3 + tap / 5, x = r % 7 - 2 + tap % 5;
  return y >= 0 && y < 8 && x >= 0 && x < 7 ? r / kDepthwiseResult * kDepthwiseImage + y * 7 + x
                                            : -1;
}

Out Depthwise(const Shape& s, const In& in) {
  return {DefineSums(kDepthwiseImages * kDepthwiseResult, s.cols, [&](auto r, auto c, Sum& sum) {
    for (std::int64_t tap = 0; tap < kDepthwiseTaps; ++tap) {
      const std::int64_t pixel = PixelUnder(r, tap);
      if (pixel >= 0) sum.Add(double{in[0].at(pixel, c)} * in[1].at(tap, c));
    }
  })};
}

Out DepthwiseInputGradient(const Shape& s, const In& in) {
  std::vector<Sum> sums(static_cast<std::size_t>(kDepthwiseImages * kDepthwiseImage * s.cols));
  for (std::int64_t r = 0; r < kDepthwiseImages * kDepthwiseResult; ++r) {
    for (std::int64_t tap = 0; tap < kDepthwiseTaps; ++tap) {
      const std::int64_t pixel = PixelUnder(r, tap);
      if (pixel < 0) continue;
      for (std::int64_t c = 0; c < s.cols; ++c) {
        sums[static_cast<std::size_t>(pixel * s.cols + c)].Add(double{in[0].at(r, c)} *
                                                               in[1].at(tap, c));
      }
    }
  }
  return {DefineSums(kDepthwiseImages * kDepthwiseImage, s.cols, [&](auto r, auto c, Sum& sum) {
    sum = sums[static_cast<std::size_t>(r * s.cols + c)];
  })};
}

Out DepthwiseWeightGradient(const Shape& s, const In& in) {
  return {DefineSums(kDepthwiseTaps, s.cols, [&](auto tap, auto c, Sum& sum) {
    for (std::int64_t r = 0; r < kDepthwiseImages * kDepthwiseResult; ++r) {
      const std::int64_t pixel = PixelUnder(r, tap);
      if (pixel >= 0) sum.Add(double{in[0].at(pixel, c)} * in[1].at(r, c));
    }
  })};
}

void AddDepthwise(std::vector<Operation>& all) {
  all.push_back(
      {"depthwise", Kernel::kDepthwise, {}, {Between(120), Between(121)}, Depthwise, SizeImages});
  all.push_back({"depthwise_input_gradient",
                 Kernel::kDepthwiseInputGradient,
                 {},
                 {Between(122), Between(123)},
                 DepthwiseInputGradient,
                 SizeImages});
  all.push_back({"depthwise_weight_gradient",
                 Kernel::kDepthwiseWeightGradient,
                 {},
                 {Between(124), Between(125)},
                 DepthwiseWeightGradient,
                 SizeImages});
}

}  // namespace

void AddSampleOperations(std::vector<Operation>& all) {
  all.push_back({"place_positions", Kernel::kPlacePositions, {}, {Between(90)}, Place, SizeCopy});
  all.push_back(
      {"copy_positions", Kernel::kCopyPositions, {}, {Between(91), Between(92)}, Copy, SizeCopy});
  all.push_back(
      {"transpose", Kernel::kTranspose, {}, {Between(93)}, [](const Shape& s, const In& in) -> Out {
         return {Define(s.cols, s.rows,
                        [&](auto r, auto c, double&) { return double{in[0].at(c, r)}; })};
       }});
  all.push_back({"bias_residual",
                 Kernel::kBiasResidual,
                 {},
                 {Between(94), Between(95), Between(96)},
                 [](const Shape& s, const In& in) -> Out {
                   return {DefineSums(s.rows, s.cols, [&](auto r, auto c, Sum& sum) {
                     sum.Add(in[0].at(r, c));
                     sum.Add(in[1].at(0, c));
                     sum.Add(in[2].at(r, c));
                   })};
                 }});
  AddGroupNorms(all);
  AddGlobalPooling(all);
  AddDepthwise(all);
}

}  // namespace acan::test
