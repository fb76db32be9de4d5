// Runs the battery's cases on a device. A change to their values changes the hashes in
// conformance_table.inc, which all handlers of a cluster must share.
#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "acan/core/philox.h"
#include "acan/handler/conformance.h"
#include "conformance_cases.h"
#include "fmt/format.h"
#include "hex_sha256.h"

namespace acan {
namespace conformance {
namespace {

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

// A random sign and significand with this biased exponent.
std::uint32_t WithExponent(std::uint32_t exponent, const acan_philox4& random) {
  return (random.v[2] & 0x80000000u) | exponent << 23 | (random.v[0] >> 9);
}

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
    case Values::kIndices:
      return random.v[1] % static_cast<std::uint32_t>(kIndexed);
    case Values::kTiny:
      return WithExponent(127 - 71 + random.v[1] % 16, random);
    case Values::kDenormal:
      return WithExponent(0, random);
    case Values::kSpecial:
      if (place % 4 == 3) return kSpecials[place / 4 % kSpecials.size()];
      [[fallthrough]];
    case Values::kWide:
      break;
  }
  return WithExponent(127 - 20 + random.v[1] % 32, random);
}

// One operation: it takes operands, hashes results, and releases everything at the end.
class Operation {
 public:
  Operation(Device& device, std::string name) : device_(device), name_(std::move(name)) {}

  Matrix In(std::int64_t rows, std::int64_t cols, Values values) {
    return Hold(device_.Upload(Words(rows, cols, values)), rows, cols);
  }

  Matrix Out(std::int64_t rows, std::int64_t cols) {
    const BufferPtr buffer = device_.Allocate(static_cast<std::uint64_t>(rows * cols) * 4);
    const Matrix matrix = Hold(buffer, rows, cols);
    outputs_.emplace_back(buffer, matrix);
    return matrix;
  }

  Matrix InOut(std::int64_t rows, std::int64_t cols, Values values) {
    const tuplespace::Payload words = Words(rows, cols, values);
    const Matrix matrix = Out(rows, cols);
    device_.CopyIn(words, matrix);
    return matrix;
  }

  // A matrix that the operation may write and that is not checked.
  Matrix Scratch(std::int64_t rows, std::int64_t cols) {
    return Hold(device_.Allocate(static_cast<std::uint64_t>(rows * cols) * 4), rows, cols);
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
  tuplespace::Payload Words(std::int64_t rows, std::int64_t cols, Values values) {
    std::vector<std::uint32_t> words(static_cast<std::size_t>(rows * cols));
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = WordAt(values, i, tensor_);
    ++tensor_;
    return tuplespace::Payload::Copy(words.data(), words.size() * 4);
  }

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

std::string NameOf(const OperatorRow& row, const Case& of) {
  std::string name(row.name);
  for (const std::string_view words : {of.variant, of.what}) {
    if (words.empty()) continue;
    name += words == of.what && !of.variant.empty() ? ", " : " ";
    name += words;
  }
  return name;
}

// Hashes what call(operands) computes for a case. Optional operands are present.
template <typename Call>
OperationHash Run(Device& device, const OperatorRow& row, const Case& of, Call call) {
  Operation op(device, NameOf(row, of));
  const Dimensions dimensions = DimensionsNamed(row, of.sizes);
  std::array<Matrix, kMaxKernelMatrices> m;
  std::size_t read = 0;
  for (std::size_t i = 0; i < row.operands.size(); ++i) {
    const OperandShape shape = ShapeOf(row.operands[i], dimensions);
    switch (row.operands[i].access) {
      case Access::kRead:
        m[i] = op.In(shape.rows, shape.cols, of.values[read++]);
        break;
      case Access::kWrite:
        m[i] = op.Out(shape.rows, shape.cols);
        break;
      case Access::kUpdate:
        m[i] = op.InOut(shape.rows, shape.cols, of.values[read++]);
        break;
    }
  }
  call(m);
  return op.Finish();
}

// An image of 6 x 6 pixels under windows of 3 x 3. The number of outputs is 8 to 64, as devices
// have tiles for some numbers, and leaves end within a window's pixel.
struct Convolved {
  std::int64_t channels, outputs, stride;
};
constexpr Convolved kConvolved[] = {{3, 64, 1}, {4, 64, 2}, {9, 32, 1}, {16, 16, 1}, {20, 8, 1}};

constexpr std::int64_t kEdge = 6, kWindow = 3, kPadding = 1, kConvolvedBlock = 16;

std::int64_t ResultsOf(const Convolved& of) {
  const std::int64_t edge = (kEdge + 2 * kPadding - kWindow) / of.stride + 1;
  return edge * edge;
}
KernelScalars WindowOf(const Convolved& of) {
  KernelScalars scalars;
  scalars.i = {kEdge,     kEdge,    kWindow,  kWindow,         of.stride,
               of.stride, kPadding, kPadding, kConvolvedBlock, 1};
  return scalars;
}

// Both passes of a convolution and the activation that follows: either as one call each, or as the
// calls that it replaces.
OperationHash Convolution(Device& device, const Convolved& of, bool in_one) {
  const std::int64_t results = ResultsOf(of), depth = kWindow * kWindow * of.channels;
  Operation op(device, fmt::format("a convolution of {} channels to {}", of.channels, of.outputs));
  const Matrix weight = op.In(of.outputs, depth, Values::kWide);
  const Matrix dy = op.In(results, of.outputs, Values::kWide);
  KernelArgs unfold, fold;
  unfold.m = {op.Scratch(results, depth), op.In(kEdge * kEdge, of.channels, Values::kSpecial)};
  unfold.scalars = WindowOf(of);
  fold.m = {op.Out(kEdge * kEdge, of.channels), unfold.m[0]};
  fold.scalars = unfold.scalars;
  Device::Following then{Kernel::kActivation, {}};
  const Matrix sums = op.Out(results, of.outputs);
  then.args.m = {op.Out(results, of.outputs), sums};
  then.args.scalars.i = {static_cast<std::int64_t>(Activation::kRelu)};
  if (in_one) {
    device.Convolve(Precision::kExact, kConvolvedBlock, unfold, weight, sums, &then);
    device.ConvolveBack(Precision::kExact, kConvolvedBlock, dy, weight, fold);
  } else {
    device.Launch(Kernel::kUnfold, unfold);
    device.Gemm(GemmForm::kForward, Precision::kExact, kConvolvedBlock, unfold.m[0], weight, sums);
    device.Launch(then.kernel, then.args);
    device.Gemm(GemmForm::kBackward, Precision::kExact, kConvolvedBlock, dy, weight, fold.m[1]);
    device.Launch(Kernel::kFold, fold);
  }
  return op.Finish();
}

// The gradient of the convolution's weights, from two groups of rows, in the same two ways.
OperationHash WeightGradient(Device& device, const Convolved& of, bool in_one) {
  const std::int64_t results = ResultsOf(of), depth = kWindow * kWindow * of.channels;
  const std::int64_t group = (results + 1) / 2;
  Operation op(device, fmt::format("the weights' gradient of a convolution of {} channels to {}",
                                   of.channels, of.outputs));
  const Matrix dy = op.In(results, of.outputs, Values::kWide);
  KernelArgs unfold;
  unfold.m = {op.Scratch(results, depth), op.In(kEdge * kEdge, of.channels, Values::kSpecial)};
  unfold.scalars = WindowOf(of);
  const Matrix out = op.Out(of.outputs, depth);
  if (in_one &&
      device.ConvolveWeights(Precision::kExact, kConvolvedBlock, group, unfold, dy, out)) {
    return op.Finish();
  }
  const auto rows = [](Matrix m, std::int64_t first, std::int64_t count) {
    m.offset += first * m.stride;
    m.rows = count;
    return m;
  };
  KernelArgs add;
  add.m = {out, out, op.Scratch(of.outputs, depth)};
  device.Launch(Kernel::kUnfold, unfold);
  for (const auto& [first, sum] : {std::pair{std::int64_t{0}, out}, {group, add.m[2]}}) {
    const std::int64_t count = first == 0 ? group : results - group;
    device.Gemm(GemmForm::kGradient, Precision::kExact, kConvolvedBlock, rows(dy, first, count),
                rows(unfold.m[0], first, count), sum);
  }
  device.Launch(Kernel::kAdd, add);
  return op.Finish();
}

// The number of groups is not a power of two, and in all cases but the third the last group is
// short. The last case has 40 groups, more than a device may add at once, and operands whose rows
// can be read four words at a time.
struct Grouped {
  std::int64_t group_rows, rows, block, outputs, inputs;
};
constexpr Grouped kGrouped[] = {
    {33, 139, 64, 13, 18}, {17, 160, 32, 13, 18}, {50, 300, 64, 13, 18}, {3, 118, 16, 12, 20}};

// A gradient over groups of rows, either in one call or as the products and additions that it
// replaces: after each group, as many sums are added as its number has trailing one bits. nullopt
// if the device has no such call.
std::optional<OperationHash> GradientOfGroups(Device& device, const Grouped& of, bool in_one) {
  Operation op(device, fmt::format("a gradient over groups of {} rows", of.group_rows));
  const Matrix dy = op.In(of.rows, of.outputs, Values::kWide);
  const Matrix x = op.In(of.rows, of.inputs, Values::kSpecial);
  std::vector<Matrix> sums{op.Out(of.outputs, of.inputs)};
  if (in_one) {
    if (!device.GemmGroups(Precision::kExact, of.block, of.group_rows, dy, x, sums.front())) {
      return std::nullopt;
    }
    return op.Finish();
  }
  std::size_t open = 0;
  const auto add_last = [&] {
    --open;
    device.Launch(Kernel::kAdd, {{sums[open - 1], sums[open - 1], sums[open]}, {}});
  };
  std::uint64_t group = 0;
  for (std::int64_t row = 0; row < of.rows; row += of.group_rows, ++group) {
    const std::int64_t rows = std::min(of.group_rows, of.rows - row);
    const auto part = [&](Matrix m) {
      m.offset += row * m.stride;
      m.rows = rows;
      return m;
    };
    if (open == sums.size()) sums.push_back(op.Scratch(of.outputs, of.inputs));
    device.Gemm(GemmForm::kGradient, Precision::kExact, of.block, part(dy), part(x), sums[open++]);
    for (std::uint64_t bits = group; (bits & 1) != 0; bits >>= 1) add_last();
  }
  while (open > 1) add_last();
  return op.Finish();
}

}  // namespace
}  // namespace conformance

std::string ConformanceOfGroups(Device& device) {
  struct AsAtFirst {
    Device& device;
    ~AsAtFirst() { device.UseExactWay(-1); }
  } const restore{device};
  const int ways = device.ExactWays();
  for (const conformance::Grouped& of : conformance::kGrouped) {
    std::optional<OperationHash> one_by_one;
    for (int way = -1; way < (ways > 1 ? ways : 0); ++way) {
      device.UseExactWay(way);
      const std::optional<OperationHash> in_one = conformance::GradientOfGroups(device, of, true);
      if (!in_one) continue;
      // In any way, because the products have the bits of the table in each.
      if (!one_by_one) one_by_one = conformance::GradientOfGroups(device, of, false);
      if (in_one->sha256 == one_by_one->sha256) continue;
      const std::string where = way < 0 ? "" : fmt::format(" in way {} of {}", way + 1, ways);
      return in_one->operation + " in one call" + where;
    }
  }
  return "";
}

std::string ConformanceOfConvolutions(Device& device) {
  for (const conformance::Convolved& of : conformance::kConvolved) {
    const OperationHash in_one = conformance::Convolution(device, of, true);
    if (in_one.sha256 != conformance::Convolution(device, of, false).sha256) {
      return in_one.operation + " in one call";
    }
    const OperationHash weights = conformance::WeightGradient(device, of, true);
    if (weights.sha256 != conformance::WeightGradient(device, of, false).sha256) {
      return weights.operation + " in one call";
    }
  }
  return "";
}

std::vector<OperationHash> RunConformanceProducts(Device& device) {
  std::vector<OperationHash> out;
  for (std::size_t form = 0; form < kProducts; ++form) {
    for (const conformance::ProductCase& each : conformance::AllProductCases()) {
      out.push_back(conformance::Run(device, *kProductRows[form], each.of, [&](const auto& m) {
        device.Gemm(static_cast<GemmForm>(form), Precision::kExact, each.block, m[0], m[1], m[2]);
      }));
    }
  }
  return out;
}

std::vector<OperationHash> RunConformanceBattery(Device& device) {
  std::vector<OperationHash> out = RunConformanceProducts(device);
  for (const conformance::KernelCase& each : conformance::AllKernelCases()) {
    out.push_back(conformance::Run(device, RowOf(each.kernel), each.of, [&](const auto& m) {
      device.Launch(each.kernel, {m, each.of.scalars});
    }));
  }
  return out;
}

}  // namespace acan
