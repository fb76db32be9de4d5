// The reference itself, compared with values computed by hand or by another formula.
#include "reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace acan::model {
namespace {

Matrix Of(std::int64_t rows, std::int64_t columns, std::vector<double> values) {
  Matrix matrix(rows, columns);
  matrix.values = std::move(values);
  return matrix;
}

// The first result of one operator. Operands are numeric inputs or, from index `parameters` on,
// parameters.
Matrix Compute(const Operator& op, const std::vector<Matrix>& operands, std::size_t parameters,
               std::int64_t samples) {
  Graph graph;
  std::vector<ValueId> ids;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::string name = "v" + std::to_string(i);
    ids.push_back(i < parameters ? graph.AddInput(name, InputRole::kNumbers,
                                                  operands[i].rows / samples, operands[i].columns)
                                 : graph.AddParameter(MatrixParameter(
                                       name, operands[i].rows, operands[i].columns, Constant{})));
  }
  const ValueId y = graph.Add("y", op, ids);
  Reference reference(graph, {samples, 1, 0});
  for (std::size_t i = 0; i < operands.size(); ++i) reference.Set(ids[i], operands[i]);
  reference.Run();
  return reference[y];
}

void ExpectNear(const Matrix& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.values.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(found.values[i], expected[i], 1e-12) << "element " << i;
  }
}

// The image 1..9 with a kernel of ones: sums over each pixel's neighborhood.
TEST(Reference, ConvolvesWithPaddingAndStride) {
  const Matrix image = Of(9, 1, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const Matrix ones = Of(1, 9, std::vector<double>(9, 1));
  Convolution op{{{3, 3}, {3, 3}, {1, 1}, {1, 1}}, 1};
  ExpectNear(Compute(op, {image, ones}, 1, 1), {12, 21, 16, 27, 45, 33, 24, 39, 28});
  op.window.stride = {2, 2};
  ExpectNear(Compute(op, {image, ones}, 1, 1), {12, 16, 24, 28});
  // The first element of the weight applies to the pixel above and to the left.
  const Matrix corner = Of(1, 9, {1, 0, 0, 0, 0, 0, 0, 0, 0});
  op.window.stride = {1, 1};
  ExpectNear(Compute(op, {image, corner}, 1, 1), {0, 0, 0, 0, 1, 2, 0, 4, 5});
}

// Two groups of one channel: the second output depends only on the second channel.
TEST(Reference, ConvolvesEachGroupAlone) {
  const Convolution op{{{1, 2}, {1, 2}, {1, 1}, {0, 0}}, 2};
  ExpectNear(Compute(op, {Of(2, 2, {1, 10, 2, 20}), Of(2, 2, {1, 3, 5, 7})}, 1, 1),
             {1 * 1 + 2 * 3, 10 * 5 + 20 * 7});
}

// PyTorch's average pooling counts padding as zeros; its maximum ignores padding.
TEST(Reference, PoolsOverWindowsThatHangOut) {
  const Matrix image = Of(4, 1, {-1, -2, -3, -4});
  const Window window{{2, 2}, {2, 2}, {2, 2}, {1, 1}};
  ExpectNear(Compute(Pooling{PoolingKind::kMaximum, window}, {image}, 1, 1), {-1, -2, -3, -4});
  ExpectNear(Compute(Pooling{PoolingKind::kAverage, window}, {image}, 1, 1),
             {-0.25, -0.5, -0.75, -1});
}

TEST(Reference, CutsPatchesInScanOrder) {
  Matrix image(8, 2);  // 2 x 4 pixels
  std::iota(image.values.begin(), image.values.end(), 0);
  ExpectNear(Compute(Patches{{2, 4}, {2, 2}}, {image}, 1, 1),
             {0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15});
}

// The first pair of a head turns by one radian per position, whatever the base.
TEST(Reference, TurnsPairsByPosition) {
  const Matrix x = Of(3, 4, {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4});
  const double c = std::cos(2.0), s = std::sin(2.0);
  const double c2 = std::cos(0.02), s2 = std::sin(0.02);
  const Matrix y = Compute(Rotary{4, 10000.0f}, {x}, 1, 1);
  ExpectNear(Of(1, 4, {y.at(0, 0), y.at(0, 1), y.at(0, 2), y.at(0, 3)}), {1, 2, 3, 4});
  ExpectNear(Of(1, 4, {y.at(2, 0), y.at(2, 1), y.at(2, 2), y.at(2, 3)}),
             {c - 3 * s, 2 * c2 - 4 * s2, 3 * c + s, 4 * c2 + 2 * s2});
}

// Equal scores give the mean of the visible values; heads 0 and 1 share the first key-value head.
TEST(Reference, AttendsInGroupsAndOnlyToWhatIsVisible) {
  Attention op;
  op.heads = 4;
  op.key_value_heads = 2;
  const Matrix q(3, 4), k(3, 2);
  const Matrix v = Of(3, 2, {1, 10, 2, 20, 6, 60});
  ExpectNear(Compute(op, {q, k, v}, 3, 1), {1, 1, 10, 10, 1.5, 1.5, 15, 15, 3, 3, 30, 30});
  op.mask = AttentionMask::kFull;
  ExpectNear(Compute(op, {q, k, v}, 3, 1), {3, 3, 30, 30, 3, 3, 30, 30, 3, 3, 30, 30});
}

// Weights are proportional to e^s: scores ln 1 and ln 3 give 1/4 and 3/4. Samples do not see each
// other.
TEST(Reference, WeighsKeysByTheSoftmaxOfTheirScores) {
  Attention op;
  op.mask = AttentionMask::kFull;
  op.heads = 1;
  op.key_value_heads = 1;
  const Matrix q = Of(4, 1, {1, 1, 0, 0});
  const Matrix k = Of(4, 1, {0, std::log(3.0), 5, 7});
  const Matrix v = Of(4, 1, {4, 8, 100, 200});
  ExpectNear(Compute(op, {q, k, v}, 3, 2), {7, 7, 150, 150});
}

// torch.nn.functional.gelu at 1, exact and tanh: its documented formulas in float64.
TEST(Reference, KnowsBothGelus) {
  const Matrix one = Of(1, 1, {1});
  ExpectNear(Compute(Activation{ActivationKind::kGelu}, {one}, 1, 1), {0.841344746068542926});
  EXPECT_NEAR(Compute(Activation{ActivationKind::kGeluTanh}, {one}, 1, 1).at(0, 0),
              0.8411919906082768, 1e-12);
}

TEST(Reference, CorrectsRunningVariances) {
  const RunningAverage op{0.25f, Correction::kUnbiased, 2};
  // 4 rows: the variance is multiplied by 4/3.
  ExpectNear(Compute(op, {Of(1, 1, {8}), Of(1, 1, {3})}, 0, 2), {0.75 * 8 + 0.25 * 4});
}

// Uniform logits cost ln C whatever the label and the smoothing; ignored rows cost nothing and are
// not counted.
TEST(Reference, AveragesTheLossOverCountedLabels) {
  Graph graph;
  const ValueId logits = graph.AddInput("logits", InputRole::kNumbers, 3, 2);
  const ValueId labels = graph.AddInput("labels", InputRole::kLabels, 3, 1, 2);
  graph.AddLoss(graph.Add("loss", CrossEntropy{0.2f}, {logits, labels}));
  Reference reference(graph, {1, 1, 0});
  reference.Set(logits, Of(3, 2, {5, 5, 9, 1, 0, std::log(3.0)}));
  reference.Set(labels, Of(3, 1, {1, -100, 1}));
  reference.Run();
  // p = (1/4, 3/4): 0.8 x -ln(3/4) + 0.1 x (-ln(1/4) - ln(3/4)); the rate is 0.2 in fp32.
  const double t = static_cast<double>(0.2f);
  const double last = (1 - t) * std::log(4.0 / 3) + t / 2 * (std::log(4.0) + std::log(4.0 / 3));
  EXPECT_NEAR(reference.Loss(), (std::log(2.0) + last) / 2, 1e-12);
}

}  // namespace
}  // namespace acan::model
