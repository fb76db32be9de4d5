// The table of calls and its shape language: what the rows state, which calls are refused, and that
// the operators of transformers and convolutional networks are ordinary rows.
#include "acan/core/operators/operators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace acan {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Shapes = std::vector<OperandShape>;

// Sample rows. They are parsed at compile time: a malformed row does not compile.
constexpr OperatorRow kEmbedding =
    ParseOperator("embedding", "ROW", 1, "[rows, cols]",
                  "write out[rows, cols]; read index[rows, 1]: int32;"
                  " read table[words, cols] touches rows * cols",
                  "", "rows * cols", "");
constexpr OperatorRow kAttention = ParseOperator(
    "attention", "ROW", 1, "[sequences * heads * ((positions + 63) / 64), width]",
    "write out[sequences * positions, heads * width];"
    " write largest[sequences * positions, heads]: int32; write sums[sequences * positions, heads];"
    " read q[sequences * positions, heads * width];"
    " read k[sequences * positions, kv_heads * width];"
    " read v[sequences * positions, kv_heads * width]",
    "float scale; int positions: size; int heads: size; int kv_heads: size; int causal",
    "4 * sequences * positions * positions * heads * width", "");
constexpr OperatorRow kLayerNorm =
    ParseOperator("layer_norm", "ROW", 1, "[rows, cols]",
                  "write out[rows, cols]; write? mean[rows, 1]; write? inverse_deviation[rows, 1];"
                  " read x[rows, cols]; read gain[1, cols]; read bias[1, cols]",
                  "float epsilon", "8 * rows * cols", "");
constexpr OperatorRow kConvolution = ParseOperator(
    "convolution", "ROW", 1, "[samples, out_height * out_width]",
    "write y[samples * out_height * out_width, outputs];"
    " read x[samples * height * width, channels]; read w[outputs, window * window * channels]",
    "int height: size; int width: size; int window: size; int stride: size; int padding: offset;"
    " let out_height = (height + 2 * padding - window) / stride + 1;"
    " let out_width = (width + 2 * padding - window) / stride + 1",
    "2 * samples * out_height * out_width * outputs * window * window * channels", "");
constexpr OperatorRow kAccumulate =
    ParseOperator("accumulate", "ELEMENT", 1, "[rows, cols]",
                  "update sum[rows, cols]; read x[rows, cols]", "", "rows * cols", "");

KernelScalars Integers(std::vector<std::int64_t> values) {
  KernelScalars scalars;
  std::copy(values.begin(), values.end(), scalars.i.begin());
  return scalars;
}

std::int64_t Dimension(const OperatorRow& row, const Dimensions& dimensions,
                       std::string_view name) {
  for (std::size_t i = 0; i < row.dimensions.size(); ++i) {
    if (row.dimensions[i] == name) return dimensions[i];
  }
  ADD_FAILURE() << name;
  return 0;
}

// Bit mask of the operands that a kernel touches only at the element of the space.
std::uint32_t AtElement(Kernel kernel) {
  std::uint32_t bits = 0;
  const auto& operands = RowOf(kernel).operands;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].at_element) bits |= 1u << i;
  }
  return bits;
}

TEST(ShapeLanguage, IndexesBringADimensionThatNothingElseHas) {
  const Shapes shapes = {{true, 6, 32}, {true, 6, 1}, {true, 5000, 32}};
  const Dimensions dimensions = CheckCall(kEmbedding, shapes, {});
  EXPECT_EQ(Dimension(kEmbedding, dimensions, "words"), 5000);
  // A table is read at as many positions as there are results.
  EXPECT_EQ(CostOf(kEmbedding, shapes, {}).bytes, 4u * (6 * 32 + 6 + 6 * 32));
  EXPECT_EQ(kEmbedding.operands[1].element, Element::kInt32);
  EXPECT_THAT(
      [] {
        CheckCall(kEmbedding, Shapes{{true, 6, 32}, {true, 6, 2}, {true, 9, 32}}, {});
      },
      ThrowsMessage<std::invalid_argument>(
          HasSubstr("embedding operand 1 is [6, 2], must be [6, 1]: index[rows, 1]")));
}

TEST(ShapeLanguage, ScalarsSplitRowsAndColumnsIntoProducts) {
  // Three sequences of 40 positions; six heads of 16 columns that share two key-value heads.
  const Shapes shapes = {{true, 120, 96}, {true, 120, 6},  {true, 120, 6},
                         {true, 120, 96}, {true, 120, 32}, {true, 120, 32}};
  const KernelScalars scalars = Integers({40, 6, 2, 1});
  const Dimensions dimensions = CheckCall(kAttention, shapes, scalars);
  EXPECT_EQ(Dimension(kAttention, dimensions, "sequences"), 3);
  EXPECT_EQ(Dimension(kAttention, dimensions, "width"), 16);
  EXPECT_EQ(kAttention.space_rows.ValueOf(dimensions), 18);
  EXPECT_EQ(CostOf(kAttention, shapes, scalars).flops, 4u * 3 * 40 * 40 * 6 * 16);
  EXPECT_THAT(
      [&] {
        CheckCall(kAttention, shapes, Integers({50, 6, 2}));
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("positions = 50")));
  EXPECT_THAT(
      [&] {
        CheckCall(kAttention, shapes, Integers({40, 6, 3}));
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("operand 4 is [120, 32], must be [120, 48]")));
}

TEST(ShapeLanguage, ResultsMayBeOperandsWhoseShapesAreWrittenAlike) {
  EXPECT_EQ(RowOf(Kernel::kAdd).operands[0].may_be, 0b110u);
  // x and dy, but not the statistics.
  EXPECT_EQ(RowOf(Kernel::kNormGradient).operands[0].may_be, 0b1010u);
  EXPECT_EQ(RowOf(Kernel::kAttentionJoin).operands[0].may_be, 0b010100u);
  EXPECT_EQ(RowOf(Kernel::kAttentionJoin).operands[1].may_be, 0b101000u);
  EXPECT_EQ(RowOf(Kernel::kAttentionGradient).operands[0].may_be, 0u) << "by tiles";
  EXPECT_EQ(RowOf(Kernel::kMaxPoolingGradient).operands[0].may_be, 0u) << "its meaning says so";
  EXPECT_EQ(RowOf(GemmForm::kForward).operands[2].may_be, 0u);
}

TEST(ShapeLanguage, OperandsAreTouchedAtTheElementWhereTheirShapesAreWrittenAsTheSpace) {
  EXPECT_EQ(AtElement(Kernel::kAdd), 0b111u);
  EXPECT_EQ(AtElement(Kernel::kBiasActivation), 0b1011u) << "a bias may have the shape by chance";
  EXPECT_EQ(AtElement(Kernel::kColumnNorm), 0b11u);
  EXPECT_EQ(AtElement(Kernel::kTranspose), 0b1u);
  EXPECT_EQ(AtElement(Kernel::kPlacePositions), 0b1u);
  EXPECT_EQ(AtElement(Kernel::kCopyPositions), 0b10u) << "what it updates is at other positions";
  EXPECT_EQ(AtElement(Kernel::kDropout), 0u) << "by rows";
  // The calls that the manager puts behind products run with them, part by part.
  EXPECT_EQ(AtElement(Kernel::kActivationGradient), 0b111u);
  EXPECT_EQ(AtElement(Kernel::kSgd), 0b111u);
  EXPECT_EQ(AtElement(Kernel::kMomentum), 0b11111u);
  EXPECT_EQ(AtElement(Kernel::kAdamW), 0b1111111u);
  EXPECT_EQ(AtElement(Kernel::kBiasResidual), 0b1011u);
  EXPECT_EQ(AtElement(Kernel::kSwiGluGradient), 0b11111u);
}

TEST(ShapeLanguage, StatisticsOfRowsMayBeAbsent) {
  Shapes shapes = {{true, 9, 70}, {}, {}, {true, 9, 70}, {true, 1, 70}, {true, 1, 70}};
  CheckCall(kLayerNorm, shapes, {});
  EXPECT_EQ(CostOf(kLayerNorm, shapes, {}).bytes, 4u * (2 * 9 * 70 + 2 * 70));
  shapes[2] = {true, 9, 2};
  EXPECT_THROW(CheckCall(kLayerNorm, shapes, {}), std::invalid_argument);
  shapes[2] = {true, 9, 1};
  shapes[4] = {};
  EXPECT_THAT([&] { CheckCall(kLayerNorm, shapes, {}); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("operand 4 is absent")));
}

TEST(ShapeLanguage, GeometryIsComputed) {
  // Two samples of 9 x 11, 5 channels, windows of 3 x 3 with stride 2 and padding 1: 5 x 6 results.
  const KernelScalars geometry = Integers({9, 11, 3, 2, 1});
  const Shapes shapes = {{true, 2 * 5 * 6, 8}, {true, 2 * 9 * 11, 5}, {true, 8, 45}};
  const Dimensions dimensions = CheckCall(kConvolution, shapes, geometry);
  EXPECT_EQ(Dimension(kConvolution, dimensions, "channels"), 5);
  EXPECT_EQ(kConvolution.space_cols.ValueOf(dimensions), 30);
  EXPECT_THROW(CheckCall(kConvolution, shapes, Integers({9, 11, 3, 1, 1})), std::invalid_argument);
  EXPECT_THAT(
      [&] {
        CheckCall(kConvolution, shapes, Integers({9, 11, 20, 2, 1}));
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("make out_height -4")))
      << "a window that is larger than the padded picture";
}

TEST(ShapeLanguage, HostileScalarsAreRefused) {
  const Shapes shapes = {{true, 60, 8}, {true, 198, 5}, {true, 8, 45}};
  for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{-1}, INT64_MIN, INT64_MAX}) {
    for (std::size_t i = 0; i < 4; ++i) {
      KernelScalars geometry = Integers({9, 11, 3, 2, 1});
      geometry.i[i] = bad;
      EXPECT_THROW(CheckCall(kConvolution, shapes, geometry), std::invalid_argument) << bad;
    }
  }
  // Products that exceed 64 bits have no value, whatever they would wrap around to.
  const Shapes large = {{true, 1, 1}, {true, INT32_MAX, INT32_MAX}, {true, INT32_MAX, 1}};
  EXPECT_THROW(CheckCall(kConvolution, large, Integers({INT32_MAX, INT32_MAX, INT32_MAX, 1, 0})),
               std::invalid_argument);
}

TEST(ShapeLanguage, WhatIsUpdatedIsReadAndWritten) {
  EXPECT_TRUE(kAccumulate.operands[0].writes());
  EXPECT_FALSE(kAccumulate.operands[1].writes());
  EXPECT_TRUE(kAccumulate.operands[0].reads());
  EXPECT_EQ(CostOf(kAccumulate, Shapes{{true, 4, 8}, {true, 4, 8}}, {}).bytes, 4u * 3 * 4 * 8);
}

TEST(OperatorTable, CountsWhatCallsCost) {
  const OperatorRow& product = RowOf(GemmForm::kGradient);
  const Shapes shapes = {{true, 7, 3}, {true, 7, 5}, {true, 3, 5}};
  EXPECT_EQ(CostOf(product, shapes, {}).flops, 2u * 3 * 5 * 7);
  EXPECT_EQ(CostOf(product, shapes, {}).bytes, 4u * (7 * 3 + 7 * 5 + 3 * 5));
  EXPECT_TRUE(SumIndexComesFirst(GemmForm::kGradient, 0));
  EXPECT_TRUE(SumIndexComesFirst(GemmForm::kBackward, 1));
  EXPECT_FALSE(SumIndexComesFirst(GemmForm::kForward, 1));
  const Shapes sums = {{true, 1, 5}, {true, 7, 5}};
  EXPECT_EQ(FlopsOf(RowOf(Kernel::kColumnSums), sums, {}), 35u);
}

TEST(OperatorTable, ChecksVariantsAndBlocks) {
  const OperatorRow& bias = RowOf(Kernel::kBiasActivation);
  CheckScalars(bias, Integers({ACAN_ACTIVATION_COUNT - 1}));
  EXPECT_THROW(CheckScalars(bias, Integers({ACAN_ACTIVATION_COUNT})), std::invalid_argument);
  EXPECT_THROW(CheckScalars(bias, Integers({-1})), std::invalid_argument);
  const OperatorRow& sums = RowOf(Kernel::kColumnSums);
  CheckScalars(sums, Integers({64}));
  for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{8}, std::int64_t{48}, INT64_MIN}) {
    EXPECT_THROW(CheckScalars(sums, Integers({bad})), std::invalid_argument) << bad;
  }
}

TEST(OperatorTable, RefusesNumbersThatItDoesNotHave) {
  EXPECT_THROW(RowOf(static_cast<Kernel>(kKernels)), std::invalid_argument);
  EXPECT_THROW(RowOf(static_cast<GemmForm>(kProducts)), std::invalid_argument);
}

// The numbers are part of the wire format and of the conformance hashes: rows never move.
TEST(OperatorTable, NumbersNeverChange) {
  const std::vector<std::string_view> kernels = {"kAdd",
                                                 "kFill",
                                                 "kUniform",
                                                 "kBiasActivation",
                                                 "kActivationGradient",
                                                 "kSoftmaxCrossEntropy",
                                                 "kSquaredError",
                                                 "kColumnSums",
                                                 "kSgd",
                                                 "kMomentum",
                                                 "kAdamW"};
  ASSERT_GE(kKernels, kernels.size());
  for (std::size_t i = 0; i < kernels.size(); ++i) EXPECT_EQ(kKernelRows[i]->name, kernels[i]);
  EXPECT_EQ(RowOf(GemmForm::kForward).name, "gemm forward");
  EXPECT_EQ(static_cast<int>(Activation::kGelu), 5);
}

}  // namespace
}  // namespace acan
