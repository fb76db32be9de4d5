// The definitions of the operators of graphs other than products: norms, tables, dropout, cross
// entropy and others.
#include <fmt/format.h>

#include "acan/core/philox.h"
#include "operations_define.h"

namespace acan::test {
namespace {

constexpr std::int64_t kGroup = 48;

void AddElements(std::vector<Operation>& all) {
  const Values x = Between(31, -3.0f, 3.0f), y = Between(32), z = Between(33);
  for (const ActivationRow& each : kActivations) {
    const Activation activation = each.activation;
    all.push_back({fmt::format("act_{}", each.word),
                   Kernel::kActivation,
                   {.f = {kBound}, .i = {static_cast<std::int64_t>(activation)}},
                   {x},
                   ElementByElement([=](auto at) { return Activated(activation, at(0)); })});
  }
  all.push_back({"multiply", Kernel::kMultiply, {}, {x, y}, ElementByElement([](auto at) {
                   return at(0) * at(1);
                 })});
  all.push_back(
      {"scale", Kernel::kScale, {.f = {0.75f}, .i = {}}, {x}, ElementByElement([](auto at) {
         return at(0) * 0.75;
       })});
  const auto times = [](bool columns) {
    return [=](const Shape& s, const In& in) -> Out {
      return {Define(s.rows, s.cols, [&](auto r, auto c, double&) {
        return double{in[0].at(r, c)} * in[1].at(0, columns ? c : 0);
      })};
    };
  };
  all.push_back({"scale_by", Kernel::kScaleBy, {}, {x, y}, times(false)});
  all.push_back({"scale_columns", Kernel::kScaleColumns, {}, {x, y}, times(true)});
  all.push_back({"swiglu", Kernel::kSwiGlu, {}, {x, y}, ElementByElement([](auto at) {
                   return Activated(Activation::kSilu, at(0)) * at(1);
                 })});
  all.push_back(
      {"swiglu_gradient",
       Kernel::kSwiGluGradient,
       {},
       {x, y, z},
       ElementByElement([](auto at) { return at(2) * at(1) * Slope(Activation::kSilu, at(0)); },
                        [](auto at) { return at(2) * Activated(Activation::kSilu, at(0)); })});
  all.push_back(
      {"clip_factor",
       Kernel::kClipFactor,
       {.f = {1.0f, 1e-6f}, .i = {}},
       {Between(34, 0.01f, 3.0f)},
       ElementByElement([](auto at) { return std::min(1.0, 1.0 / (std::sqrt(at(0)) + 1e-6)); })});
}

// Mean (0 for an RMS norm) and 1 / sqrt(variance + epsilon).
std::pair<double, double> Statistics(const Host& x, std::int64_t r, bool centered, double epsilon) {
  const auto count = static_cast<double>(x.cols);
  double mean = 0, variance = 0;
  for (std::int64_t c = 0; centered && c < x.cols; ++c) mean += x.at(r, c) / count;
  for (std::int64_t c = 0; c < x.cols; ++c) variance += std::pow(x.at(r, c) - mean, 2) / count;
  return {mean, 1 / std::sqrt(variance + epsilon)};
}

Out Norm(const In& in, bool centered) {
  constexpr double kEpsilon = 0.01;
  const Host& x = in[0];
  const auto error = [](double inverse) { return inverse + inverse * inverse; };
  return {Define(x.rows, x.cols,
                 [&](auto r, auto c, double& magnitude) {
                   const auto [mean, inverse] = Statistics(x, r, centered, kEpsilon);
                   magnitude = error(inverse);
                   return (x.at(r, c) - mean) * inverse * in[1].at(0, c) + in[2].at(0, c);
                 }),
          Define(x.rows, 2, [&](auto r, auto c, double& magnitude) {
            const auto [mean, inverse] = Statistics(x, r, centered, kEpsilon);
            magnitude = c == 0 ? 1.0 : inverse * error(inverse);
            return c == 0 ? mean : inverse;
          })};
}

Out NormGradient(const In& in, bool centered) {
  const Host &x = in[0], &statistics = in[1], &dy = in[2], &scale = in[3];
  const auto count = static_cast<double>(x.cols);
  const auto h = [&](auto r, auto c) {
    return (double{x.at(r, c)} - statistics.at(r, 0)) * statistics.at(r, 1);
  };
  const auto g = [&](auto r, auto c) { return double{dy.at(r, c)} * scale.at(0, c); };
  std::vector<double> means, dots;
  for (std::int64_t r = 0; r < x.rows; ++r) {
    double sum = 0, dot = 0;
    for (std::int64_t c = 0; c < x.cols; ++c) {
      sum += g(r, c);
      dot += g(r, c) * h(r, c);
    }
    means.push_back(centered ? sum / count : 0);
    dots.push_back(dot / count);
  }
  return {Define(x.rows, x.cols, [&](auto r, auto c, double& magnitude) {
    magnitude = 20.0;
    const auto row = static_cast<std::size_t>(r);
    return (g(r, c) - means[row] - h(r, c) * dots[row]) * statistics.at(r, 1);
  })};
}

Out NormScaleGradient(const In& in) {
  const Host &x = in[0], &statistics = in[1], &dy = in[2];
  return {DefineSums(1, x.cols,
                     [&](auto, auto c, Sum& sum) {
                       for (std::int64_t r = 0; r < x.rows; ++r) {
                         const double h =
                             (double{x.at(r, c)} - statistics.at(r, 0)) * statistics.at(r, 1);
                         sum.Add(dy.at(r, c) * h);
                       }
                     }),
          DefineSums(1, x.cols, [&](auto, auto c, Sum& sum) {
            for (std::int64_t r = 0; r < x.rows; ++r) sum.Add(dy.at(r, c));
          })};
}

void AddNorms(std::vector<Operation>& all) {
  for (const std::int64_t kind : {0, 1}) {
    const std::string word = kind == 0 ? "layer_norm" : "rms_norm";
    const KernelScalars scalars{.f = {0.01f}, .i = {kind}};
    all.push_back({word,
                   Kernel::kNorm,
                   scalars,
                   {Between(35), Between(36), Between(37)},
                   [=](const Shape&, const In& in) { return Norm(in, kind == 0); }});
    all.push_back({word + "_gradient",
                   Kernel::kNormGradient,
                   scalars,
                   {Between(38), Between(39, 0.5f, 2.0f), Between(40), Between(41)},
                   [=](const Shape&, const In& in) { return NormGradient(in, kind == 0); }});
  }
  const KernelScalars groups{.f = {}, .i = {kBlock, kGroup}};
  all.push_back({"norm_scale_gradient",
                 Kernel::kNormScaleGradient,
                 groups,
                 {Between(42), Between(43, 0.5f, 2.0f), Between(44)},
                 [](const Shape&, const In& in) { return NormScaleGradient(in); }});
  all.push_back({"column_dots",
                 Kernel::kColumnDots,
                 groups,
                 {Between(45), Between(46)},
                 [](const Shape& s, const In& in) -> Out {
                   return {DefineSums(1, s.cols, [&](auto, auto c, Sum& sum) {
                     for (std::int64_t r = 0; r < s.rows; ++r) {
                       sum.Add(double{in[0].at(r, c)} * in[1].at(r, c));
                     }
                   })};
                 }});
}

// The pairs of three heads of 2 x s.cols columns each, at positions from 2 on.
Out Rotary(const Shape& s, const In& in, double sign) {
  const std::int64_t half = s.cols;
  return {Define(s.rows, 6 * half, [&](auto r, auto c, double& magnitude) {
    magnitude = 2.0;
    const std::int64_t i = c % half, p = (2 + r) % s.inner;
    const double cosine = in[1].at(p, i), sine = sign * in[2].at(p, i);
    return c % (2 * half) < half ? in[0].at(r, c) * cosine - in[0].at(r, c + half) * sine
                                 : in[0].at(r, c) * cosine + in[0].at(r, c - half) * sine;
  })};
}

Out EmbeddingGradient(const Shape& s, const In& in) {
  return {DefineSums(s.inner, s.cols, [&](auto t, auto c, Sum& sum) {
    for (std::int64_t r = 0; r < s.rows; ++r) {
      if (t + 2 != 4 && IntegerAt(in[0], r) == t + 2) sum.Add(in[1].at(r, c));
    }
  })};
}

void AddTables(std::vector<Operation>& all) {
  for (const std::int64_t back : {0, 1}) {
    all.push_back(
        {back == 0 ? "rotary" : "rotary_back",
         Kernel::kRotary,
         {.f = {}, .i = {back, 2}},
         {Between(47), Between(48), Between(49)},
         [=](const Shape& s, const In& in) { return Rotary(s, in, back == 0 ? 1 : -1); }});
  }
  all.push_back({"embedding",
                 Kernel::kEmbedding,
                 {},
                 {[](const Shape& s, auto rows, auto) {
                    return Integers(rows, [&](std::int64_t r) { return r * 7 % s.inner; });
                  },
                  Between(50)},
                 [](const Shape& s, const In& in) -> Out {
                   return {Define(s.rows, s.cols, [&](auto r, auto c, double&) {
                     return double{in[1].at(IntegerAt(in[0], r), c)};
                   })};
                 }});
  // Word numbers from 2 on, some of them outside the table; 4 is padding.
  all.push_back({"embedding_gradient",
                 Kernel::kEmbeddingGradient,
                 {.f = {}, .i = {kBlock, kGroup, 2, 4}},
                 {[](const Shape& s, auto rows, auto) {
                    return Integers(rows, [&](std::int64_t r) { return r * r % (s.inner + 3); });
                  },
                  Between(51)},
                 [](const Shape& s, const In& in) { return EmbeddingGradient(s, in); }});
  all.push_back({"positions",
                 Kernel::kPositions,
                 {.f = {}, .i = {3}},
                 {Between(52), Between(53)},
                 [](const Shape& s, const In& in) -> Out {
                   return {Define(s.rows, s.cols, [&](auto r, auto c, double& magnitude) {
                     magnitude = 1.0;
                     return double{in[0].at(r, c)} + in[1].at((3 + r) % s.inner, c);
                   })};
                 }});
  all.push_back({"positions_gradient",
                 Kernel::kPositionsGradient,
                 {.f = {}, .i = {2}},
                 {Between(54)},
                 [](const Shape& s, const In& in) -> Out {
                   return {DefineSums(s.inner, s.cols, [&](auto p, auto c, Sum& sum) {
                     for (std::int64_t i = 0; i < 3; ++i) sum.Add(in[0].at(i * s.inner + p, c));
                   })};
                 }});
}

void AddDropout(std::vector<Operation>& all) {
  constexpr std::int64_t kSeed = 99, kHigh = INT64_MIN + 7, kRow = 5, kCol = 3, kWidth = 333;
  for (const std::int64_t unit : {0, 1}) {
    all.push_back({unit == 0 ? "dropout" : "dropout_samples",
                   Kernel::kDropout,
                   {.f = {0.25f, 4.0f / 3.0f}, .i = {unit, kSeed, kHigh, kRow, kCol, kWidth, 4}},
                   {Between(55)},
                   [=](const Shape& s, const In& in) -> Out {
                     return {Define(s.rows, s.cols, [&](std::int64_t r, std::int64_t c, double&) {
                       const auto element = static_cast<std::uint64_t>(
                           unit == 0 ? (kRow + r) * kWidth + kCol + c : (kRow + r) / 4);
                       const acan_philox4 words =
                           acan_philox(kSeed, element / 4, static_cast<std::uint64_t>(kHigh));
                       const bool keeps = acan_unit_float(words.v[element % 4]) >= 0.25f;
                       return keeps ? in[0].at(r, c) * 4.0 / 3.0 : 0.0;
                     })};
                   }});
  }
}

Values Columns(std::int64_t first) {
  return [=](const Shape& s, auto rows, auto) {
    return Integers(rows, [&](std::int64_t r) { return first + r * 5 % (2 * s.cols); });
  };
}

Out ClassSums(const In& in) {
  const Host &x = in[0], &largest = in[1];
  return {DefineSums(x.rows, 3, [&](auto r, auto which, Sum& sum) {
    for (std::int64_t c = 0; c < x.cols; ++c) {
      const double difference = double{x.at(r, c)} - largest.at(r, 0);
      if (which == 0) sum.Add(std::exp(difference));
      if (which == 1 && IntegerAt(in[2], r) == 10 + c) sum.Add(difference);
      if (which == 2) sum.Add(difference);
    }
  })};
}

Out CrossEntropyLoss(const Shape& s, const In& in) {
  const auto label = [&](auto r) { return IntegerAt(in[2], r); };
  return {Define(s.rows, 1,
                 [&](auto r, auto, double& magnitude) {
                   magnitude = 10.0;
                   const double log_sum = std::log(double{in[0].at(r, 0)});
                   const double smooth = log_sum - in[0].at(r, 2) / 1000.0;
                   return label(r) == 12 ? 0.0 : 0.9 * (log_sum - in[0].at(r, 1)) + 0.1 * smooth;
                 }),
          Define(s.rows, 1, [&](auto r, auto, double&) {
            return label(r) != 12 && label(r) == IntegerAt(in[1], r) ? 1.0 : 0.0;
          })};
}

Out CrossEntropyGradient(const Shape& s, const In& in) {
  return {Define(s.rows, s.cols, [&](auto r, auto c, double& magnitude) {
    magnitude = 1.0;
    const std::int64_t label = IntegerAt(in[3], r);
    if (label == 12) return 0.0;
    const double p = std::exp(double{in[0].at(r, c)} - in[1].at(r, 0)) / in[2].at(r, 0);
    return (p - (label == 10 + c ? 0.9 : 0.0) - 0.1 / 1000) * 0.5;
  })};
}

void AddClasses(std::vector<Operation>& all) {
  const Values logits = Between(56, -9.0f, 0.0f), largest = Between(57, 0.0f, 1.0f);
  const Values sums = Between(58, 1.0f, 5.0f);
  all.push_back(
      {"class_maxima",
       Kernel::kClassMaxima,
       {.f = {}, .i = {10}},
       {logits},
       [](const Shape& s, const In& in) -> Out {
         const auto best = [&](auto r) {
           std::int64_t column = 0;
           for (std::int64_t c = 1; c < s.cols; ++c) {
             if (in[0].at(r, c) > in[0].at(r, column)) column = c;
           }
           return column;
         };
         return {
             Define(s.rows, 1, [&](auto r, auto, double&) { return double{in[0].at(r, best(r))}; }),
             Define(s.rows, 1, [&](auto r, auto, double&) { return AsFloat(10 + best(r)); })};
       }});
  all.push_back({"combine_maxima",
                 Kernel::kCombineMaxima,
                 {},
                 {largest, Columns(0), Between(59, 0.0f, 1.0f), Columns(1000)},
                 [](const Shape& s, const In& in) -> Out {
                   const auto right = [&](auto r) { return in[2].at(r, 0) > in[0].at(r, 0); };
                   return {Define(s.rows, 1,
                                  [&](auto r, auto, double&) {
                                    return double{in[right(r) ? 2 : 0].at(r, 0)};
                                  }),
                           Define(s.rows, 1, [&](auto r, auto, double&) {
                             return AsFloat(IntegerAt(in[right(r) ? 3 : 1], r));
                           })};
                 }});
  all.push_back({"class_sums",
                 Kernel::kClassSums,
                 {.f = {}, .i = {10}},
                 {logits, largest, Columns(10)},
                 [](const Shape&, const In& in) { return ClassSums(in); }});
  all.push_back({"cross_entropy_loss",
                 Kernel::kCrossEntropyLoss,
                 {.f = {0.1f}, .i = {1000, 12}},
                 {sums, Columns(0), Columns(1)},
                 [](const Shape& s, const In& in) { return CrossEntropyLoss(s, in); }});
  all.push_back({"cross_entropy_gradient",
                 Kernel::kCrossEntropyGradient,
                 {.f = {0.5f, 0.1f}, .i = {10, 1000, 12}},
                 {logits, largest, sums, Columns(10)},
                 [](const Shape& s, const In& in) { return CrossEntropyGradient(s, in); }});
  all.push_back({"row_squares",
                 Kernel::kRowSquares,
                 {},
                 {Between(60)},
                 [](const Shape& s, const In& in) -> Out {
                   return {DefineSums(s.rows, 1, [&](auto r, auto, Sum& sum) {
                     for (std::int64_t c = 0; c < s.cols; ++c) sum.Add(std::pow(in[0].at(r, c), 2));
                   })};
                 }});
}

}  // namespace

void AddGraphOperations(std::vector<Operation>& all) {
  AddElements(all);
  AddNorms(all);
  AddTables(all);
  AddDropout(all);
  AddClasses(all);
}

}  // namespace acan::test
