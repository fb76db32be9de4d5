// On matrices of few columns, the CPU processes several rows at once; the bits must equal those of
// the same kernels row by row.
#include <gtest/gtest.h>

#include "acan/core/operators/by_rows.h"
#include "acan/core/operators/operators.h"
#include "reference.h"

namespace acan::test {
namespace {

constexpr Kernel kAllKernels[] = {
#define ACAN_OPERATOR(number, enumerator, ...) Kernel::enumerator,
#include "acan/core/operators/operators.inc"
};

class WideRowsTest : public ::testing::TestWithParam<TestDevice> {
 protected:
  void SetUp() override {
    ACAN_SKIP_WITHOUT(GetParam());
    device_ = GetParam().make(GetParam().threads.back(), kRoomyBytes);
  }

  // What the kernel writes if its rows are `pad` words apart.
  std::vector<Host> Results(Kernel kernel, std::int64_t variant, std::int64_t rows,
                            std::int64_t cols, std::int64_t pad) {
    const OperatorRow& row = RowOf(kernel);
    const NamedDimension named[] = {{"rows", rows}, {"cols", cols}};
    const Dimensions dimensions = DimensionsNamed(row, named);
    KernelArgs args;
    args.scalars.f.fill(0.5f);
    args.scalars.i[0] = variant;
    std::vector<OnDevice> operands;
    for (const Operand& operand : row.operands) {
      const OperandShape shape = ShapeOf(operand, dimensions);
      const auto seed = static_cast<std::uint32_t>(operands.size() + 1);
      operands.push_back(Put(*device_, Random(shape.rows, shape.cols, seed, 0.1f, 2.0f), pad));
      args.m[operands.size() - 1] = operands.back().matrix;
    }
    device_->Launch(kernel, args);
    std::vector<Host> results;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (row.operands[i].writes()) results.push_back(Fetch(*device_, operands[i]));
    }
    return results;
  }

  std::unique_ptr<Device> device_;
};

TEST_P(WideRowsTest, GiveTheBitsOfNarrowOnes) {
  for (const Kernel kernel : kAllKernels) {
    if (!IsByRows(kernel)) continue;
    for (std::int64_t variant = 0; variant < RowOf(kernel).variants; ++variant) {
      for (const std::int64_t cols : {1, 16, 17, 64, 65}) {
        for (const std::int64_t rows : {127, 128, 1027}) {
          const std::vector<Host> packed = Results(kernel, variant, rows, cols, 0);
          const std::vector<Host> padded = Results(kernel, variant, rows, cols, 3);
          ASSERT_FALSE(packed.empty());
          for (std::size_t i = 0; i < packed.size(); ++i) {
            ASSERT_EQ(Difference(packed[i], padded[i]), "")
                << RowOf(kernel).name << " " << variant << " [" << rows << ", " << cols << "]";
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, WideRowsTest, ::testing::ValuesIn(KernelTestDevices()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace acan::test
