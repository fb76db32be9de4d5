// An interpreter of graphs in float64 that follows the definitions in the operators' headers
// literally: the reference for shapes and gradients.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "acan/model/graph.h"

namespace acan::model {

// Row-major; integers are held as doubles.
struct Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> values;

  Matrix() = default;
  Matrix(std::int64_t r, std::int64_t c)
      : rows(r), columns(c), values(static_cast<std::size_t>(r * c)) {}
  double& at(std::int64_t r, std::int64_t c) {
    return values.at(static_cast<std::size_t>(r * columns + c));
  }
  double at(std::int64_t r, std::int64_t c) const {
    return values.at(static_cast<std::size_t>(r * columns + c));
  }
};

// What describes a batch in addition to its values.
struct Batch {
  std::int64_t samples = 1;
  std::uint64_t seed = 1;
  std::int64_t step = 0;
};

// One node's operands and results during its computation.
struct Call {
  const Batch& batch;
  std::vector<const Matrix*> in;  // nullptr: the operand is left out
  std::vector<Matrix>& out;       // zeros in the shapes of the results

  const Matrix& x(std::size_t i) const { return *in.at(i); }
  bool has(std::size_t i) const { return in.at(i) != nullptr; }
  std::int64_t samples() const { return batch.samples; }
  // Rows per sample.
  std::int64_t positions(const Matrix& m) const { return m.rows / batch.samples; }
};

// The rows of a value in a batch of `samples`.
inline std::int64_t TotalRows(const Shape& shape, std::int64_t samples) {
  return shape.rows_of == RowsOf::kSample ? shape.rows * samples : shape.rows;
}

void ComputeForward(const Operator& op, const Call& call);
void ComputeBackward(const Operator& op, const Call& call);

// Whether dropout keeps the element, as acan/model/dropout.h defines. REQUIRES: as
// DropoutCounterHigh.
bool DropoutKeeps(std::uint64_t seed, std::int64_t step, std::int64_t stream, std::uint64_t element,
                  float rate);

// Shared by forward and backward operators.
double AttentionDropout(const Attention& op, const Batch& batch, std::int64_t row,
                        std::int64_t head, std::int64_t key, std::int64_t positions);
double DropoutFactor(const Dropout& op, const Batch& batch, const Matrix& x, std::int64_t row,
                     std::int64_t column);
std::int64_t VisibleKeys(const Attention& op, std::int64_t query, std::int64_t length);
double CountedLabels(const CrossEntropy& op, const Matrix& labels);

class Reference {
 public:
  Reference(const Graph& graph, const Batch& batch) : graph_(graph), batch_(batch) {}

  // Sets an input or a parameter. Checks the size.
  void Set(ValueId id, const Matrix& value);
  // Computes all nodes in order.
  void Run();

  const Matrix& operator[](ValueId id) const { return values_.at(id); }
  Matrix& Mutable(ValueId id) { return values_.at(id); }
  // The batch's loss: the sum of each term, divided by its divisor.
  double Loss() const;

 private:
  const Graph& graph_;
  Batch batch_;
  std::map<ValueId, Matrix> values_;
};

}  // namespace acan::model
