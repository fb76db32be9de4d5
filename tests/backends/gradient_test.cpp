// The kernels' gradients, compared with difference quotients of the functions in float64.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "acan/cpu/cpu_device.h"
#include "reference.h"

namespace acan::test {
namespace {

double Activate(Activation activation, double z) {
  switch (activation) {
    case Activation::kIdentity:
      return z;
    case Activation::kRelu:
      return z > 0.0 ? z : 0.0;
    case Activation::kClippedRelu:
      return z > 0.0 && z <= 1.5 ? z : 0.0;
    case Activation::kTanh:
      return std::tanh(z);
    case Activation::kSigmoid:
      return 1.0 / (1.0 + std::exp(-z));
    case Activation::kGelu:
      return z * 0.5 * std::erfc(-z / std::sqrt(2.0));
    case Activation::kGeluTanh:
      return z / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (z + 0.044715 * z * z * z)));
    case Activation::kSilu:
      return z / (1.0 + std::exp(-z));
  }
  return NAN;
}

class ActivationGradientTest : public ::testing::TestWithParam<Activation> {};

TEST_P(ActivationGradientTest, IsTheSlopeOfTheForwardKernel) {
  const auto device = MakeCpuDevice({1, kRoomyBytes, std::nullopt});
  // Keep away from the kinks at 0 and at the bound.
  Host z = Random(20, 50, 1, -4.0f, 4.0f);
  for (float& x : z.v) {
    if (std::abs(x) < 0.01f || std::abs(x - 1.5f) < 0.01f) x = 0.7f;
  }
  const Host g = Random(20, 50, 2, -2.0f, 2.0f);
  const OnDevice in = Put(*device, z);
  const OnDevice bias = Put(*device, Host(1, 50));
  const OnDevice out = Space(*device, 20, 50);
  KernelArgs args;
  args.scalars.i[0] = static_cast<std::int64_t>(GetParam());
  args.scalars.f[0] = 1.5f;
  args.m = {out.matrix, in.matrix, bias.matrix};
  device->Launch(Kernel::kBiasActivation, args);
  const Host y = Fetch(*device, out);
  for (std::size_t i = 0; i < y.v.size(); ++i) {
    ASSERT_NEAR(y.v[i], Activate(GetParam(), z.v[i]), 1e-6) << "at " << z.v[i];
  }
  const OnDevice gradient = Put(*device, g);
  const bool takes_input = RowOf(GetParam()).gradient_takes_input;
  args.m = {gradient.matrix, gradient.matrix, takes_input ? in.matrix : out.matrix};
  device->Launch(Kernel::kActivationGradient, args);
  const Host got = Fetch(*device, gradient);
  for (std::size_t i = 0; i < got.v.size(); ++i) {
    constexpr double kStep = 1e-5;
    const double x = z.v[i];
    const double slope =
        (Activate(GetParam(), x + kStep) - Activate(GetParam(), x - kStep)) / (2 * kStep);
    ASSERT_NEAR(got.v[i], g.v[i] * slope, 2e-6) << "at " << x;
  }
}

std::vector<Activation> AllActivations() {
  std::vector<Activation> all;
  for (const ActivationRow& row : kActivations) all.push_back(row.activation);
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, ActivationGradientTest, ::testing::ValuesIn(AllActivations()));

double CrossEntropy(const std::vector<double>& x, std::size_t label) {
  double largest = x[0];
  for (const double v : x) largest = std::max(largest, v);
  double sum = 0.0;
  for (const double v : x) sum += std::exp(v - largest);
  return std::log(sum) + largest - x[label];
}

TEST(LossGradientTest, CrossEntropy) {
  const auto device = MakeCpuDevice({1, kRoomyBytes, std::nullopt});
  constexpr std::int64_t kRows = 6;
  constexpr std::int64_t kCols = 37;
  const Host x = Random(kRows, kCols, 3, -5.0f, 5.0f);
  Host labels(kRows, 1);
  for (std::int32_t r = 0; r < kRows; ++r) {
    const std::int32_t label = r * 5;
    std::memcpy(&labels.at(r, 0), &label, 4);
  }
  const OnDevice logits = Put(*device, x);
  const OnDevice label = Put(*device, labels);
  const OnDevice out = Space(*device, kRows, kCols);
  const OnDevice loss = Space(*device, kRows, 1);
  const OnDevice correct = Space(*device, kRows, 1);
  KernelArgs args;
  args.scalars.i[0] = 16;
  args.scalars.f[0] = 1.0f;
  args.m = {out.matrix, logits.matrix, label.matrix, loss.matrix, correct.matrix};
  device->Launch(Kernel::kSoftmaxCrossEntropy, args);
  const Host gradient = Fetch(*device, out);
  const Host losses = Fetch(*device, loss);
  for (std::int64_t r = 0; r < kRows; ++r) {
    const auto* row = &x.v[static_cast<std::size_t>(r * kCols)];
    std::vector<double> values(row, row + kCols);
    const auto at = static_cast<std::size_t>(r * 5);
    EXPECT_NEAR(losses.at(r, 0), CrossEntropy(values, at), 2e-6);
    for (std::size_t c = 0; c < kCols; ++c) {
      constexpr double kStep = 1e-5;
      const double middle = values[c];
      values[c] = middle + kStep;
      const double above = CrossEntropy(values, at);
      values[c] = middle - kStep;
      const double below = CrossEntropy(values, at);
      values[c] = middle;
      ASSERT_NEAR(gradient.at(r, static_cast<std::int64_t>(c)), (above - below) / (2 * kStep),
                  1e-6);
    }
  }
}

// mean over r, c of (x - y)^2 has the gradient 2 (x - y) / (r c): that is f0.
TEST(LossGradientTest, SquaredError) {
  const auto device = MakeCpuDevice({1, kRoomyBytes, std::nullopt});
  const Host x = Random(5, 40, 4);
  const Host y = Random(5, 40, 5);
  const OnDevice in = Put(*device, x);
  const OnDevice target = Put(*device, y);
  const OnDevice out = Space(*device, 5, 40);
  const OnDevice sums = Space(*device, 5, 1);
  KernelArgs args;
  args.scalars.i[0] = 16;
  args.scalars.f[0] = 2.0f / 200.0f;
  args.m = {out.matrix, in.matrix, target.matrix, sums.matrix};
  device->Launch(Kernel::kSquaredError, args);
  const Host gradient = Fetch(*device, out);
  const Host losses = Fetch(*device, sums);
  for (std::int64_t r = 0; r < 5; ++r) {
    double want = 0.0;
    for (std::int64_t c = 0; c < 40; ++c) {
      const double d = static_cast<double>(x.at(r, c)) - y.at(r, c);
      want += d * d;
      EXPECT_NEAR(gradient.at(r, c), 2.0 * d / 200.0, 1e-8);
    }
    EXPECT_NEAR(losses.at(r, 0), want, 1e-5);
  }
}

// Ten steps of AdamW as PyTorch documents it, in float64.
TEST(OptimizerTest, AdamWFollowsItsDefinition) {
  const auto device = MakeCpuDevice({1, kRoomyBytes, std::nullopt});
  constexpr double kRate = 1e-3, kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8, kDecay = 0.01;
  const Host start = Random(8, 9, 6);
  std::vector<double> w(start.v.begin(), start.v.end());
  std::vector<double> m(w.size(), 0.0);
  std::vector<double> v(w.size(), 0.0);
  const OnDevice weight = Put(*device, start);
  const OnDevice first = Put(*device, Host(8, 9));
  const OnDevice second = Put(*device, Host(8, 9));
  for (int t = 1; t <= 10; ++t) {
    const Host g = Random(8, 9, 100 + static_cast<std::uint32_t>(t));
    const double bias1 = 1.0 - std::pow(kBeta1, t);
    const double bias2 = 1.0 - std::pow(kBeta2, t);
    for (std::size_t i = 0; i < w.size(); ++i) {
      w[i] -= kRate * kDecay * w[i];
      m[i] = kBeta1 * m[i] + (1.0 - kBeta1) * g.v[i];
      v[i] = kBeta2 * v[i] + (1.0 - kBeta2) * g.v[i] * g.v[i];
      w[i] -= kRate / bias1 * m[i] / (std::sqrt(v[i]) / std::sqrt(bias2) + kEpsilon);
    }
    const OnDevice gradient = Put(*device, g);
    KernelArgs args;
    const auto f = [](double x) { return static_cast<float>(x); };
    args.scalars.f = {f(kRate),  f(1.0 - kBeta1), f(1.0 - kBeta2),    f(kEpsilon),
                      f(kDecay), f(bias1),        f(std::sqrt(bias2))};
    args.m = {weight.matrix, first.matrix,  second.matrix,  weight.matrix,
              first.matrix,  second.matrix, gradient.matrix};
    device->Launch(Kernel::kAdamW, args);
  }
  const Host got = Fetch(*device, weight);
  for (std::size_t i = 0; i < w.size(); ++i) EXPECT_NEAR(got.v[i], w[i], 1e-6);
}

}  // namespace
}  // namespace acan::test
