#include "parameter_cuts.h"

#include <algorithm>
#include <vector>

#include "acan/core/optimizers.h"
#include "gradient_norm.h"
#include "part_sums.h"

namespace acan {

int LeastColumnLevel(const CutRequest& request) {
  const bool clips = request.training.clip_norm > 0;
  return clips ? RootLevel(kLaneLeafColumns, request.training.block) : 0;
}

namespace {

// What updating a tile needs at least, in matrices of its size: the value and states before and
// after, and two parts of each sum in its gradient.
std::uint64_t MatricesOfUpdate(const CutRequest& request, std::int32_t parameter) {
  const auto sums = static_cast<std::uint64_t>(SumsOfGradient(request.model.training, parameter));
  return MatricesBesideSums(request.training) + std::max<std::uint64_t>(1, sums) * MatricesOfSum(2);
}

// What the gradient of a parameter reads: the minimum number of rows, and how many operands run
// along each axis of its tiles.
struct GradientReads {
  std::int64_t rows = 0;
  std::int64_t along_rows = 0;
  std::int64_t along_columns = 0;
};

void AddReads(const CutRequest& request, int gradient, GradientReads* reads) {
  const LoweredGraph& graph = request.model.training;
  const LoweredNode& node = graph.node(graph.value(gradient).producer);
  if (graph.value(gradient).kind == ValueKind::kShared) {  // the parameter has several uses
    for (const int sum : node.operands) AddReads(request, sum, reads);
    return;
  }
  if (graph.value(gradient).kind != ValueKind::kSum) return;
  for (const int operand : node.operands) {
    if (operand < 0 || !graph.value(operand).IsOfSamples()) continue;
    const RowOrder order(request.training.block, graph.value(operand).rows);
    reads->rows = std::max(reads->rows, order.group_rows());
  }
  const bool is_product = std::holds_alternative<model::LinearWeightGradient>(node.node->op);
  reads->along_rows = std::max<std::int64_t>(reads->along_rows, is_product ? 1 : 0);
  reads->along_columns = std::max<std::int64_t>(reads->along_columns, is_product ? 1 : 2);
}

GradientReads ReadsOfGradient(const CutRequest& request, std::int32_t parameter) {
  GradientReads reads;
  const int gradient = request.model.training.GradientOf(parameter);
  if (gradient >= 0) AddReads(request, gradient, &reads);
  return reads;
}

// Limits the levels such that the gradient of a tile fits into a task even if its operands, of a
// whole row group, are put together from pieces.
void LimitByGradient(const CutRequest& request, std::int32_t id, std::uint64_t task_bytes,
                     ParameterCut* cut) {
  const std::int64_t block = request.training.block;
  const model::Parameter& p = request.model.training.graph().parameter(id);
  const GradientReads reads = ReadsOfGradient(request, id);
  const int least = LeastColumnLevel(request);
  for (const std::int64_t rows : {reads.rows, std::min(reads.rows, block)}) {
    ParameterCut limited = *cut;
    for (;;) {
      const std::int64_t r = std::min(p.rows, block << limited.row_level);
      const std::int64_t c = std::min(p.columns, block << limited.column_level);
      const std::int64_t read = 2 * rows * (reads.along_rows * r + reads.along_columns * c);
      if (4 * static_cast<std::uint64_t>(read + r * c) <= task_bytes) {
        *cut = limited;
        return;
      }
      const bool by_rows = limited.row_level > 0 && reads.along_rows * r > reads.along_columns * c;
      if (!by_rows && limited.column_level <= least) break;
      --(by_rows ? limited.row_level : limited.column_level);
    }
  }
}

}  // namespace

GraphCuts CutParameters(const CutRequest& request, std::uint64_t task_bytes) {
  GraphCuts cuts;
  cuts.block = request.training.block;
  cuts.task_bytes = task_bytes;
  cuts.recompute = request.recompute.value_or(Recompute::kNothing);
  const std::uint64_t most_of_tile =
      std::min(request.tuple_bytes, request.size_bytes.value_or(UINT64_MAX));
  const int least_column_level = LeastColumnLevel(request);
  std::uint64_t all = 0;
  const std::vector<model::Parameter>& parameters = request.model.training.graph().parameters();
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(parameters.size()); ++id) {
    const model::Parameter& p = parameters[static_cast<std::size_t>(id)];
    ParameterCut cut{RootLevel(p.rows, cuts.block), RootLevel(p.columns, cuts.block)};
    const auto span = [&](std::int64_t size, int level) {
      return std::min(size, cuts.block << level);
    };
    const auto bytes = [&] {
      return 4 * static_cast<std::uint64_t>(span(p.rows, cut.row_level) *
                                            span(p.columns, cut.column_level));
    };
    const std::uint64_t most =
        std::min(cuts.task_bytes / MatricesOfUpdate(request, id), most_of_tile);
    while (bytes() > most && (cut.row_level > 0 || cut.column_level > least_column_level)) {
      const bool by_rows =
          cut.column_level <= least_column_level ||
          (cut.row_level > 0 && span(p.rows, cut.row_level) >= span(p.columns, cut.column_level));
      --(by_rows ? cut.row_level : cut.column_level);
    }
    LimitByGradient(request, id, cuts.task_bytes, &cut);
    cuts.parameters.push_back(cut);
    all += 4 * static_cast<std::uint64_t>(p.elements());
  }
  // Two updates per worker, so that the first ones let the next step begin. Large updates, which
  // take far longer than a task's overhead, are four per worker, so that no worker waits long for
  // the last one.
  constexpr std::uint64_t kMinUpdateBytes = 64 << 10;
  constexpr std::uint64_t kLargeUpdateBytes = 4 << 20;
  const std::uint64_t share = all / (2 * static_cast<std::uint64_t>(request.speed.workers));
  const std::uint64_t large = std::max(share / 2, kLargeUpdateBytes);
  cuts.update_bytes = std::min({most_of_tile, std::max(share, kMinUpdateBytes), large});
  return cuts;
}

}  // namespace acan
