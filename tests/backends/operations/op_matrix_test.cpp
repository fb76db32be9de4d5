// The op matrix: every operation on every device in every precision, at fixed and at random shapes,
// compared with float64; in exact precision, also bit for bit with the CPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "acan/cpu/cpu_device.h"
#include "operations.h"
#include "reference.h"

namespace acan::test {
namespace {

// One row, one column, one element, ragged and larger shapes, and random ones from a fixed seed.
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
  std::size_t read = 0, written = 0;
  for (const Operand& operand : op.row().operands) {
    if (operand.access == Access::kUpdate) {
      const Host& host = operands[read];
      device.CopyIn(tuplespace::Payload::Copy(host.v.data(), host.v.size() * 4),
                    out[written].matrix);
    }
    read += operand.reads() ? 1 : 0;
    written += operand.writes() ? 1 : 0;
  }
  for (const OnDevice& each : in) in_matrices.push_back(each.matrix);
  for (const OnDevice& each : out) out_matrices.push_back(each.matrix);
  op.run(device, precision, shape, in_matrices, out_matrices);
  std::vector<Host> results;
  for (const OnDevice& each : out) results.push_back(Fetch(device, each));
  return results;
}

// The tolerance grows with the length of the sum; the comparison with the CPU's bits allows no
// error.
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
    if (DiffersByProducts(GetParam()) && !op.product()) continue;
    for (const Shape& shape : AllShapes()) {
      SCOPED_TRACE(fmt::format("{} [{}, {}] inner {} pad {}", op.name, shape.rows, shape.cols,
                               shape.inner, shape.pad));
      const std::vector<Host> operands = op.operands(shape);
      const std::vector<Doubles> want = op.definition(shape, operands);
      const std::vector<Host> exact = Results(*device, op, Precision::kExact, shape, operands);
      ExpectNear(exact, want);
      const std::vector<Host> of_cpu = Results(*cpu, op, Precision::kExact, shape, operands);
      for (std::size_t i = 0; i < exact.size(); ++i) {
        ASSERT_EQ(Difference(exact[i], of_cpu[i]), "") << "result " << i;
      }
      if (op.product() && device->info().fast) {
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

// What every device guarantees about memory and views; device_test covers the CPU's own guarantees.
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

TEST(Operations, AreAllOfTheTable) {
  for (std::size_t kernel = 0; kernel < kKernels; ++kernel) {
    const OperatorRow& row = *kKernelRows[kernel];
    for (std::int64_t variant = 0; variant < row.variants; ++variant) {
      EXPECT_TRUE(std::ranges::any_of(AllOperations(),
                                      [&](const Operation& op) {
                                        return !op.product() && &op.row() == &row &&
                                               (row.variants == 1 || op.scalars.i[0] == variant);
                                      }))
          << row.name << ", variant " << variant;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, OpMatrix, ::testing::ValuesIn(AllTestDevices()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace acan::test
