// Checks the rows of optimizers.h at compile time.
#include "acan/core/optimizers.h"

#include "acan/core/operators/operators.h"

namespace acan {
namespace {

// The kernel writes the weights and the states, and reads these and the gradient.
constexpr bool FitsItsKernel(const OptimizerRow& row) {
  const auto written = 1 + static_cast<std::size_t>(row.states);
  const auto& operands = RowOf(row.kernel).operands;
  if (operands.size() != 2 * written + 1) return false;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].writes() != (i < written) || operands[i].optional) return false;
  }
  return true;
}

constexpr bool RowsAreRight() {
  for (std::size_t i = 0; i < std::size(kOptimizers); ++i) {
    const OptimizerRow& row = kOptimizers[i];
    if (static_cast<std::size_t>(row.optimizer) != i) throw "row i is not of optimizer i";
    if (!FitsItsKernel(row)) throw "the kernel's operands are not those of an optimizer";
    if (FindKey(row, "learning_rate") == nullptr) throw "an optimizer has no learning rate";
    for (const UsedKey& used : row.keys) optimizer_rows::Used(used.name);
  }
  return true;
}
static_assert(RowsAreRight());

}  // namespace
}  // namespace acan
