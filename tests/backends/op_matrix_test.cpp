// The op matrix: every operation on every device in every precision, at named and at random shapes,
// against float64, and in exact precision against the CPU's bits too. An operation is described
// once: its operands, what runs it, and its definition in float64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "acan/core/philox.h"
#include "acan/cpu/cpu_device.h"
#include "reference.h"

namespace acan::test {
namespace {

struct Shape {
  std::int64_t rows, cols, inner, pad;  // inner: k of products
};

struct Doubles {
  std::int64_t rows, cols;
  std::vector<double> v,
      magnitude;  // of the terms that were added up: what rounding is relative to
};

struct Operation {
  std::string name;
  bool product = false;  // runs in fast precision too
  std::function<std::vector<Host>(const Shape&)> operands;
  std::function<std::vector<std::pair<std::int64_t, std::int64_t>>(const Shape&)> results;
  std::function<void(Device&, Precision, const std::vector<Matrix>& in,
                     const std::vector<Matrix>& out)>
      run;
  std::function<std::vector<Doubles>(const std::vector<Host>&)> definition;
};

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

// One row, one column, one element, ragged, larger; and random ones, always the same.
std::vector<Shape> AllShapes() {
  std::vector<Shape> shapes = {{1, 1, 1, 0},      {1, 70, 40, 0},  {70, 1, 40, 3},
                               {13, 37, 101, 1},  {64, 64, 64, 0}, {33, 129, 31, 5},
                               {150, 210, 300, 0}};
  std::mt19937 generator(20);
  const auto below = [&](std::int64_t n) { return 1 + static_cast<std::int64_t>(generator()) % n; };
  for (int i = 0; i < 8; ++i) shapes.push_back({below(90), below(140), below(400), below(7) - 1});
  return shapes;
}

std::vector<Host> Results(Device& device, const Operation& op, Precision precision,
                          const Shape& shape, const std::vector<Host>& operands) {
  std::vector<OnDevice> in;
  std::vector<OnDevice> out;
  std::vector<Matrix> in_matrices;
  std::vector<Matrix> out_matrices;
  for (const Host& host : operands) in.push_back(Put(device, host, shape.pad));
  for (const auto& [rows, cols] : op.results(shape)) {
    out.push_back(Space(device, rows, cols, shape.pad));
  }
  for (const OnDevice& each : in) in_matrices.push_back(each.matrix);
  for (const OnDevice& each : out) out_matrices.push_back(each.matrix);
  op.run(device, precision, in_matrices, out_matrices);
  std::vector<Host> results;
  for (const OnDevice& each : out) results.push_back(Fetch(device, each));
  return results;
}

// Errors may grow with the sum's length; the CPU's bits leave no room at all.
void ExpectNear(const std::vector<Host>& got, const std::vector<Doubles>& want) {
  constexpr double kTolerance = 4e-6;
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].rows, want[i].rows);
    ASSERT_EQ(got[i].cols, want[i].cols);
    for (std::size_t e = 0; e < got[i].v.size(); ++e) {
      ASSERT_NEAR(got[i].v[e], want[i].v[e], kTolerance * want[i].magnitude[e])
          << "result " << i << ", element " << e;
    }
  }
}

class OpMatrix : public ::testing::TestWithParam<TestDevice> {};

TEST_P(OpMatrix, EveryOperationIsItsDefinitionAndTheCpusBits) {
  ACAN_SKIP_WITHOUT(GetParam());
  const auto device = GetParam().make(GetParam().threads.back(), kRoomyBytes);
  const auto cpu = MakeCpuDevice({1, kRoomyBytes, std::nullopt});
  for (const Operation& op : AllOperations()) {
    for (const Shape& shape : AllShapes()) {
      SCOPED_TRACE(fmt::format("{} [{}, {}] inner {} pad {}", op.name, shape.rows, shape.cols,
                               shape.inner, shape.pad));
      const std::vector<Host> operands = op.operands(shape);
      const std::vector<Doubles> want = op.definition(operands);
      const std::vector<Host> exact = Results(*device, op, Precision::kExact, shape, operands);
      ExpectNear(exact, want);
      const std::vector<Host> of_cpu = Results(*cpu, op, Precision::kExact, shape, operands);
      for (std::size_t i = 0; i < exact.size(); ++i) {
        ASSERT_EQ(Difference(exact[i], of_cpu[i]), "") << "result " << i;
      }
      if (op.product && device->info().fast) {
        ExpectNear(Results(*device, op, Precision::kFast, shape, operands), want);
      }
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(OpMatrix, EmptyMatricesAreRefusedByAll) {
  ACAN_SKIP_WITHOUT(GetParam());
  const auto device = GetParam().make(1, 1 << 20);
  const OnDevice some = Space(*device, 4, 4);
  Matrix empty = some.matrix;
  empty.rows = 0;
  KernelArgs args;
  args.m = {empty, empty, empty};
  EXPECT_THROW(device->Launch(Kernel::kAdd, args), std::invalid_argument);
  EXPECT_THROW(device->Gemm(GemmForm::kForward, Precision::kExact, 64, empty, some.matrix, empty),
               std::invalid_argument);
  EXPECT_EQ(device->Allocate(0)->size_bytes(), 0u);
}

// What every device promises about memory and views; the CPU's own promises are in device_test.
TEST_P(OpMatrix, MemoryIsCountedToTheByteAndReadOnlyBuffersAreNotWritten) {
  ACAN_SKIP_WITHOUT(GetParam());
  const auto device = GetParam().make(1, 1 << 20);
  const std::uint64_t at_start = device->budget().used_bytes();
  const std::uint64_t free = device->budget().limit_bytes() - at_start;
  BufferPtr all = device->Allocate(free);
  EXPECT_EQ(device->budget().used_bytes(), device->budget().limit_bytes());
  EXPECT_THROW(device->Allocate(1), OutOfMemory);
  EXPECT_THROW(device->Upload(tuplespace::Payload::Copy("four")), OutOfMemory);
  all.reset();
  const Host host = Random(5, 8, 1);
  const BufferPtr fixed =
      device->Upload(tuplespace::Payload::Copy(host.v.data(), host.v.size() * 4));
  EXPECT_EQ(device->budget().used_bytes(), at_start + 160);
  const Matrix view{fixed.get(), 0, 5, 8, 8};
  KernelArgs args;
  args.m = {view, view, view};
  EXPECT_THROW(device->Launch(Kernel::kAdd, args), std::invalid_argument);
  EXPECT_THROW(device->CopyIn(tuplespace::Payload::Copy(host.v.data(), 160), view),
               std::invalid_argument);
  const OnDevice product = Space(*device, 5, 5);
  EXPECT_THROW(device->Gemm(GemmForm::kForward, Precision::kExact, 64, view, view,
                            {fixed.get(), 0, 5, 5, 5}),
               std::invalid_argument);
  const Matrix inner{fixed.get(), 8 + 2, 3, 4, 8};
  const tuplespace::Payload part = device->Download(fixed, inner);
  ASSERT_EQ(part.size(), 48u);
  for (std::int64_t r = 0; r < 3; ++r) {
    EXPECT_EQ(std::memcmp(part.data() + r * 16, &host.v[static_cast<std::size_t>(10 + r * 8)], 16),
              0);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, OpMatrix, ::testing::ValuesIn(AllTestDevices()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace acan::test
