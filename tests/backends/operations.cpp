#include "operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "acan/core/philox.h"

namespace acan::test {
namespace {

constexpr std::int64_t kBlock = 32;
constexpr float kBound = 0.6f;

template <typename Of>
Doubles Define(std::int64_t rows, std::int64_t cols, Of of) {
  Doubles out{rows, cols, {}, {}};
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      double magnitude = 0.0;
      out.v.push_back(of(r, c, magnitude));
      out.magnitude.push_back(std::max(magnitude, std::abs(out.v.back())));
    }
  }
  return out;
}

Operation Product(GemmForm form) {
  constexpr const char* kNames[] = {"gemm_forward", "gemm_backward", "gemm_gradient"};
  Operation op;
  op.name = kNames[static_cast<int>(form)];
  op.product = true;
  op.operands = [=](const Shape& s) -> std::vector<Host> {
    return {form == GemmForm::kGradient ? Random(s.inner, s.rows, 1) : Random(s.rows, s.inner, 1),
            form == GemmForm::kForward ? Random(s.cols, s.inner, 2) : Random(s.inner, s.cols, 2)};
  };
  op.results = [](const Shape& s) -> std::vector<std::pair<std::int64_t, std::int64_t>> {
    return {{s.rows, s.cols}};
  };
  op.run = [=](Device& device, Precision precision, const auto& in, const auto& out) {
    device.Gemm(form, precision, kBlock, in[0], in[1], out[0]);
  };
  op.definition = [=](const std::vector<Host>& in) -> std::vector<Doubles> {
    const std::int64_t k = form == GemmForm::kGradient ? in[0].rows : in[0].cols;
    const std::int64_t m = form == GemmForm::kGradient ? in[0].cols : in[0].rows;
    const std::int64_t n = form == GemmForm::kForward ? in[1].rows : in[1].cols;
    return {Define(m, n, [&](auto i, auto j, double& magnitude) {
      double sum = 0.0;
      for (std::int64_t x = 0; x < k; ++x) {
        const double term =
            static_cast<double>(LeftAt(form, in[0], i, x)) * RightAt(form, in[1], j, x);
        sum += term;
        magnitude += std::abs(term);
      }
      return sum;
    })};
  };
  return op;
}

// One kernel: all its results have the shape of its first operand, unless `results` says otherwise.
Operation OfKernel(Kernel kernel, const std::string& name, const KernelScalars& scalars,
                   std::function<std::vector<Host>(const Shape&)> operands, int results,
                   std::function<std::vector<Doubles>(const std::vector<Host>&)> definition) {
  Operation op;
  op.name = name;
  op.operands = std::move(operands);
  op.results = [=](const Shape& s) {
    return std::vector<std::pair<std::int64_t, std::int64_t>>(static_cast<std::size_t>(results),
                                                              {s.rows, s.cols});
  };
  op.run = [=](Device& device, Precision, const auto& in, const auto& out) {
    KernelArgs args;
    args.scalars = scalars;
    std::copy(out.begin(), out.end(), args.m.begin());
    std::copy(in.begin(), in.end(), args.m.begin() + static_cast<std::ptrdiff_t>(out.size()));
    device.Launch(kernel, args);
  };
  op.definition = std::move(definition);
  return op;
}

double Activated(Activation activation, double z) {
  switch (activation) {
    case Activation::kIdentity:
      return z;
    case Activation::kRelu:
      return std::max(z, 0.0);
    case Activation::kClippedRelu:
      return z > 0 && z <= kBound ? z : 0.0;
    case Activation::kTanh:
      return std::tanh(z);
    case Activation::kSigmoid:
      return 1 / (1 + std::exp(-z));
    case Activation::kGelu:
      return z * 0.5 * std::erfc(-z / std::sqrt(2.0));
  }
  return NAN;
}

// The derivative, of the output y; gelu's of its input.
double Slope(Activation activation, double y) {
  switch (activation) {
    case Activation::kIdentity:
      return 1.0;
    case Activation::kRelu:
      return y > 0 ? 1.0 : 0.0;
    case Activation::kClippedRelu:
      return y > 0 && y <= kBound ? 1.0 : 0.0;
    case Activation::kTanh:
      return 1 - y * y;
    case Activation::kSigmoid:
      return y * (1 - y);
    case Activation::kGelu:
      return 0.5 * std::erfc(-y / std::sqrt(2.0)) +
             y * std::exp(-y * y / 2) / std::sqrt(2 * std::acos(-1.0));
  }
  return NAN;
}

void AddActivations(std::vector<Operation>& all) {
  constexpr const char* kNames[] = {"identity", "relu", "clipped_relu", "tanh", "sigmoid", "gelu"};
  for (int i = 0; i < 6; ++i) {
    const auto activation = static_cast<Activation>(i);
    KernelScalars scalars;
    scalars.i[0] = i;
    scalars.f[0] = kBound;
    Operation forward = OfKernel(
        Kernel::kBiasActivation, fmt::format("bias_{}", kNames[i]), scalars,
        [](const Shape& s) -> std::vector<Host> {
          return {Random(s.rows, s.cols, 3, -3.0f, 3.0f), Random(1, s.cols, 4)};
        },
        1,
        [=](const std::vector<Host>& in) -> std::vector<Doubles> {
          return {Define(in[0].rows, in[0].cols, [&](auto r, auto c, double& magnitude) {
            // The sum is rounded before it is activated, and a clip may depend on that bit.
            const float z = in[0].at(r, c) + in[1].at(0, c);
            magnitude = 1.0;
            return Activated(activation, z);
          })};
        });
    all.push_back(std::move(forward));
    all.push_back(OfKernel(
        Kernel::kActivationGradient, fmt::format("gradient_{}", kNames[i]), scalars,
        [](const Shape& s) -> std::vector<Host> {
          return {Random(s.rows, s.cols, 5), Random(s.rows, s.cols, 6)};
        },
        1,
        [=](const std::vector<Host>& in) -> std::vector<Doubles> {
          return {Define(in[0].rows, in[0].cols, [&](auto r, auto c, double& magnitude) {
            magnitude = 1.0;
            return in[0].at(r, c) * Slope(activation, in[1].at(r, c));
          })};
        }));
  }
}

Host Labels(const Shape& s) {
  Host labels(s.rows, 1);
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const auto label = static_cast<std::int32_t>(r * 5 % s.cols);
    std::memcpy(&labels.at(r, 0), &label, 4);
  }
  return labels;
}

Operation SoftmaxCrossEntropy() {
  KernelScalars scalars;
  scalars.i[0] = kBlock;
  scalars.f[0] = 0.5f;
  Operation op = OfKernel(
      Kernel::kSoftmaxCrossEntropy, "softmax_cross_entropy", scalars,
      [](const Shape& s) -> std::vector<Host> {
        return {Random(s.rows, s.cols, 7, -9.0f, 9.0f), Labels(s)};
      },
      3,
      [](const std::vector<Host>& in) -> std::vector<Doubles> {
        const Host& x = in[0];
        const auto label = [&](std::int64_t r) {
          std::int32_t value = 0;
          std::memcpy(&value, &in[1].v[static_cast<std::size_t>(r)], 4);
          return static_cast<std::int64_t>(value);
        };
        const auto log_sum = [&](std::int64_t r) {
          double sum = 0.0;
          for (std::int64_t c = 0; c < x.cols; ++c) sum += std::exp(double{x.at(r, c)});
          return std::log(sum);
        };
        return {Define(x.rows, x.cols,
                       [&](auto r, auto c, double& magnitude) {
                         magnitude = 1.0;
                         const double p = std::exp(x.at(r, c) - log_sum(r));
                         return (p - (c == label(r) ? 1.0 : 0.0)) * 0.5;
                       }),
                Define(x.rows, 1,
                       [&](auto r, auto, double& magnitude) {
                         magnitude = 20.0;
                         return log_sum(r) - x.at(r, label(r));
                       }),
                Define(x.rows, 1, [&](auto r, auto, double&) {
                  std::int64_t best = 0;
                  for (std::int64_t c = 1; c < x.cols; ++c) {
                    if (x.at(r, c) > x.at(r, best)) best = c;
                  }
                  return best == label(r) ? 1.0 : 0.0;
                })};
      });
  op.results = [](const Shape& s) -> std::vector<std::pair<std::int64_t, std::int64_t>> {
    return {{s.rows, s.cols}, {s.rows, 1}, {s.rows, 1}};
  };
  op.run = [=](Device& device, Precision, const auto& in, const auto& out) {
    KernelArgs args;
    args.scalars = scalars;
    args.m = {out[0], in[0], in[1], out[1], out[2]};
    device.Launch(Kernel::kSoftmaxCrossEntropy, args);
  };
  return op;
}

Operation SquaredError() {
  KernelScalars scalars;
  scalars.i[0] = kBlock;
  scalars.f[0] = 0.25f;
  Operation op = OfKernel(
      Kernel::kSquaredError, "squared_error", scalars,
      [](const Shape& s) -> std::vector<Host> {
        return {Random(s.rows, s.cols, 8), Random(s.rows, s.cols, 9)};
      },
      2,
      [](const std::vector<Host>& in) -> std::vector<Doubles> {
        return {Define(in[0].rows, in[0].cols,
                       [&](auto r, auto c, double&) {
                         return (double{in[0].at(r, c)} - in[1].at(r, c)) * 0.25;
                       }),
                Define(in[0].rows, 1, [&](auto r, auto, double&) {
                  double sum = 0.0;
                  for (std::int64_t c = 0; c < in[0].cols; ++c) {
                    sum += std::pow(double{in[0].at(r, c)} - in[1].at(r, c), 2);
                  }
                  return sum;
                })};
      });
  op.results = [](const Shape& s) -> std::vector<std::pair<std::int64_t, std::int64_t>> {
    return {{s.rows, s.cols}, {s.rows, 1}};
  };
  op.run = [=](Device& device, Precision, const auto& in, const auto& out) {
    KernelArgs args;
    args.scalars = scalars;
    args.m = {out[0], in[0], in[1], out[1]};
    device.Launch(Kernel::kSquaredError, args);
  };
  return op;
}

Operation ColumnSums() {
  KernelScalars scalars;
  scalars.i[0] = kBlock;
  Operation op = OfKernel(
      Kernel::kColumnSums, "column_sums", scalars,
      [](const Shape& s) -> std::vector<Host> { return {Random(s.rows, s.cols, 10)}; }, 1,
      [](const std::vector<Host>& in) -> std::vector<Doubles> {
        return {Define(1, in[0].cols, [&](auto, auto c, double& magnitude) {
          double sum = 0.0;
          for (std::int64_t r = 0; r < in[0].rows; ++r) {
            sum += in[0].at(r, c);
            magnitude += std::abs(in[0].at(r, c));
          }
          return sum;
        })};
      });
  op.results = [](const Shape& s) -> std::vector<std::pair<std::int64_t, std::int64_t>> {
    return {{1, s.cols}};
  };
  return op;
}

// Operands of the same shape, the n-th in [low[n], high[n]).
std::function<std::vector<Host>(const Shape&)> Alike(std::vector<float> low) {
  return [=](const Shape& s) {
    std::vector<Host> out;
    for (const float each : low) {
      out.push_back(Random(s.rows, s.cols, static_cast<std::uint32_t>(11 + out.size()), each));
    }
    return out;
  };
}

void AddElementwise(std::vector<Operation>& all) {
  const auto each = [](const std::vector<Host>& in, auto of) {
    return Define(in[0].rows, in[0].cols, [&](auto r, auto c, double& magnitude) {
      magnitude = 1.0;
      return of([&](int i) { return double{in[static_cast<std::size_t>(i)].at(r, c)}; });
    });
  };
  using In = std::vector<Host>;
  using Out = std::vector<Doubles>;
  all.push_back(OfKernel(Kernel::kAdd, "add", {}, Alike({-1, -1}), 1, [=](const In& in) -> Out {
    return {each(in, [](auto x) { return x(0) + x(1); })};
  }));
  all.push_back(OfKernel(Kernel::kSgd, "sgd", {.f = {0.1f, 0.01f}, .i = {}}, Alike({-1, -1}), 1,
                         [=](const In& in) -> Out {
                           return {
                               each(in, [](auto x) { return x(0) - 0.1 * (x(1) + 0.01 * x(0)); })};
                         }));
  all.push_back(
      OfKernel(Kernel::kMomentum, "momentum", {.f = {0.05f, 0.9f, 0.02f}, .i = {}},
               Alike({-1, -1, -1}), 2, [=](const In& in) -> Out {
                 const auto v = [](auto x) { return 0.9 * x(1) + x(2) + 0.02 * x(0); };
                 return {each(in, [=](auto x) { return x(0) - 0.05 * v(x); }), each(in, v)};
               }));
  all.push_back(OfKernel(
      Kernel::kAdamW, "adamw", {.f = {1e-3f, 0.1f, 0.001f, 1e-8f, 0.01f, 0.19f, 0.0447f}, .i = {}},
      Alike({-1, -1, 0.01f, -1}), 3, [=](const In& in) -> Out {
        const auto m = [](auto x) { return x(1) + 0.1 * (x(3) - x(1)); };
        const auto v = [](auto x) { return x(2) + 0.001 * (x(3) * x(3) - x(2)); };
        const auto w = [=](auto x) {
          return x(0) * (1 - 1e-5) - 1e-3 / 0.19 * m(x) / (std::sqrt(v(x)) / 0.0447 + 1e-8);
        };
        return {each(in, w), each(in, m), each(in, v)};
      }));
}

void AddGenerators(std::vector<Operation>& all) {
  // What has no operands needs the shape from its results: one operand that is not passed on.
  const auto shape_only = [](const Shape& s) -> std::vector<Host> {
    return {Host(s.rows, s.cols)};
  };
  const auto generator = [&](Kernel kernel, const char* name, const KernelScalars& scalars,
                             auto of) {
    Operation op = OfKernel(kernel, name, scalars, shape_only, 1, [=](const std::vector<Host>& in) {
      return std::vector<Doubles>{Define(in[0].rows, in[0].cols, of)};
    });
    op.run = [=](Device& device, Precision, const auto&, const auto& out) {
      KernelArgs args;
      args.scalars = scalars;
      args.m[0] = out[0];
      device.Launch(kernel, args);
    };
    all.push_back(std::move(op));
  };
  generator(Kernel::kFill, "fill", {.f = {0.25f}, .i = {}},
            [](auto, auto, double&) { return 0.25; });
  generator(Kernel::kUniform, "uniform", {.f = {-0.5f, 0.75f}, .i = {99, 7, 100, 20, 5000}},
            [](std::int64_t r, std::int64_t c, double&) {
              const auto place = static_cast<std::uint64_t>((100 + r) * 5000 + 20 + c);
              return 1.25 * acan_unit_float(acan_philox(99, place, 7).v[0]) - 0.5;
            });
}

}  // namespace

const std::vector<Operation>& AllOperations() {
  static const std::vector<Operation> operations = [] {
    std::vector<Operation> all;
    for (const GemmForm form : {GemmForm::kForward, GemmForm::kBackward, GemmForm::kGradient}) {
      all.push_back(Product(form));
    }
    AddElementwise(all);
    AddGenerators(all);
    AddActivations(all);
    all.push_back(SoftmaxCrossEntropy());
    all.push_back(SquaredError());
    all.push_back(ColumnSums());
    return all;
  }();
  return operations;
}

}  // namespace acan::test
