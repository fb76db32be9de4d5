// Forward operators in float64.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "acan/core/philox.h"
#include "acan/model/dropout.h"
#include "reference.h"

namespace acan::model {

double CountedLabels(const CrossEntropy& op, const Matrix& labels) {
  double counted = 0;
  for (const double label : labels.values) {
    if (static_cast<std::int64_t>(label) != op.ignored_label) ++counted;
  }
  return counted;
}

std::int64_t VisibleKeys(const Attention& op, std::int64_t query, std::int64_t length) {
  return op.mask == AttentionMask::kCausal ? std::min(query + 1, length) : length;
}

bool DropoutKeeps(std::uint64_t seed, std::int64_t step, std::int64_t stream, std::uint64_t element,
                  float rate) {
  const acan_philox4 words = acan_philox(seed, element / 4, DropoutCounterHigh(step, stream));
  return acan_unit_float(words.v[element % 4]) >= rate;
}

double AttentionDropout(const Attention& op, const Batch& batch, std::int64_t row,
                        std::int64_t head, std::int64_t key, std::int64_t positions) {
  if (op.dropout == 0.0f) return 1;
  const auto element = static_cast<std::uint64_t>((row * op.heads + head) * positions + key);
  const bool keeps = DropoutKeeps(batch.seed, batch.step, op.dropout_stream, element, op.dropout);
  return keeps ? 1 / (1 - static_cast<double>(op.dropout)) : 0;
}

double DropoutFactor(const Dropout& op, const Batch& batch, const Matrix& x, std::int64_t row,
                     std::int64_t column) {
  const std::int64_t positions = x.rows / batch.samples;
  const std::int64_t element =
      op.unit == DropoutUnit::kSample ? row / positions : row * x.columns + column;
  const bool keeps =
      DropoutKeeps(batch.seed, batch.step, op.stream, static_cast<std::uint64_t>(element), op.rate);
  return keeps ? 1 / (1 - static_cast<double>(op.rate)) : 0;
}

namespace {

double Activate(const Activation& op, double x) {
  switch (op.kind) {
    case ActivationKind::kRelu:
      return x > 0 ? x : 0;
    case ActivationKind::kClippedRelu:
      return x > 0 && x <= static_cast<double>(op.bound) ? x : 0;
    case ActivationKind::kGelu:
      return x * 0.5 * std::erfc(-x / std::numbers::sqrt2);
    case ActivationKind::kGeluTanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case ActivationKind::kSilu:
      return x / (1 + std::exp(-x));
    case ActivationKind::kTanh:
      return std::tanh(x);
    case ActivationKind::kSigmoid:
      return 1 / (1 + std::exp(-x));
  }
  throw std::logic_error("reference: an unknown activation");
}

// The mean and 1 / sqrt(variance + epsilon) of at(i) for 0 <= i < count.
template <class At>
std::pair<double, double> Moments(std::int64_t count, double epsilon, const At& at) {
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += at(i);
  const double mean = sum / static_cast<double>(count);
  for (std::int64_t i = 0; i < count; ++i) squares += (at(i) - mean) * (at(i) - mean);
  return {mean, 1 / std::sqrt(squares / static_cast<double>(count) + epsilon)};
}

struct Forward {
  const Call& c;

  const Matrix& x() const { return c.x(0); }
  Matrix& y() const { return c.out[0]; }
  template <class F>
  void ForEach(const F& f) const {
    for (std::int64_t r = 0; r < y().rows; ++r) {
      for (std::int64_t k = 0; k < y().columns; ++k) y().at(r, k) = f(r, k);
    }
  }

  void operator()(const Linear&) const {
    ForEach([&](std::int64_t r, std::int64_t o) {
      double sum = c.has(2) ? c.x(2).at(0, o) : 0;
      for (std::int64_t i = 0; i < x().columns; ++i) sum += x().at(r, i) * c.x(1).at(o, i);
      return sum;
    });
  }
  void operator()(const Embedding&) const {
    ForEach([&](std::int64_t r, std::int64_t k) {
      return c.x(1).at(static_cast<std::int64_t>(x().at(r, 0)), k);
    });
  }
  void operator()(const LearnedPositions& op) const {
    ForEach([&](std::int64_t r, std::int64_t k) { return x().at(op.first + r % op.rows, k); });
  }
  void operator()(const Rotary& op) const {
    const std::int64_t half = op.head_size / 2;
    const std::int64_t positions = c.positions(x());
    ForEach([&](std::int64_t r, std::int64_t k) {
      const std::int64_t i = k % op.head_size;
      const double angle =
          static_cast<double>(r % positions) *
          std::pow(static_cast<double>(op.base),
                   -2.0 * static_cast<double>(i % half) / static_cast<double>(op.head_size));
      const double sine = op.rotation == Rotation::kForward ? std::sin(angle) : -std::sin(angle);
      return i < half ? x().at(r, k) * std::cos(angle) - x().at(r, k + half) * sine
                      : x().at(r, k) * std::cos(angle) + x().at(r, k - half) * sine;
    });
  }

  void operator()(const Attention& op) const {
    const std::int64_t positions = c.positions(x());
    for (std::int64_t row = 0; row < x().rows; ++row) {
      const std::int64_t first = row / positions * positions;
      const std::int64_t length =
          c.has(3) ? static_cast<std::int64_t>(c.x(3).at(row / positions, 0)) : positions;
      for (std::int64_t head = 0; head < op.heads; ++head) {
        Attend(op, row, first, VisibleKeys(op, row - first, length), head);
      }
    }
  }
  void Attend(const Attention& op, std::int64_t row, std::int64_t first, std::int64_t keys,
              std::int64_t head) const {
    const std::int64_t d = x().columns / op.heads;
    const std::int64_t q = head * d;
    const std::int64_t kv = head / (op.heads / op.key_value_heads) * d;
    std::vector<double> s;
    double most = -INFINITY;
    for (std::int64_t j = 0; j < keys; ++j) {
      double dot = 0;
      for (std::int64_t i = 0; i < d; ++i) {
        dot += x().at(row, q + i) * c.x(1).at(first + j, kv + i);
      }
      s.push_back(static_cast<double>(op.scale) * dot);
      most = std::max(most, std::rint(s.back() / std::numbers::ln2));
    }
    double sum = 0;
    for (const double score : s) sum += std::exp(score - most * std::numbers::ln2);
    for (std::int64_t j = 0; j < keys; ++j) {
      const double w = std::exp(s[static_cast<std::size_t>(j)] - most * std::numbers::ln2) / sum *
                       AttentionDropout(op, c.batch, row, head, j, c.positions(x()));
      for (std::int64_t i = 0; i < d; ++i) y().at(row, q + i) += w * c.x(2).at(first + j, kv + i);
    }
    c.out[1].at(row, 2 * head) = most;
    c.out[1].at(row, 2 * head + 1) = sum;
  }

  void operator()(const LayerNorm& op) const {
    for (std::int64_t r = 0; r < x().rows; ++r) {
      const auto [mean, inverse] = Moments(x().columns, static_cast<double>(op.epsilon),
                                           [&](std::int64_t k) { return x().at(r, k); });
      for (std::int64_t k = 0; k < x().columns; ++k) {
        const double h = (x().at(r, k) - mean) * inverse;
        y().at(r, k) = h * (c.has(1) ? c.x(1).at(0, k) : 1) + (c.has(2) ? c.x(2).at(0, k) : 0);
      }
    }
  }
  void operator()(const RmsNorm& op) const {
    for (std::int64_t r = 0; r < x().rows; ++r) {
      double squares = 0;
      for (std::int64_t k = 0; k < x().columns; ++k) squares += x().at(r, k) * x().at(r, k);
      const double root =
          std::sqrt(squares / static_cast<double>(x().columns) + static_cast<double>(op.epsilon));
      for (std::int64_t k = 0; k < x().columns; ++k) {
        y().at(r, k) = x().at(r, k) / root * c.x(1).at(0, k);
      }
    }
  }
  void operator()(const BatchNorm& op) const {
    for (std::int64_t k = 0; k < x().columns; ++k) {
      const auto [mean, unused] =
          Moments(x().rows, 0, [&](std::int64_t r) { return x().at(r, k); });
      double variance = 0;
      for (std::int64_t r = 0; r < x().rows; ++r) {
        variance += (x().at(r, k) - mean) * (x().at(r, k) - mean);
      }
      variance /= static_cast<double>(x().rows);
      c.out[1].at(0, k) = mean;
      c.out[2].at(0, k) = variance;
      Normalize(k, mean, variance, static_cast<double>(op.epsilon));
    }
  }
  void operator()(const BatchNormInference& op) const {
    for (std::int64_t k = 0; k < x().columns; ++k) {
      Normalize(k, c.x(3).at(0, k), c.x(4).at(0, k), static_cast<double>(op.epsilon));
    }
  }
  void Normalize(std::int64_t k, double mean, double variance, double epsilon) const {
    for (std::int64_t r = 0; r < x().rows; ++r) {
      y().at(r, k) =
          (x().at(r, k) - mean) / std::sqrt(variance + epsilon) * c.x(1).at(0, k) + c.x(2).at(0, k);
    }
  }
  void operator()(const RunningAverage& op) const {
    const auto rows = static_cast<double>(op.positions * c.samples());
    const double factor =
        op.correction == Correction::kUnbiased && rows > 1 ? rows / (rows - 1) : 1;
    const auto m = static_cast<double>(op.momentum);
    ForEach([&](std::int64_t r, std::int64_t k) {
      return (1 - m) * x().at(r, k) + m * factor * c.x(1).at(r, k);
    });
  }
  void operator()(const GroupNorm& op) const {
    const std::int64_t positions = c.positions(x());
    const std::int64_t width = x().columns / op.groups;
    for (std::int64_t s = 0; s < c.samples(); ++s) {
      for (std::int64_t g = 0; g < op.groups; ++g) {
        const auto at = [&](std::int64_t i) {
          return x().at(s * positions + i / width, g * width + i % width);
        };
        const auto [mean, inverse] =
            Moments(positions * width, static_cast<double>(op.epsilon), at);
        for (std::int64_t i = 0; i < positions * width; ++i) {
          const std::int64_t k = g * width + i % width;
          y().at(s * positions + i / width, k) =
              (at(i) - mean) * inverse * c.x(1).at(0, k) + c.x(2).at(0, k);
        }
      }
    }
  }

  void operator()(const Convolution& op) const {
    const Window& w = op.window;
    const Extent out = w.output();
    const std::int64_t inputs = x().columns / op.groups;
    const std::int64_t outputs = y().columns / op.groups;
    ForEach([&](std::int64_t r, std::int64_t o) {
      const std::int64_t s = r / out.area();
      const std::int64_t oy = r % out.area() / out.width;
      const std::int64_t ox = r % out.width;
      double sum = c.has(2) ? c.x(2).at(0, o) : 0;
      for (std::int64_t k = 0; k < c.x(1).columns; ++k) {
        const std::int64_t iy =
            oy * w.stride.height - w.padding.height + k / inputs / w.kernel.width;
        const std::int64_t ix = ox * w.stride.width - w.padding.width + k / inputs % w.kernel.width;
        if (iy < 0 || iy >= w.input.height || ix < 0 || ix >= w.input.width) continue;
        sum += c.x(1).at(o, k) * x().at(s * w.input.area() + iy * w.input.width + ix,
                                        o / outputs * inputs + k % inputs);
      }
      return sum;
    });
  }
  void operator()(const Pooling& op) const {
    const Window& w = op.window;
    const Extent out = w.output();
    ForEach([&](std::int64_t r, std::int64_t k) {
      double most = -INFINITY, sum = 0;
      for (std::int64_t ky = 0; ky < w.kernel.height; ++ky) {
        for (std::int64_t kx = 0; kx < w.kernel.width; ++kx) {
          const std::int64_t iy =
              r % out.area() / out.width * w.stride.height - w.padding.height + ky;
          const std::int64_t ix = r % out.width * w.stride.width - w.padding.width + kx;
          if (iy < 0 || iy >= w.input.height || ix < 0 || ix >= w.input.width) continue;
          const double value = x().at(r / out.area() * w.input.area() + iy * w.input.width + ix, k);
          most = std::max(most, value);
          sum += value;
        }
      }
      return op.kind == PoolingKind::kMaximum ? most : sum / static_cast<double>(w.kernel.area());
    });
  }
  void operator()(const GlobalPooling& op) const {
    const std::int64_t positions = c.positions(x());
    ForEach([&](std::int64_t s, std::int64_t k) {
      const std::int64_t length = c.has(1) ? static_cast<std::int64_t>(c.x(1).at(s, 0)) : positions;
      double most = -INFINITY, sum = 0;
      for (std::int64_t p = 0; p < length; ++p) {
        most = std::max(most, x().at(s * positions + p, k));
        sum += x().at(s * positions + p, k);
      }
      return op.kind == PoolingKind::kMaximum ? most : sum / static_cast<double>(length);
    });
  }
  void operator()(const Patches& op) const {
    const std::int64_t channels = x().columns;
    const std::int64_t across = op.input.width / op.patch.width;
    const std::int64_t patches = op.input.area() / op.patch.area();
    ForEach([&](std::int64_t r, std::int64_t k) {
      const std::int64_t iy =
          r % patches / across * op.patch.height + k / channels / op.patch.width;
      const std::int64_t ix = r % across * op.patch.width + k / channels % op.patch.width;
      return x().at(r / patches * op.input.area() + iy * op.input.width + ix, k % channels);
    });
  }

  void operator()(const Reshape&) const { y().values = x().values; }
  void operator()(const Slice& op) const {
    const bool positions = op.axis == SliceAxis::kPositions;
    const std::int64_t part = c.positions(y());
    ForEach([&](std::int64_t r, std::int64_t k) {
      return positions ? x().at(r / part * c.positions(x()) + op.begin + r % part, k)
                       : x().at(r, op.begin + k);
    });
  }
  void operator()(const Concat& op) const {
    std::int64_t begin = 0;
    for (const Matrix* part : c.in) {
      const std::int64_t rows = c.positions(*part);
      for (std::int64_t r = 0; r < part->rows; ++r) {
        for (std::int64_t k = 0; k < part->columns; ++k) {
          if (op.axis == SliceAxis::kPositions) {
            y().at(r / rows * c.positions(y()) + begin + r % rows, k) = part->at(r, k);
          } else {
            y().at(r, begin + k) = part->at(r, k);
          }
        }
      }
      begin += op.axis == SliceAxis::kPositions ? rows : part->columns;
    }
  }

  void operator()(const Add&) const {
    ForEach([&](std::int64_t r, std::int64_t k) { return x().at(r, k) + c.x(1).at(r, k); });
  }
  void operator()(const Multiply&) const {
    ForEach([&](std::int64_t r, std::int64_t k) { return x().at(r, k) * c.x(1).at(r, k); });
  }
  void operator()(const Scale& op) const {
    ForEach([&](std::int64_t r, std::int64_t k) {
      return static_cast<double>(op.factor) * x().at(r, k);
    });
  }
  void operator()(const ScaleColumns&) const {
    ForEach([&](std::int64_t r, std::int64_t k) { return x().at(r, k) * c.x(1).at(0, k); });
  }
  void operator()(const Activation& op) const {
    ForEach([&](std::int64_t r, std::int64_t k) { return Activate(op, x().at(r, k)); });
  }
  void operator()(const SwiGlu&) const {
    ForEach([&](std::int64_t r, std::int64_t k) {
      return x().at(r, k) / (1 + std::exp(-x().at(r, k))) * c.x(1).at(r, k);
    });
  }
  void operator()(const Dropout& op) const {
    ForEach([&](std::int64_t r, std::int64_t k) {
      return DropoutFactor(op, c.batch, x(), r, k) * x().at(r, k);
    });
  }

  void operator()(const CrossEntropy& op) const {
    const auto t = static_cast<double>(op.label_smoothing);
    for (std::int64_t r = 0; r < x().rows; ++r) {
      const auto label = static_cast<std::int64_t>(c.x(1).at(r, 0));
      if (label == op.ignored_label) continue;
      std::int64_t first_most = 0;
      double sum = 0, all = 0;
      for (std::int64_t k = 1; k < x().columns; ++k) {
        if (x().at(r, k) > x().at(r, first_most)) first_most = k;
      }
      const double most = x().at(r, first_most);
      for (std::int64_t k = 0; k < x().columns; ++k) sum += std::exp(x().at(r, k) - most);
      for (std::int64_t k = 0; k < x().columns; ++k) all += std::log(sum) + most - x().at(r, k);
      y().at(r, 0) = (1 - t) * (std::log(sum) + most - x().at(r, label)) +
                     t / static_cast<double>(x().columns) * all;
      c.out[1].at(r, 0) = first_most == label ? 1 : 0;
    }
  }
  void operator()(const SquaredError&) const {
    for (std::int64_t r = 0; r < x().rows; ++r) {
      for (std::int64_t k = 0; k < x().columns; ++k) {
        const double difference = x().at(r, k) - c.x(1).at(r, k);
        y().at(r, 0) += difference * difference;
      }
    }
  }

  template <class Other>
  void operator()(const Other&) const {
    throw std::logic_error("reference: no forward operator");
  }
};

}  // namespace

void ComputeForward(const Operator& op, const Call& call) {
  std::visit(Forward{call}, op);
}

}  // namespace acan::model
