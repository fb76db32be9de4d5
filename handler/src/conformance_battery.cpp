// The battery's operations and values. To change any of them is to change the table of hashes in
// conformance.cpp, which every handler of a cluster must share.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <string>
#include <utility>

#include "acan/core/philox.h"
#include "acan/handler/conformance.h"
#include "hex_sha256.h"

namespace acan {
namespace {

constexpr std::int64_t kBlock = 16;
constexpr std::int64_t kRows = 7;
constexpr std::int64_t kCols = 83;  // six leaves, the last of three

enum class Values : std::uint8_t {
  kUnit,      // [-1, 1)
  kWide,      // both signs, magnitudes from 2^-20 to 2^12
  kPositive,  // (0, 1]
  kSpecial,   // as kWide, every fourth from kSpecials
  kLabels,    // int32 in [0, kCols)
};

constexpr std::array<std::uint32_t, 16> kSpecials{
    0x00000000,  // 0
    0x80000000,  // -0
    0x00000001,  // the smallest denormal
    0x807fffff,  // the largest, negative
    0x00800000,  // the smallest normal
    0x7f7fffff,  // the largest
    0x7f800000,  // infinity
    0xff800000,  // -infinity
    0x7fc00000,  // NaN
    0x42b17218,  // 88.72: e^x overflows from here
    0xc2cff1b5,  // -103.97: e^x vanishes from here
    0xc2ae0000,  // -87: e^x is almost denormal
    0x3f0ccccd,  // 0.55 and 1: the seams of tanh and of the normal distribution
    0xbf800000,  // -1
    0x41000000,  // 8
    0xc1600000,  // -14
};

std::uint32_t WordAt(Values values, std::uint64_t place, std::uint64_t tensor) {
  const acan_philox4 random = acan_philox(0x6163616eu, place, tensor);
  const float unit = acan_unit_float(random.v[0]);
  switch (values) {
    case Values::kUnit:
      return std::bit_cast<std::uint32_t>(2.0f * unit - 1.0f);
    case Values::kPositive:
      return std::bit_cast<std::uint32_t>(1.0f - unit);
    case Values::kLabels:
      return random.v[1] % static_cast<std::uint32_t>(kCols);
    case Values::kSpecial:
      if (place % 4 == 3) return kSpecials[place / 4 % kSpecials.size()];
      [[fallthrough]];
    case Values::kWide:
      break;
  }
  const std::uint32_t exponent = 127 - 20 + random.v[1] % 32;
  return (random.v[2] & 0x80000000u) | exponent << 23 | (random.v[0] >> 9);
}

// One operation: operands in, results hashed, everything released at the end.
class Operation {
 public:
  Operation(Device& device, std::string name) : device_(device), name_(std::move(name)) {}

  Matrix In(std::int64_t rows, std::int64_t cols, Values values) {
    std::vector<std::uint32_t> words(static_cast<std::size_t>(rows * cols));
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = WordAt(values, i, tensor_);
    ++tensor_;
    return Hold(device_.Upload(tuplespace::Payload::Copy(words.data(), words.size() * 4)), rows,
                cols);
  }

  Matrix Out(std::int64_t rows, std::int64_t cols) {
    const BufferPtr buffer = device_.Allocate(static_cast<std::uint64_t>(rows * cols) * 4);
    const Matrix matrix = Hold(buffer, rows, cols);
    outputs_.emplace_back(buffer, matrix);
    return matrix;
  }

  OperationHash Finish() {
    std::vector<std::byte> bytes;
    for (const auto& [buffer, matrix] : outputs_) {
      const tuplespace::Payload payload = device_.Download(buffer, matrix);
      bytes.insert(bytes.end(), payload.bytes().begin(), payload.bytes().end());
    }
    return {std::move(name_), HexSha256(bytes)};
  }

 private:
  Matrix Hold(BufferPtr buffer, std::int64_t rows, std::int64_t cols) {
    buffers_.push_back(std::move(buffer));
    return {buffers_.back().get(), 0, rows, cols, cols};
  }

  Device& device_;
  std::string name_;
  std::uint64_t tensor_ = 0;
  std::vector<BufferPtr> buffers_;
  std::vector<std::pair<BufferPtr, Matrix>> outputs_;
};

OperationHash RunGemm(Device& device, GemmForm form, std::string name, std::int64_t m,
                      std::int64_t n, std::int64_t k, std::int64_t block, Values values) {
  constexpr std::array<const char*, 3> kForms{"forward", "backward", "gradient"};
  Operation op(device, fmt::format("gemm {} {}", kForms[static_cast<std::size_t>(form)], name));
  const Matrix a = form == GemmForm::kGradient ? op.In(k, m, values) : op.In(m, k, values);
  const Matrix b = form == GemmForm::kForward ? op.In(n, k, values) : op.In(k, n, values);
  device.Gemm(form, Precision::kExact, block, a, b, op.Out(m, n));
  return op.Finish();
}

void RunGemms(Device& device, std::vector<OperationHash>& out) {
  for (const GemmForm form : {GemmForm::kForward, GemmForm::kBackward, GemmForm::kGradient}) {
    out.push_back(RunGemm(device, form, "ragged", 35, 37, 83, kBlock, Values::kWide));
    out.push_back(RunGemm(device, form, "one row", 1, 33, 150, 32, Values::kUnit));
    out.push_back(RunGemm(device, form, "one column", 29, 1, 77, kBlock, Values::kUnit));
    out.push_back(RunGemm(device, form, "deep", 3, 5, 1100, 64, Values::kUnit));
    out.push_back(RunGemm(device, form, "one leaf", 13, 17, 64, 64, Values::kWide));
    out.push_back(RunGemm(device, form, "special values", 9, 34, 51, kBlock, Values::kSpecial));
  }
}

void RunActivations(Device& device, std::vector<OperationHash>& out) {
  constexpr std::array<const char*, 6> kNames{"identity", "relu",    "clipped_relu",
                                              "tanh",     "sigmoid", "gelu"};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    KernelArgs args;
    args.scalars.i[0] = static_cast<std::int64_t>(i);
    args.scalars.f[0] = 6.0f;
    for (const Values values : {Values::kUnit, Values::kSpecial}) {
      const std::string suffix =
          fmt::format("{}{}", kNames[i], values == Values::kUnit ? "" : ", special values");
      Operation forward(device, fmt::format("kBiasActivation {}", suffix));
      args.m = {};
      args.m[1] = forward.In(kRows, kCols, values);
      args.m[2] = forward.In(1, kCols, Values::kUnit);
      args.m[0] = forward.Out(kRows, kCols);
      args.m[3] = forward.Out(kRows, kCols);
      device.Launch(Kernel::kBiasActivation, args);
      out.push_back(forward.Finish());

      Operation backward(device, fmt::format("kActivationGradient {}", suffix));
      args.m = {};
      args.m[1] = backward.In(kRows, kCols, Values::kWide);
      args.m[2] = backward.In(kRows, kCols, values);
      args.m[0] = backward.Out(kRows, kCols);
      device.Launch(Kernel::kActivationGradient, args);
      out.push_back(backward.Finish());
    }
  }
}

void RunLosses(Device& device, std::vector<OperationHash>& out) {
  for (const Values values : {Values::kUnit, Values::kSpecial}) {
    const char* suffix = values == Values::kUnit ? "" : " special values";
    KernelArgs args;
    args.scalars.i[0] = kBlock;
    args.scalars.f[0] = 0.0078125f;
    Operation cross(device, fmt::format("kSoftmaxCrossEntropy{}", suffix));
    args.m[1] = cross.In(kRows, kCols, values);
    args.m[2] = cross.In(kRows, 1, Values::kLabels);
    args.m[0] = cross.Out(kRows, kCols);
    args.m[3] = cross.Out(kRows, 1);
    args.m[4] = cross.Out(kRows, 1);
    device.Launch(Kernel::kSoftmaxCrossEntropy, args);
    out.push_back(cross.Finish());

    Operation squared(device, fmt::format("kSquaredError{}", suffix));
    args.m = {};
    args.m[1] = squared.In(kRows, kCols, values);
    args.m[2] = squared.In(kRows, kCols, Values::kUnit);
    args.m[0] = squared.Out(kRows, kCols);
    args.m[3] = squared.Out(kRows, 1);
    device.Launch(Kernel::kSquaredError, args);
    out.push_back(squared.Finish());

    Operation sums(device, fmt::format("kColumnSums{}", suffix));
    args.m = {};
    args.m[1] = sums.In(kCols, 21, values);
    args.m[0] = sums.Out(1, 21);
    device.Launch(Kernel::kColumnSums, args);
    out.push_back(sums.Finish());
  }
}

// `written` results, then operands.
OperationHash RunElements(Device& device, const char* name, Kernel kernel,
                          const KernelScalars& scalars, int written,
                          std::initializer_list<Values> operands) {
  Operation op(device, name);
  KernelArgs args;
  args.scalars = scalars;
  std::size_t i = 0;
  for (; i < static_cast<std::size_t>(written); ++i) args.m[i] = op.Out(kRows, kCols);
  for (const Values values : operands) args.m[i++] = op.In(kRows, kCols, values);
  device.Launch(kernel, args);
  return op.Finish();
}

void RunElementwise(Device& device, std::vector<OperationHash>& out) {
  constexpr Values kWide = Values::kWide;
  const auto run = [&](const char* name, Kernel kernel, const KernelScalars& scalars, int written,
                       std::initializer_list<Values> operands) {
    out.push_back(RunElements(device, name, kernel, scalars, written, operands));
  };
  run("kAdd", Kernel::kAdd, {}, 1, {kWide, kWide});
  run("kAdd special values", Kernel::kAdd, {}, 1, {Values::kSpecial, kWide});
  run("kFill", Kernel::kFill, {.f = {0.1f}, .i = {}}, 1, {});
  const KernelScalars uniform{.f = {-0.0357142873f, 0.0357142873f},
                              .i = {0x123456789abcdef, 3, 4096, 64, 784}};
  run("kUniform", Kernel::kUniform, uniform, 1, {});
  run("kSgd", Kernel::kSgd, {.f = {0.1f, 0.01f}, .i = {}}, 1, {kWide, kWide});
  run("kMomentum", Kernel::kMomentum, {.f = {0.1f, 0.9f, 0.01f}, .i = {}}, 2,
      {kWide, kWide, kWide});
  const KernelScalars adamw{.f = {0.001f, 0.1f, 0.001f, 1e-8f, 0.01f, 0.271f, 0.0547083385f},
                            .i = {}};
  run("kAdamW", Kernel::kAdamW, adamw, 3, {kWide, kWide, Values::kPositive, kWide});
}

}  // namespace

std::vector<OperationHash> RunConformanceBattery(Device& device) {
  std::vector<OperationHash> out;
  RunGemms(device, out);
  RunElementwise(device, out);
  RunActivations(device, out);
  RunLosses(device, out);
  return out;
}

}  // namespace acan
