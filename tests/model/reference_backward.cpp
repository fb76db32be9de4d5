// Backward operators in float64, from the definitions in gradient_operators.h.
#include <cmath>
#include <numbers>

#include "reference.h"

namespace acan::model {
namespace {

// A row of a norm, normalized: h = (x - mean) / root.
struct Row {
  double mean = 0;
  double root = 1;
};

struct Backward {
  const Call& c;

  template <class F>
  void ForEach(const F& f, std::size_t result = 0) const {
    Matrix& out = c.out[result];
    for (std::int64_t r = 0; r < out.rows; ++r) {
      for (std::int64_t k = 0; k < out.columns; ++k) out.at(r, k) = f(r, k);
    }
  }
  // out[0, k] = sum over r of f(r, k)
  template <class F>
  void Columns(std::int64_t rows, const F& f, std::size_t result = 0) const {
    Matrix& out = c.out[result];
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t k = 0; k < out.columns; ++k) out.at(0, k) += f(r, k);
    }
  }

  void operator()(const LinearInputGradient&) const {
    ForEach([&](std::int64_t r, std::int64_t i) {
      double sum = 0;
      for (std::int64_t o = 0; o < c.x(0).columns; ++o) sum += c.x(0).at(r, o) * c.x(1).at(o, i);
      return sum;
    });
  }
  void operator()(const LinearWeightGradient&) const {
    ForEach([&](std::int64_t o, std::int64_t i) {
      double sum = 0;
      for (std::int64_t r = 0; r < c.x(0).rows; ++r) sum += c.x(0).at(r, o) * c.x(1).at(r, i);
      return sum;
    });
  }
  void operator()(const ColumnSums&) const {
    Columns(c.x(0).rows, [&](std::int64_t r, std::int64_t k) { return c.x(0).at(r, k); });
  }
  void operator()(const ColumnDots&) const {
    Columns(c.x(0).rows,
            [&](std::int64_t r, std::int64_t k) { return c.x(0).at(r, k) * c.x(1).at(r, k); });
  }
  void operator()(const EmbeddingGradient& op) const {
    for (std::int64_t r = 0; r < c.x(1).rows; ++r) {
      const auto id = static_cast<std::int64_t>(c.x(0).at(r, 0));
      if (id == op.forward.padding_id) continue;
      for (std::int64_t k = 0; k < c.x(1).columns; ++k) c.out[0].at(id, k) += c.x(1).at(r, k);
    }
  }
  void operator()(const LearnedPositionsGradient& op) const {
    const std::int64_t positions = c.positions(c.x(0));
    for (std::int64_t r = 0; r < c.x(0).rows; ++r) {
      for (std::int64_t k = 0; k < c.x(0).columns; ++k) {
        c.out[0].at(op.first + r % positions, k) += c.x(0).at(r, k);
      }
    }
  }

  void operator()(const AttentionGradient& op) const {
    const Attention& a = op.forward;
    const std::int64_t positions = c.positions(c.x(0));
    for (std::int64_t row = 0; row < c.x(0).rows; ++row) {
      const std::int64_t first = row / positions * positions;
      const std::int64_t length =
          c.has(3) ? static_cast<std::int64_t>(c.x(3).at(row / positions, 0)) : positions;
      for (std::int64_t head = 0; head < a.heads; ++head) {
        for (std::int64_t j = 0; j < VisibleKeys(a, row - first, length); ++j) {
          AttendBack(a, row, first + j, j, head);
        }
      }
    }
  }
  // Adds the terms of one pair of a query row and a key row.
  void AttendBack(const Attention& a, std::int64_t row, std::int64_t key_row, std::int64_t key,
                  std::int64_t head) const {
    const Matrix &q = c.x(0), &k = c.x(1), &v = c.x(2), &statistics = c.x(4), &o = c.x(5),
                 &d_o = c.x(6);
    const std::int64_t d = q.columns / a.heads;
    const std::int64_t qc = head * d;
    const std::int64_t kc = head / (a.heads / a.key_value_heads) * d;
    const auto scale = static_cast<double>(a.scale);
    double s = 0, dot = 0, total = 0;
    for (std::int64_t i = 0; i < d; ++i) {
      s += scale * q.at(row, qc + i) * k.at(key_row, kc + i);
      dot += d_o.at(row, qc + i) * v.at(key_row, kc + i);
      total += d_o.at(row, qc + i) * o.at(row, qc + i);
    }
    const double w = std::exp(s - statistics.at(row, 2 * head) * std::numbers::ln2) /
                     statistics.at(row, 2 * head + 1);
    const double m = AttentionDropout(a, c.batch, row, head, key, c.positions(q));
    const double ds = w * (m * dot - total);
    for (std::int64_t i = 0; i < d; ++i) {
      c.out[0].at(row, qc + i) += scale * ds * k.at(key_row, kc + i);
      c.out[1].at(key_row, kc + i) += scale * ds * q.at(row, qc + i);
      c.out[2].at(key_row, kc + i) += w * m * d_o.at(row, qc + i);
    }
  }

  static Row LayerRow(const Matrix& x, std::int64_t r, double epsilon) {
    double sum = 0, squares = 0;
    for (std::int64_t k = 0; k < x.columns; ++k) sum += x.at(r, k);
    const double mean = sum / static_cast<double>(x.columns);
    for (std::int64_t k = 0; k < x.columns; ++k) squares += std::pow(x.at(r, k) - mean, 2);
    return {mean, std::sqrt(squares / static_cast<double>(x.columns) + epsilon)};
  }
  static Row RmsRow(const Matrix& x, std::int64_t r, double epsilon) {
    double squares = 0;
    for (std::int64_t k = 0; k < x.columns; ++k) squares += x.at(r, k) * x.at(r, k);
    return {0, std::sqrt(squares / static_cast<double>(x.columns) + epsilon)};
  }
  // dx of a row whose h is (x - mean) / root; without `centered`, the mean does not depend on x.
  void NormRow(std::int64_t r, const Row& row, bool centered) const {
    const Matrix &x = c.x(0), &dy = c.x(2);
    double sum = 0, dots = 0;
    const auto g = [&](std::int64_t k) { return dy.at(r, k) * (c.has(1) ? c.x(1).at(0, k) : 1); };
    const auto h = [&](std::int64_t k) { return (x.at(r, k) - row.mean) / row.root; };
    for (std::int64_t k = 0; k < x.columns; ++k) {
      sum += g(k);
      dots += g(k) * h(k);
    }
    const auto n = static_cast<double>(x.columns);
    for (std::int64_t k = 0; k < x.columns; ++k) {
      c.out[0].at(r, k) = (g(k) - (centered ? sum / n : 0) - h(k) * dots / n) / row.root;
    }
  }
  void operator()(const LayerNormGradient& op) const {
    for (std::int64_t r = 0; r < c.x(0).rows; ++r) {
      NormRow(r, LayerRow(c.x(0), r, static_cast<double>(op.epsilon)), true);
    }
  }
  void operator()(const RmsNormGradient& op) const {
    for (std::int64_t r = 0; r < c.x(0).rows; ++r) {
      NormRow(r, RmsRow(c.x(0), r, static_cast<double>(op.epsilon)), false);
    }
  }
  void operator()(const LayerNormScaleGradient& op) const {
    Columns(c.x(0).rows, [&](std::int64_t r, std::int64_t k) {
      const Row row = LayerRow(c.x(0), r, static_cast<double>(op.epsilon));
      return c.x(1).at(r, k) * (c.x(0).at(r, k) - row.mean) / row.root;
    });
  }
  void operator()(const RmsNormScaleGradient& op) const {
    Columns(c.x(0).rows, [&](std::int64_t r, std::int64_t k) {
      return c.x(1).at(r, k) * c.x(0).at(r, k) /
             RmsRow(c.x(0), r, static_cast<double>(op.epsilon)).root;
    });
  }

  void operator()(const BatchNormSums& op) const {
    Columns(c.x(0).rows, [&](std::int64_t r, std::int64_t k) {
      return c.x(3).at(r, k) * (c.x(0).at(r, k) - c.x(1).at(0, k)) /
             std::sqrt(c.x(2).at(0, k) + static_cast<double>(op.epsilon));
    });
    Columns(
        c.x(0).rows, [&](std::int64_t r, std::int64_t k) { return c.x(3).at(r, k); }, 1);
  }
  void operator()(const BatchNormGradient& op) const {
    const auto rows = static_cast<double>(c.x(0).rows);
    ForEach([&](std::int64_t r, std::int64_t k) {
      const double root = std::sqrt(c.x(3).at(0, k) + static_cast<double>(op.epsilon));
      const double h = (c.x(0).at(r, k) - c.x(2).at(0, k)) / root;
      return (c.x(6).at(r, k) - c.x(5).at(0, k) / rows - h * c.x(4).at(0, k) / rows) *
             c.x(1).at(0, k) / root;
    });
  }
  void operator()(const BatchNormInferenceGradient& op) const {
    ForEach([&](std::int64_t r, std::int64_t k) {
      return c.x(2).at(r, k) * c.x(0).at(0, k) /
             std::sqrt(c.x(1).at(0, k) + static_cast<double>(op.epsilon));
    });
  }

  // The mean and root for the group of channel k in the sample of row r.
  Row GroupRow(const GroupNorm& op, std::int64_t r, std::int64_t k) const {
    const Matrix& x = c.x(0);
    const std::int64_t positions = c.positions(x);
    const std::int64_t width = x.columns / op.groups;
    double sum = 0, squares = 0;
    const auto each = [&](const auto& f) {
      for (std::int64_t p = r / positions * positions; p < (r / positions + 1) * positions; ++p) {
        for (std::int64_t i = k / width * width; i < (k / width + 1) * width; ++i) f(x.at(p, i));
      }
    };
    each([&](double value) { sum += value; });
    const auto n = static_cast<double>(positions * width);
    each([&](double value) { squares += std::pow(value - sum / n, 2); });
    return {sum / n, std::sqrt(squares / n + static_cast<double>(op.epsilon))};
  }
  void operator()(const GroupNormGradient& op) const {
    const Matrix &x = c.x(0), &scale = c.x(1), &dy = c.x(2);
    const std::int64_t positions = c.positions(x);
    const std::int64_t width = x.columns / op.forward.groups;
    const auto n = static_cast<double>(positions * width);
    ForEach([&](std::int64_t r, std::int64_t k) {
      const Row row = GroupRow(op.forward, r, k);
      double sum = 0, dots = 0;
      for (std::int64_t p = r / positions * positions; p < (r / positions + 1) * positions; ++p) {
        for (std::int64_t i = k / width * width; i < (k / width + 1) * width; ++i) {
          sum += dy.at(p, i) * scale.at(0, i);
          dots += dy.at(p, i) * scale.at(0, i) * (x.at(p, i) - row.mean) / row.root;
        }
      }
      return (dy.at(r, k) * scale.at(0, k) - sum / n -
              (x.at(r, k) - row.mean) / row.root * dots / n) /
             row.root;
    });
  }
  void operator()(const GroupNormScaleGradient& op) const {
    Columns(c.x(0).rows, [&](std::int64_t r, std::int64_t k) {
      const Row row = GroupRow(op.forward, r, k);
      return c.x(1).at(r, k) * (c.x(0).at(r, k) - row.mean) / row.root;
    });
  }

  // Calls visit(result row, image row, tap) for every pair inside the image.
  template <class Visit>
  void ForEachTap(const Window& w, const Visit& visit) const {
    const Extent out = w.output();
    for (std::int64_t r = 0; r < c.samples() * out.area(); ++r) {
      for (std::int64_t tap = 0; tap < w.kernel.area(); ++tap) {
        const std::int64_t iy =
            r % out.area() / out.width * w.stride.height - w.padding.height + tap / w.kernel.width;
        const std::int64_t ix =
            r % out.width * w.stride.width - w.padding.width + tap % w.kernel.width;
        if (iy < 0 || iy >= w.input.height || ix < 0 || ix >= w.input.width) continue;
        visit(r, r / out.area() * w.input.area() + iy * w.input.width + ix, tap);
      }
    }
  }
  void operator()(const ConvolutionInputGradient& op) const {
    const Matrix &dy = c.x(0), &weight = c.x(1);
    const std::int64_t inputs = c.out[0].columns / op.forward.groups;
    const std::int64_t outputs = dy.columns / op.forward.groups;
    ForEachTap(op.forward.window, [&](std::int64_t r, std::int64_t pixel, std::int64_t tap) {
      for (std::int64_t o = 0; o < dy.columns; ++o) {
        for (std::int64_t i = 0; i < inputs; ++i) {
          c.out[0].at(pixel, o / outputs * inputs + i) +=
              dy.at(r, o) * weight.at(o, tap * inputs + i);
        }
      }
    });
  }
  void operator()(const ConvolutionWeightGradient& op) const {
    const Matrix &dy = c.x(0), &x = c.x(1);
    const std::int64_t inputs = x.columns / op.forward.groups;
    const std::int64_t outputs = dy.columns / op.forward.groups;
    ForEachTap(op.forward.window, [&](std::int64_t r, std::int64_t pixel, std::int64_t tap) {
      for (std::int64_t o = 0; o < dy.columns; ++o) {
        for (std::int64_t i = 0; i < inputs; ++i) {
          c.out[0].at(o, tap * inputs + i) += dy.at(r, o) * x.at(pixel, o / outputs * inputs + i);
        }
      }
    });
  }
  void operator()(const PoolingGradient& op) const {
    const Matrix& dy = c.x(1);
    const auto area = static_cast<double>(op.forward.window.kernel.area());
    Matrix first(dy.rows, dy.columns);  // pixel of the maximum + 1; 0: none yet
    ForEachTap(op.forward.window, [&](std::int64_t r, std::int64_t pixel, std::int64_t) {
      for (std::int64_t k = 0; k < dy.columns; ++k) {
        if (op.forward.kind == PoolingKind::kAverage) {
          c.out[0].at(pixel, k) += dy.at(r, k) / area;
          continue;
        }
        const auto best = static_cast<std::int64_t>(first.at(r, k)) - 1;
        if (best < 0 || c.x(0).at(pixel, k) > c.x(0).at(best, k)) {
          first.at(r, k) = static_cast<double>(pixel + 1);
        }
      }
    });
    if (op.forward.kind == PoolingKind::kAverage) return;
    for (std::int64_t r = 0; r < dy.rows; ++r) {
      for (std::int64_t k = 0; k < dy.columns; ++k) {
        c.out[0].at(static_cast<std::int64_t>(first.at(r, k)) - 1, k) += dy.at(r, k);
      }
    }
  }
  void operator()(const GlobalPoolingGradient& op) const {
    const Matrix& dy = c.x(2);
    for (std::int64_t s = 0; s < dy.rows; ++s) {
      const std::int64_t begin = s * op.positions;
      const std::int64_t length =
          c.has(1) ? static_cast<std::int64_t>(c.x(1).at(s, 0)) : op.positions;
      for (std::int64_t k = 0; k < dy.columns; ++k) {
        std::int64_t best = begin;
        for (std::int64_t r = begin; r < begin + length; ++r) {
          if (op.forward.kind == PoolingKind::kAverage) {
            c.out[0].at(r, k) = dy.at(s, k) / static_cast<double>(length);
          } else if (c.x(0).at(r, k) > c.x(0).at(best, k)) {
            best = r;
          }
        }
        if (op.forward.kind == PoolingKind::kMaximum) c.out[0].at(best, k) = dy.at(s, k);
      }
    }
  }
  void operator()(const PatchesGradient& op) const {
    const Extent &input = op.forward.input, &patch = op.forward.patch;
    const std::int64_t channels = c.out[0].columns;
    ForEach([&](std::int64_t r, std::int64_t k) {
      const std::int64_t y = r % input.area() / input.width;
      const std::int64_t x = r % input.width;
      const std::int64_t row = r / input.area() * (input.area() / patch.area()) +
                               y / patch.height * (input.width / patch.width) + x / patch.width;
      return c.x(0).at(row, (y % patch.height * patch.width + x % patch.width) * channels + k);
    });
  }
  void operator()(const SliceGradient& op) const {
    const Matrix& dy = c.x(0);
    for (std::int64_t r = 0; r < dy.rows; ++r) {
      for (std::int64_t k = 0; k < dy.columns; ++k) {
        if (op.axis == SliceAxis::kPositions) {
          const std::int64_t part = c.positions(dy);
          c.out[0].at(r / part * op.size + op.begin + r % part, k) = dy.at(r, k);
        } else {
          c.out[0].at(r, op.begin + k) = dy.at(r, k);
        }
      }
    }
  }

  static double Slope(const Activation& op, double v) {
    const double u = 1 / (1 + std::exp(-v));
    const double root = std::sqrt(2 / std::numbers::pi);
    const double t = std::tanh(root * (v + 0.044715 * v * v * v));
    switch (op.kind) {
      case ActivationKind::kRelu:
      case ActivationKind::kClippedRelu:
        return v > 0 ? 1 : 0;
      case ActivationKind::kTanh:
        return 1 - v * v;
      case ActivationKind::kSigmoid:
        return v * (1 - v);
      case ActivationKind::kSilu:
        return u * (1 + v * (1 - u));
      case ActivationKind::kGelu:
        return 0.5 * std::erfc(-v / std::numbers::sqrt2) +
               v * std::exp(-v * v / 2) / std::sqrt(2 * std::numbers::pi);
      case ActivationKind::kGeluTanh:
        return 0.5 * (1 + t) + v / 2 * (1 - t * t) * root * (1 + 3 * 0.044715 * v * v);
    }
    return 0;
  }
  void operator()(const ActivationGradient& op) const {
    ForEach([&](std::int64_t r, std::int64_t k) {
      return c.x(1).at(r, k) * Slope(op.forward, c.x(0).at(r, k));
    });
  }
  void operator()(const SwiGluGradient&) const {
    const auto u = [&](std::int64_t r, std::int64_t k) {
      return 1 / (1 + std::exp(-c.x(0).at(r, k)));
    };
    ForEach([&](std::int64_t r, std::int64_t k) {
      return c.x(2).at(r, k) * c.x(1).at(r, k) * u(r, k) * (1 + c.x(0).at(r, k) * (1 - u(r, k)));
    });
    ForEach(
        [&](std::int64_t r, std::int64_t k) { return c.x(2).at(r, k) * c.x(0).at(r, k) * u(r, k); },
        1);
  }

  void operator()(const CrossEntropyGradient& op) const {
    const Matrix& x = c.x(0);
    const auto t = static_cast<double>(op.forward.label_smoothing);
    const double divisor = CountedLabels(op.forward, c.x(1));
    for (std::int64_t r = 0; r < x.rows; ++r) {
      const auto label = static_cast<std::int64_t>(c.x(1).at(r, 0));
      if (label == op.forward.ignored_label) continue;
      double sum = 0;
      for (std::int64_t k = 0; k < x.columns; ++k) sum += std::exp(x.at(r, k));
      for (std::int64_t k = 0; k < x.columns; ++k) {
        c.out[0].at(r, k) = (std::exp(x.at(r, k)) / sum - (k == label ? 1 - t : 0) -
                             t / static_cast<double>(x.columns)) /
                            divisor;
      }
    }
  }
  void operator()(const SquaredErrorGradient&) const {
    const auto elements = static_cast<double>(c.x(0).values.size());
    ForEach([&](std::int64_t r, std::int64_t k) {
      return 2 * (c.x(0).at(r, k) - c.x(1).at(r, k)) / elements;
    });
  }

  // Forward operators that gradients use as well.
  template <class Shared>
  void operator()(const Shared& op) const {
    ComputeForward(op, c);
  }
};

}  // namespace

void ComputeBackward(const Operator& op, const Call& call) {
  std::visit(Backward{call}, op);
}

}  // namespace acan::model
