#include "operations.h"

#include <fmt/format.h>
#include <numbers>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "acan/core/philox.h"
#include "operations_define.h"

namespace acan::test {
namespace {

Operation Product(GemmForm form) {
  constexpr const char* kNames[] = {"gemm_forward", "gemm_backward", "gemm_gradient"};
  const auto definition = [=](const Shape& s, const In& in) -> Out {
    return {Define(s.rows, s.cols, [&](auto i, auto j, double& magnitude) {
      double sum = 0.0;
      for (std::int64_t x = 0; x < s.inner; ++x) {
        const double term =
            static_cast<double>(LeftAt(form, in[0], i, x)) * RightAt(form, in[1], j, x);
        sum += term;
        magnitude += std::abs(term);
      }
      return sum;
    })};
  };
  return {kNames[static_cast<int>(form)], form, {}, {Between(1), Between(2)}, definition};
}

void AddActivations(std::vector<Operation>& all) {
  for (const ActivationRow& each : kActivations) {
    const Activation activation = each.activation;
    const KernelScalars scalars{.f = {kBound}, .i = {static_cast<std::int64_t>(activation)}};
    all.push_back({fmt::format("bias_{}", each.word),
                   Kernel::kBiasActivation,
                   scalars,
                   {Between(3, -3.0f, 3.0f), Between(4)},
                   [=](const Shape& s, const In& in) -> Out {
                     // The sum is rounded before it is activated: a clip may depend on that bit.
                     const auto z = [&](auto r, auto c) { return in[0].at(r, c) + in[1].at(0, c); };
                     return {Define(s.rows, s.cols,
                                    [&](auto r, auto c, double& magnitude) {
                                      magnitude = 1.0;
                                      return Activated(activation, z(r, c));
                                    }),
                             Define(s.rows, s.cols,
                                    [&](auto r, auto c, double&) { return double{z(r, c)}; })};
                   }});
    all.push_back({fmt::format("gradient_{}", each.word),
                   Kernel::kActivationGradient,
                   scalars,
                   {Between(5), Between(6)},
                   [=](const Shape& s, const In& in) -> Out {
                     return {Define(s.rows, s.cols, [&](auto r, auto c, double& magnitude) {
                       magnitude = 1.0;
                       return in[0].at(r, c) * Slope(activation, in[1].at(r, c));
                     })};
                   }});
  }
}

Host Labels(const Shape& s, std::int64_t rows, std::int64_t) {
  return Integers(rows, [&](std::int64_t r) { return r * 5 % s.cols; });
}

Out SoftmaxCrossEntropy(const In& in) {
  const Host& x = in[0];
  const auto label = [&](std::int64_t r) { return IntegerAt(in[1], r); };
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
}

Out SquaredError(const In& in) {
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
}

Out ColumnSums(const In& in) {
  return {Define(1, in[0].cols, [&](auto, auto c, double& magnitude) {
    double sum = 0.0;
    for (std::int64_t r = 0; r < in[0].rows; ++r) {
      sum += in[0].at(r, c);
      magnitude += std::abs(in[0].at(r, c));
    }
    return sum;
  })};
}

void AddSums(std::vector<Operation>& all) {
  const auto with = [](float scale) { return KernelScalars{.f = {scale}, .i = {kBlock}}; };
  all.push_back({"softmax_cross_entropy",
                 Kernel::kSoftmaxCrossEntropy,
                 with(0.5f),
                 {Between(7, -9.0f, 9.0f), Labels},
                 [](const Shape&, const In& in) { return SoftmaxCrossEntropy(in); }});
  all.push_back({"squared_error",
                 Kernel::kSquaredError,
                 with(0.25f),
                 {Between(8), Between(9)},
                 [](const Shape&, const In& in) { return SquaredError(in); }});
  all.push_back({"column_sums",
                 Kernel::kColumnSums,
                 with(0.0f),
                 {Between(10)},
                 [](const Shape&, const In& in) { return ColumnSums(in); }});
}

void AddElementwise(std::vector<Operation>& all) {
  const Values x = Between(11), y = Between(12), z = Between(13), positive = Between(14, 0.01f);
  all.push_back(
      {"add", Kernel::kAdd, {}, {x, y}, ElementByElement([](auto at) { return at(0) + at(1); })});
  all.push_back(
      {"sgd", Kernel::kSgd, {.f = {0.1f, 0.01f}, .i = {}}, {x, y}, ElementByElement([](auto at) {
         return at(0) - 0.1 * (at(1) + 0.01 * at(0));
       })});
  const auto velocity = [](auto at) { return 0.9 * at(1) + at(2) + 0.02 * at(0); };
  all.push_back({"momentum",
                 Kernel::kMomentum,
                 {.f = {0.05f, 0.9f, 0.02f}, .i = {}},
                 {x, y, z},
                 ElementByElement([=](auto at) { return at(0) - 0.05 * velocity(at); }, velocity)});
  const auto m = [](auto at) { return at(1) + 0.1 * (at(3) - at(1)); };
  const auto v = [](auto at) { return at(2) + 0.001 * (at(3) * at(3) - at(2)); };
  const auto w = [=](auto at) {
    return at(0) * (1 - 1e-5) - 1e-3 / 0.19 * m(at) / (std::sqrt(v(at)) / 0.0447 + 1e-8);
  };
  all.push_back({"adamw",
                 Kernel::kAdamW,
                 {.f = {1e-3f, 0.1f, 0.001f, 1e-8f, 0.01f, 0.19f, 0.0447f}, .i = {}},
                 {x, y, positive, z},
                 ElementByElement(w, m, v)});
}

void AddGenerators(std::vector<Operation>& all) {
  all.push_back({"fill", Kernel::kFill, {.f = {0.25f}, .i = {}}, {}, ElementByElement([](auto) {
                   return 0.25;
                 })});
  all.push_back({"uniform",
                 Kernel::kUniform,
                 {.f = {-0.5f, 0.75f}, .i = {99, 7, 100, 20, 5000}},
                 {},
                 [](const Shape& s, const In&) -> Out {
                   return {Define(s.rows, s.cols, [](std::int64_t r, std::int64_t c, double&) {
                     const auto place = static_cast<std::uint64_t>((100 + r) * 5000 + 20 + c);
                     return 1.25 * acan_unit_float(acan_philox(99, place, 7).v[0]) - 0.5;
                   })};
                 }});
  const auto normal = [](const Shape& s, double low, double high) {
    return Out{Define(s.rows, s.cols, [&](std::int64_t r, std::int64_t c, double& magnitude) {
      const auto place = static_cast<std::uint64_t>((100 + r) * 5000 + 20 + c);
      double x = 0;
      for (std::uint64_t draw = 0; draw == 0 || x < low || x > high; ++draw) {
        const acan_philox4 words = acan_philox(99, place, 7 + (draw << 32));
        const double radius = std::sqrt(-2 * std::log(1 - double{acan_unit_float(words.v[0])}));
        const double turns = acan_unit_float(words.v[1]);
        x = 0.25 + 0.5 * radius * std::cos(2 * std::numbers::pi * turns);
      }
      magnitude = 4;
      return x;
    })};
  };
  all.push_back({"normal",
                 Kernel::kNormal,
                 {.f = {0.25f, 0.5f}, .i = {99, 7, 100, 20, 5000}},
                 {},
                 [normal](const Shape& s, const In&) { return normal(s, -1e9, 1e9); }});
  all.push_back({"truncated normal",
                 Kernel::kTruncatedNormal,
                 {.f = {0.25f, 0.5f, -0.75f, 0.5f}, .i = {99, 7, 100, 20, 5000}},
                 {},
                 [normal](const Shape& s, const In&) { return normal(s, -0.75, 0.5); }});
}

Dimensions DimensionsOf(const Operation& op, const Shape& s) {
  if (op.sized) {
    KernelScalars scalars;
    return DimensionsNamed(op.row(), op.sized(s, scalars));
  }
  // Dimensions that only scalars give appear in no operand's shape, so 1 will do.
  return DimensionsNamed(
      op.row(),
      std::array<NamedDimension, 27>{
          {{"rows", s.rows},     {"cols", s.cols},    {"m", s.rows},     {"n", s.cols},
           {"k", s.inner},       {"heads", 3},        {"half", s.cols},  {"positions", s.inner},
           {"words", s.inner},   {"samples", 3},      {"group", 1},      {"first", 1},
           {"row", 1},           {"col", 1},          {"width", 4},      {"height", 5},
           {"window_height", 3}, {"window_width", 2}, {"stride_y", 2},   {"stride_x", 1},
           {"padding_y", 1},     {"padding_x", 0},    {"out_height", 3}, {"out_width", 3},
           {"channels", s.cols}, {"classes", 1},      {"all", 1}}});
}

}  // namespace

const OperatorRow& Operation::row() const {
  return std::visit([](auto each) -> const OperatorRow& { return RowOf(each); }, call);
}

std::vector<Host> Operation::operands(const Shape& shape) const {
  const Dimensions dimensions = DimensionsOf(*this, shape);
  std::vector<Host> out;
  for (const Operand& operand : row().operands) {
    if (!operand.reads()) continue;
    const OperandShape of = ShapeOf(operand, dimensions);
    out.push_back(values.at(out.size())(shape, of.rows, of.cols));
  }
  return out;
}

std::vector<std::pair<std::int64_t, std::int64_t>> Operation::results(const Shape& shape) const {
  const Dimensions dimensions = DimensionsOf(*this, shape);
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  for (const Operand& operand : row().operands) {
    const OperandShape of = ShapeOf(operand, dimensions);
    if (operand.writes()) out.emplace_back(of.rows, of.cols);
  }
  return out;
}

void Operation::run(Device& device, Precision precision, const Shape& shape,
                    const std::vector<Matrix>& in, const std::vector<Matrix>& out) const {
  KernelArgs args;
  args.scalars = scalars;
  if (sized) sized(shape, args.scalars);
  std::size_t read = 0, written = 0;
  for (std::size_t i = 0; i < row().operands.size(); ++i) {
    const Operand& operand = row().operands[i];
    args.m[i] = operand.writes() ? out.at(written) : in.at(read);
    read += operand.reads() ? 1 : 0;
    written += operand.writes() ? 1 : 0;
  }
  if (const auto* form = std::get_if<GemmForm>(&call)) {
    device.Gemm(*form, precision, kBlock, args.m[0], args.m[1], args.m[2]);
  } else {
    device.Launch(std::get<Kernel>(call), args);
  }
}

const std::vector<Operation>& AllOperations() {
  static const std::vector<Operation> operations = [] {
    std::vector<Operation> all;
    for (std::size_t form = 0; form < kProducts; ++form) {
      all.push_back(Product(static_cast<GemmForm>(form)));
    }
    AddElementwise(all);
    AddGenerators(all);
    AddActivations(all);
    AddSums(all);
    AddGraphOperations(all);
    AddAttention(all);
    AddImageOperations(all);
    AddSampleOperations(all);
    return all;
  }();
  return operations;
}

}  // namespace acan::test
