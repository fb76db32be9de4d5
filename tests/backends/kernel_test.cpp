// Every kernel on every device against a plain definition, to the bit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "acan/core/philox.h"
#include "reference.h"

namespace acan::test {
namespace {

struct Case {
  std::int64_t rows, cols, pad;
};
// One element, one row, one column, ragged shapes, sizes around a block, and shapes large enough
// for several threads.
const Case kCases[] = {{1, 1, 0},  {1, 37, 0},  {41, 1, 0},  {7, 15, 3},    {5, 16, 0},
                       {5, 17, 2}, {63, 65, 0}, {64, 64, 1}, {130, 129, 0}, {1000, 210, 5}};
constexpr float kBound = 0.6f;

// Values as in training, with a difficult value in every third place.
Host Values(std::int64_t rows, std::int64_t cols, std::uint32_t seed) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float kHard[] = {0.0f,   -0.0f, 1e-41f,    -1e-41f,    1e30f, -1e30f,  90.0f,
                         -90.0f, 0.6f,  kInfinity, -kInfinity, NAN,   -104.0f, 0.55f};
  Host host = Random(rows, cols, seed, -2.0f, 2.0f);
  for (std::size_t i = 2; i < host.v.size(); i += 3) host.v[i] = kHard[i / 3 % std::size(kHard)];
  return host;
}

float GeluTanhGate(float z) {
  return KernelSigmoid(z * std::fma(0.0713548162f, z * z, 1.59576912f));
}

float Activate(Activation activation, float z) {
  switch (activation) {
    case Activation::kIdentity:
      return z;
    case Activation::kRelu:
      return z > 0.0f || std::isnan(z) ? z : 0.0f;
    case Activation::kClippedRelu:
      return z > 0.0f && z <= kBound ? z : 0.0f;
    case Activation::kTanh:
      return KernelTanh(z);
    case Activation::kSigmoid:
      return KernelSigmoid(z);
    case Activation::kGelu:
      return z * KernelNormalCdf(z);
    case Activation::kGeluTanh:
      return z * GeluTanhGate(z);
    case Activation::kSilu:
      return z * KernelSigmoid(z);
  }
  return NAN;
}

float ActivateGradient(Activation activation, float g, float y) {
  switch (activation) {
    case Activation::kIdentity:
      return g;
    case Activation::kRelu:
      return y > 0.0f || std::isnan(y) ? g : 0.0f;
    case Activation::kClippedRelu:
      return y > 0.0f && y <= kBound ? g : 0.0f;
    case Activation::kTanh:
      return g * std::fma(-y, y, 1.0f);
    case Activation::kSigmoid:
      return g * (y * (1.0f - y));
    case Activation::kGelu:
      return g * std::fma(y, KernelNormalDensity(y), KernelNormalCdf(y));
    case Activation::kGeluTanh: {
      const float x = y > 16.0f ? 16.0f : y < -16.0f ? -16.0f : y;
      const float gate = GeluTanhGate(x);
      const float inner = std::fma(0.214064449f, x * x, 1.59576912f);
      return g * std::fma(x * inner, gate * (1.0f - gate), gate);
    }
    case Activation::kSilu: {
      const float u = KernelSigmoid(y);
      return g * (u * std::fma(y, 1.0f - u, 1.0f));
    }
  }
  return NAN;
}

// A host matrix whose element (r, c) is of(r, c).
template <typename Of>
Host Make(std::int64_t rows, std::int64_t cols, Of of) {
  Host host(rows, cols);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) host.at(r, c) = Canonical(of(r, c));
  }
  return host;
}

class KernelTest : public ::testing::TestWithParam<TestDevice> {
 protected:
  // Runs body(device, case) for every case, with one thread and with several.
  template <typename Body>
  void ForAll(Body body) {
    ACAN_SKIP_WITHOUT(GetParam());
    for (const int threads : GetParam().threads) {
      const auto device = GetParam().make(threads, kRoomyBytes);
      for (const Case& at : kCases) {
        SCOPED_TRACE(::testing::Message() << "[" << at.rows << ", " << at.cols << "] pad " << at.pad
                                          << ", " << threads << " threads");
        body(*device, at);
      }
    }
  }
};

TEST_P(KernelTest, Add) {
  ForAll([](Device& device, const Case& at) {
    const Host x = Values(at.rows, at.cols, 1);
    const Host y = Values(at.rows, at.cols, 2);
    const Host want =
        Make(at.rows, at.cols, [&](auto r, auto c) { return x.at(r, c) + y.at(r, c); });
    const OnDevice in = Put(device, x, at.pad);
    const OnDevice other = Put(device, y, 0);
    const OnDevice out = Space(device, at.rows, at.cols, at.pad);
    KernelArgs args;
    args.m = {out.matrix, in.matrix, other.matrix};
    device.Launch(Kernel::kAdd, args);
    EXPECT_EQ(Difference(Fetch(device, out), want), "");
    args.m = {in.matrix, in.matrix, other.matrix};
    device.Launch(Kernel::kAdd, args);
    EXPECT_EQ(Difference(Fetch(device, in), want), "") << "in place";
  });
}

TEST_P(KernelTest, FillStaysInsideItsView) {
  ForAll([](Device& device, const Case& at) {
    const OnDevice whole = Put(device, Random(at.rows, at.cols + 2, 3), 0);
    const Host before = Fetch(device, whole);
    Matrix inner = whole.matrix;
    inner.offset += 1;
    inner.cols = at.cols;
    KernelArgs args;
    args.m[0] = inner;
    args.scalars.f[0] = 0.25f;
    device.Launch(Kernel::kFill, args);
    const Host want = Make(at.rows, at.cols + 2, [&](auto r, auto c) {
      return c == 0 || c == at.cols + 1 ? before.at(r, c) : 0.25f;
    });
    EXPECT_EQ(Difference(Fetch(device, whole), want), "");
  });
}

TEST_P(KernelTest, UniformIsAFunctionOfThePlaceAlone) {
  ForAll([](Device& device, const Case& at) {
    const OnDevice out = Space(device, at.rows, at.cols, at.pad);
    KernelArgs args;
    args.m[0] = out.matrix;
    args.scalars.f = {-0.5f, 0.75f};
    args.scalars.i = {0x1234567890, 7, 100, 20, 5000};
    device.Launch(Kernel::kUniform, args);
    const Host want = Make(at.rows, at.cols, [&](std::int64_t r, std::int64_t c) {
      const auto place = static_cast<std::uint64_t>((100 + r) * 5000 + 20 + c);
      const float u = acan_unit_float(acan_philox(0x1234567890, place, 7).v[0]);
      return std::fma(1.25f, u, -0.5f);
    });
    EXPECT_EQ(Difference(Fetch(device, out), want), "");
  });
}

TEST_P(KernelTest, Activation) {
  ForAll([](Device& device, const Case& at) {
    for (const ActivationRow& row : kActivations) {
      const Host z = Values(at.rows, at.cols, 8);
      const Host want = Make(at.rows, at.cols,
                             [&](auto r, auto c) { return Activate(row.activation, z.at(r, c)); });
      const OnDevice in = Put(device, z, at.pad);
      const OnDevice out = Space(device, at.rows, at.cols, at.pad);
      KernelArgs args;
      args.scalars.i[0] = static_cast<std::int64_t>(row.activation);
      args.scalars.f[0] = kBound;
      for (const OnDevice* result : {&out, &in}) {  // the second time in place
        args.m = {result->matrix, in.matrix};
        device.Launch(Kernel::kActivation, args);
        EXPECT_EQ(Difference(Fetch(device, *result), want), "") << row.word;
      }
    }
  });
}

// Some instruction sets have a driver of their own for gelu.
TEST_P(KernelTest, GeluOfAllExponents) {
  ACAN_SKIP_WITHOUT(GetParam());
  constexpr std::uint32_t kStep = 19'997;  // prime, so that all mantissas and exponents occur
  constexpr std::int64_t kRows = 463, kCols = 463;
  const Host z = [] {
    Host host(kRows, kCols);
    std::uint32_t bits = 0;
    for (float& value : host.v) value = std::bit_cast<float>(bits += kStep);
    return host;
  }();
  const Host want =
      Make(kRows, kCols, [&](auto r, auto c) { return Activate(Activation::kGelu, z.at(r, c)); });
  const auto device = GetParam().make(1, kRoomyBytes);
  const OnDevice in = Put(*device, z);
  KernelArgs args;
  args.scalars.i[0] = static_cast<std::int64_t>(Activation::kGelu);
  args.m = {in.matrix, in.matrix};
  device->Launch(Kernel::kActivation, args);
  EXPECT_EQ(Difference(Fetch(*device, in), want), "");
}

TEST_P(KernelTest, BiasActivation) {
  ForAll([](Device& device, const Case& at) {
    for (const ActivationRow& row : kActivations) {
      const Activation activation = row.activation;
      const Host x = Values(at.rows, at.cols, 4);
      const Host bias = Random(1, at.cols, 5);
      const Host z =
          Make(at.rows, at.cols, [&](auto r, auto c) { return x.at(r, c) + bias.at(0, c); });
      const Host want =
          Make(at.rows, at.cols, [&](auto r, auto c) { return Activate(activation, z.at(r, c)); });
      const OnDevice in = Put(device, x, at.pad);
      const OnDevice biases = Put(device, bias);
      const OnDevice out = Space(device, at.rows, at.cols, at.pad);
      const OnDevice sums = Space(device, at.rows, at.cols);
      KernelArgs args;
      args.scalars.i[0] = static_cast<std::int64_t>(activation);
      args.scalars.f[0] = kBound;
      args.m = {out.matrix, in.matrix, biases.matrix, sums.matrix};
      device.Launch(Kernel::kBiasActivation, args);
      EXPECT_EQ(Difference(Fetch(device, out), want), "") << row.word;
      EXPECT_EQ(Difference(Fetch(device, sums), z), "");
      args.m = {in.matrix, in.matrix, biases.matrix};
      device.Launch(Kernel::kBiasActivation, args);
      EXPECT_EQ(Difference(Fetch(device, in), want), "") << "in place, without z";
    }
  });
}

TEST_P(KernelTest, ActivationGradient) {
  ForAll([](Device& device, const Case& at) {
    for (const ActivationRow& row : kActivations) {
      const Activation activation = row.activation;
      const Host g = Values(at.rows, at.cols, 6);
      const Host y = Values(at.rows, at.cols, 7);
      const Host want = Make(at.rows, at.cols, [&](auto r, auto c) {
        return ActivateGradient(activation, g.at(r, c), y.at(r, c));
      });
      const OnDevice gradient = Put(device, g, at.pad);
      const OnDevice output = Put(device, y);
      KernelArgs args;
      args.scalars.i[0] = static_cast<std::int64_t>(activation);
      args.scalars.f[0] = kBound;
      args.m = {gradient.matrix, gradient.matrix, output.matrix};
      device.Launch(Kernel::kActivationGradient, args);
      EXPECT_EQ(Difference(Fetch(device, gradient), want), "") << row.word;
    }
  });
}

struct SoftmaxWant {
  Host gradient, loss, correct;
};

SoftmaxWant Softmax(const Host& x, const std::vector<std::int32_t>& labels, std::int64_t block,
                    float scale) {
  SoftmaxWant want{Host(x.rows, x.cols), Host(x.rows, 1), Host(x.rows, 1)};
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const std::int32_t label = labels[static_cast<std::size_t>(r)];
    std::int64_t first = 0;
    for (std::int64_t c = 1; c < x.cols; ++c) {
      if (x.at(r, c) > x.at(r, first)) first = c;
    }
    const float largest = x.at(r, first);
    const float sum = TreeSum(x.cols, block, [&](float acc, std::int64_t c) {
      return acc + KernelExp(x.at(r, c) - largest);
    });
    const bool valid = label >= 0 && label < x.cols;
    want.loss.at(r, 0) = Canonical(valid ? KernelLog(sum) - (x.at(r, label) - largest) : NAN);
    want.correct.at(r, 0) = first == label ? 1.0f : 0.0f;
    for (std::int64_t c = 0; c < x.cols; ++c) {
      const float p = KernelExp(x.at(r, c) - largest) / sum;
      want.gradient.at(r, c) = Canonical((p - (c == label ? 1.0f : 0.0f)) * scale);
    }
  }
  return want;
}

TEST_P(KernelTest, SoftmaxCrossEntropy) {
  ForAll([](Device& device, const Case& at) {
    for (const bool hard : {false, true}) {
      const Host x = hard ? Values(at.rows, at.cols, 8) : Random(at.rows, at.cols, 8, -9.0f, 9.0f);
      std::vector<std::int32_t> labels;
      Host raw(at.rows, 1);
      for (std::int64_t r = 0; r < at.rows; ++r) {
        labels.push_back(static_cast<std::int32_t>(r * 7 % at.cols));
        if (hard && r % 11 == 3) labels.back() = r % 2 == 0 ? -1 : static_cast<int>(at.cols);
        std::memcpy(&raw.at(r, 0), &labels.back(), 4);
      }
      const SoftmaxWant want = Softmax(x, labels, 32, 0.125f);
      const OnDevice logits = Put(device, x, at.pad);
      const OnDevice label = Put(device, raw);
      const OnDevice loss = Space(device, at.rows, 1);
      const OnDevice correct = Space(device, at.rows, 1);
      KernelArgs args;
      args.scalars.i[0] = 32;
      args.scalars.f[0] = 0.125f;
      args.m = {Matrix{}, logits.matrix, label.matrix, loss.matrix, correct.matrix};
      device.Launch(Kernel::kSoftmaxCrossEntropy, args);
      EXPECT_EQ(Difference(Fetch(device, loss), want.loss), "") << "without a gradient";
      args.m[0] = logits.matrix;
      device.Launch(Kernel::kSoftmaxCrossEntropy, args);
      EXPECT_EQ(Difference(Fetch(device, loss), want.loss), "");
      EXPECT_EQ(Difference(Fetch(device, correct), want.correct), "");
      EXPECT_EQ(Difference(Fetch(device, logits), want.gradient), "") << "in place";
    }
  });
}

TEST_P(KernelTest, SquaredError) {
  ForAll([](Device& device, const Case& at) {
    const Host x = Values(at.rows, at.cols, 9);
    const Host y = Random(at.rows, at.cols, 10);
    const Host gradient =
        Make(at.rows, at.cols, [&](auto r, auto c) { return (x.at(r, c) - y.at(r, c)) * 0.375f; });
    const Host loss = Make(at.rows, 1, [&](auto r, auto) {
      return TreeSum(at.cols, 16, [&](float acc, std::int64_t c) {
        const float d = x.at(r, c) - y.at(r, c);
        return std::fma(d, d, acc);
      });
    });
    const OnDevice in = Put(device, x, at.pad);
    const OnDevice target = Put(device, y);
    const OnDevice sum = Space(device, at.rows, 1);
    KernelArgs args;
    args.scalars.i[0] = 16;
    args.scalars.f[0] = 0.375f;
    args.m = {Matrix{}, in.matrix, target.matrix, sum.matrix};
    device.Launch(Kernel::kSquaredError, args);
    EXPECT_EQ(Difference(Fetch(device, sum), loss), "") << "without a gradient";
    args.m[0] = in.matrix;
    device.Launch(Kernel::kSquaredError, args);
    EXPECT_EQ(Difference(Fetch(device, in), gradient), "");
    EXPECT_EQ(Difference(Fetch(device, sum), loss), "");
  });
}

TEST_P(KernelTest, ColumnSums) {
  ForAll([](Device& device, const Case& at) {
    for (const std::int64_t block : {16, 64}) {
      const Host x = block == 16 ? Random(at.rows, at.cols, 11) : Values(at.rows, at.cols, 11);
      const Host want = Make(1, at.cols, [&](auto, auto c) {
        return TreeSum(at.rows, block, [&](float acc, std::int64_t r) { return acc + x.at(r, c); });
      });
      const OnDevice in = Put(device, x, at.pad);
      const OnDevice out = Space(device, 1, at.cols);
      KernelArgs args;
      args.scalars.i[0] = block;
      args.m = {out.matrix, in.matrix};
      device.Launch(Kernel::kColumnSums, args);
      EXPECT_EQ(Difference(Fetch(device, out), want), "");
    }
  });
}

TEST_P(KernelTest, SgdInPlace) {
  ForAll([](Device& device, const Case& at) {
    const Host w = Values(at.rows, at.cols, 12);
    const Host g = Random(at.rows, at.cols, 13);
    const Host want = Make(at.rows, at.cols, [&](auto r, auto c) {
      return std::fma(-0.1f, std::fma(0.01f, w.at(r, c), g.at(r, c)), w.at(r, c));
    });
    const OnDevice weight = Put(device, w, at.pad);
    const OnDevice gradient = Put(device, g);
    KernelArgs args;
    args.scalars.f = {0.1f, 0.01f};
    args.m = {weight.matrix, weight.matrix, gradient.matrix};
    device.Launch(Kernel::kSgd, args);
    EXPECT_EQ(Difference(Fetch(device, weight), want), "");
  });
}

TEST_P(KernelTest, MomentumInPlace) {
  ForAll([](Device& device, const Case& at) {
    const Host w = Random(at.rows, at.cols, 14);
    const Host v = Values(at.rows, at.cols, 15);
    const Host g = Random(at.rows, at.cols, 16);
    const Host new_v = Make(at.rows, at.cols, [&](auto r, auto c) {
      return std::fma(0.9f, v.at(r, c), std::fma(0.02f, w.at(r, c), g.at(r, c)));
    });
    const Host new_w = Make(at.rows, at.cols, [&](auto r, auto c) {
      return std::fma(-0.05f, new_v.at(r, c), w.at(r, c));
    });
    const OnDevice weight = Put(device, w, at.pad);
    const OnDevice velocity = Put(device, v);
    const OnDevice gradient = Put(device, g, at.pad);
    KernelArgs args;
    args.scalars.f = {0.05f, 0.9f, 0.02f};
    args.m = {weight.matrix, velocity.matrix, weight.matrix, velocity.matrix, gradient.matrix};
    device.Launch(Kernel::kMomentum, args);
    EXPECT_EQ(Difference(Fetch(device, velocity), new_v), "");
    EXPECT_EQ(Difference(Fetch(device, weight), new_w), "");
  });
}

// `rate`: 1 - beta2.
void CheckAdamW(Device& device, const Case& at, float rate) {
  const std::array<float, 8> f{1e-3f, 0.1f, rate, 1e-8f, 0.01f, 0.19f, 0.0447f};
  const Host w = Random(at.rows, at.cols, 17);
  const Host m = Random(at.rows, at.cols, 18);
  const Host v = Random(at.rows, at.cols, 19, 0.0f, 1.0f);
  const Host g = Values(at.rows, at.cols, 20);
  const Host new_m = Make(at.rows, at.cols, [&](auto r, auto c) {
    return std::fma(f[1], g.at(r, c) - m.at(r, c), m.at(r, c));
  });
  const Host new_v = Make(at.rows, at.cols, [&](auto r, auto c) {
    const float x = g.at(r, c);
    return rate > 0.5f ? std::fma(rate * x, x, (1 - rate) * v.at(r, c))
                       : std::fma(rate, std::fma(x, x, -v.at(r, c)), v.at(r, c));
  });
  const Host new_w = Make(at.rows, at.cols, [&](auto r, auto c) {
    const float decayed = std::fma(-(f[0] * f[4]), w.at(r, c), w.at(r, c));
    const float step = new_m.at(r, c) / (std::sqrt(new_v.at(r, c)) / f[6] + f[3]);
    return std::fma(-(f[0] / f[5]), step, decayed);
  });
  const OnDevice weight = Put(device, w, at.pad);
  const OnDevice first = Put(device, m);
  const OnDevice second = Put(device, v);
  const OnDevice gradient = Put(device, g);
  KernelArgs args;
  args.scalars.f = f;
  args.m = {weight.matrix, first.matrix,  second.matrix,  weight.matrix,
            first.matrix,  second.matrix, gradient.matrix};
  device.Launch(Kernel::kAdamW, args);
  EXPECT_EQ(Difference(Fetch(device, first), new_m), "");
  EXPECT_EQ(Difference(Fetch(device, second), new_v), "");
  EXPECT_EQ(Difference(Fetch(device, weight), new_w), "");
}

TEST_P(KernelTest, AdamWInPlace) {
  ForAll([](Device& device, const Case& at) {
    for (const float rate : {0.001f, 0.5f, 0.75f, 1.0f}) CheckAdamW(device, at, rate);
  });
}

// With beta2 = 0, the step equals the learning rate, whatever the state was before.
TEST_P(KernelTest, AdamWForgetsLargeGradients) {
  ForAll([](Device& device, const Case& at) {
    const Host zero = Make(at.rows, at.cols, [](auto, auto) { return 0.0f; });
    const Host large = Make(at.rows, at.cols, [](auto, auto) { return 1e8f; });
    const Host small = Make(at.rows, at.cols, [](auto, auto) { return 1e-4f; });
    const OnDevice weight = Put(device, zero), first = Put(device, zero);
    const OnDevice second = Put(device, large), gradient = Put(device, small);
    KernelArgs args;
    args.scalars.f = {0.5f, 1.0f, 1.0f, 1e-30f, 0.0f, 1.0f, 1.0f};
    args.m = {weight.matrix, first.matrix,  second.matrix,  weight.matrix,
              first.matrix,  second.matrix, gradient.matrix};
    device.Launch(Kernel::kAdamW, args);
    const Host found = Fetch(device, weight);
    for (const float w : found.v) EXPECT_NEAR(w, -0.5f, 1e-6f);
  });
}

// Not a kernel: devices copy this way when a kept result is part of an operand.
TEST_P(KernelTest, CopiesPartsToParts) {
  ForAll([](Device& device, const Case& at) {
    const Host host = Values(at.rows, at.cols, 21);
    const OnDevice from = Put(device, host, at.pad);
    const OnDevice to = Space(device, at.rows, at.cols, at.pad + 3);
    device.Copy(from.buffer, from.matrix, to.matrix);
    EXPECT_EQ(Difference(Fetch(device, to), host), "");
    const std::unique_ptr<PendingDownload> mark = device.StartMark();
    EXPECT_TRUE(mark->Wait().empty());
    const tuplespace::Payload whole = device.Fetch(to.buffer);
    ASSERT_EQ(whole.size(), to.buffer->size_bytes());
    const auto* words = reinterpret_cast<const float*>(whole.data());
    for (std::int64_t row = 0; row < at.rows; ++row) {
      EXPECT_EQ(std::memcmp(words + to.matrix.offset + row * to.matrix.stride,
                            host.v.data() + row * at.cols,
                            static_cast<std::size_t>(at.cols) * sizeof(float)),
                0)
          << "row " << row;
    }
    const OnDevice other = Space(device, at.rows + 1, at.cols);
    EXPECT_THROW(device.Copy(from.buffer, from.matrix, other.matrix), std::invalid_argument);
    EXPECT_THROW(device.Copy(other.buffer, from.matrix, to.matrix), std::invalid_argument);
  });
}

INSTANTIATE_TEST_SUITE_P(Devices, KernelTest, ::testing::ValuesIn(KernelTestDevices()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace acan::test
