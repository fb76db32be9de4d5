// Determines which boxes of rows the nodes of a segment allow.
#include <algorithm>
#include <bit>

#include "segmenter.h"

namespace acan {
namespace {

constexpr std::int64_t kMaxRowsWithin = std::int64_t{1} << 31;
constexpr std::int64_t kAttentionLeaf = 64;  // of queries and keys

// Whether the operator's table row allows only cuts by samples. Learned positions are an exception:
// a part of them needs only a part of their table.
bool NeedsWholeSamples(const model::Operator& op) {
  if (std::holds_alternative<model::LearnedPositions>(op)) return false;
  const std::vector<model::Cut>& cuts = model::RowOf(op).cuts;
  return std::none_of(cuts.begin(), cuts.end(),
                      [](const model::Cut& cut) { return cut.axis == model::Axis::kRows; });
}

}  // namespace

bool IsAttention(const model::Operator& op) {
  return std::holds_alternative<model::Attention>(op) ||
         std::holds_alternative<model::AttentionGradient>(op);
}

std::optional<RowCut> Halved(const RowCut& cut, std::int64_t positions) {
  if (!cut.IsWithinSamples() && cut.samples > 1) {
    const auto below = static_cast<std::uint64_t>(cut.samples - 1);
    return RowCut{static_cast<std::int64_t>(std::bit_floor(below)), 0};
  }
  std::int64_t half = cut.positions / 2;
  if (!cut.IsWithinSamples()) {
    half = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(positions))) / 2;
  }
  if (half < kMinPositions) return std::nullopt;
  return RowCut{1, half};
}

bool Segmenter::Allows(std::int64_t n, const RowCut& rows) const {
  const int id = static_cast<int>(n);
  const LoweredNode& node = graph_.node(id);
  if (node.is_view || node.is_shared) return true;
  if (!rows.IsWithinSamples() && rows.samples >= request_.training.batch) return true;  // one box
  if (rows.IsWithinSamples() && NeedsWholeSamples(node.node->op)) {
    return spread_ == AttentionSpread::kQueries &&
           std::holds_alternative<model::Attention>(node.node->op) && CanCutQueries(n, rows);
  }
  std::int64_t positions = 0;
  for (const std::vector<int>* ids : {&node.operands, &node.results}) {
    for (const int value : *ids) {
      if (value < 0 || !graph_.value(value).IsOfSamples()) continue;
      if (rows.IsWithinSamples() && positions > 0 && positions != graph_.value(value).rows) {
        return false;
      }
      positions = graph_.value(value).rows;
    }
  }
  if (rows.IsWithinSamples() && positions <= 1) return false;
  return !ReducesRows(graph_, id) || context_.OrderOf(context_.ReducedBy(id)).Allows(rows);
}

// Whether boxes within samples have the same positions for the node at `first` and for `node`.
// Values with no more positions than a box are whole for both.
bool Segmenter::HasSameBoxes(std::int64_t first, std::int64_t node, const RowCut& rows) const {
  const LoweredNode& n = graph_.node(static_cast<int>(node));
  if (!rows.IsWithinSamples() || n.is_view || n.is_shared) return true;
  const std::int64_t a = PositionsOf(static_cast<int>(first));
  const std::int64_t b = PositionsOf(static_cast<int>(node));
  return a == b || std::max(a, b) <= rows.positions;
}

// Whether a segment with only this node may have such boxes.
bool Segmenter::AllowsAlone(std::int64_t n, const RowCut& rows) const {
  return Allows(n, rows) || CanCutQueries(n, rows) || CanCutPositions(n, rows);
}

// Whether the gradient of learned positions can be cut by the rows of its table, into whole tiles.
bool Segmenter::CanCutPositions(std::int64_t n, const RowCut& rows) const {
  const int id = static_cast<int>(n);
  if (!rows.IsWithinSamples() || !IsPositionsGradient(graph_, id)) return false;
  const LoweredNode& node = graph_.node(id);
  const std::int32_t parameter = graph_.ParameterOfSum(node.results.front());
  const std::int64_t positions = graph_.value(node.operands.front()).rows;
  if (parameter < 0 || rows.positions >= positions ||
      std::get<model::LearnedPositionsGradient>(node.node->op).first != 0) {
    return false;
  }
  const ParameterCut& cut = cuts_.parameters[static_cast<std::size_t>(parameter)];
  return rows.positions % (cuts_.block << cut.row_level) == 0 &&
         RowOrder(cuts_.block, positions).group_samples() == 1;
}

// Whether attention can be cut by positions of a sample as queries.
bool Segmenter::CanCutQueries(std::int64_t n, const RowCut& rows) const {
  const LoweredNode& node = graph_.node(static_cast<int>(n));
  return rows.IsWithinSamples() && IsAttention(node.node->op) &&
         rows.positions % kAttentionLeaf == 0 &&
         rows.positions < graph_.value(node.operands.front()).rows;
}

// `rows`, or the finest coarser cut that the node allows.
std::optional<RowCut> Segmenter::AllowedFor(std::int64_t node, RowCut rows) const {
  while (!Allows(node, rows)) {
    if (!rows.IsWithinSamples() && rows.samples >= request_.training.batch) return std::nullopt;
    if (rows.IsWithinSamples() && rows.positions < kMaxRowsWithin) {
      rows.positions *= 2;
    } else if (rows.IsWithinSamples()) {
      rows = {1, 0};
    } else {
      rows.samples *= 2;
    }
  }
  return rows;
}

// Whether the node reads a sum over all rows made by a node from `first` on: then it has to wait
// for all boxes.
bool Segmenter::ReadsSumSince(std::int64_t node, std::int64_t first) const {
  const LoweredNode& reader = graph_.node(static_cast<int>(node));
  if (reader.is_view || reader.is_shared) return false;
  return std::any_of(reader.operands.begin(), reader.operands.end(), [&](int operand) {
    return operand >= 0 && graph_.value(operand).kind == ValueKind::kSum &&
           graph_.value(operand).producer >= first;
  });
}

// Whether the node is attention whose keys or values a node from `first` on makes: it reads
// positions outside of its box.
bool Segmenter::ReadsKeysSince(std::int64_t node, std::int64_t first, const RowCut& rows) const {
  const LoweredNode& reader = graph_.node(static_cast<int>(node));
  if (!rows.IsWithinSamples() || !IsAttention(reader.node->op)) return false;
  constexpr std::size_t kKeyPort = 1, kValuePort = 2;
  for (std::int64_t n = first; n < node; ++n) {
    const LoweredNode& maker = graph_.node(static_cast<int>(n));
    if (maker.is_view) continue;
    for (const int result : maker.results) {
      const int root = graph_.value(result).root;
      if (root == graph_.value(reader.operands[kKeyPort]).root ||
          root == graph_.value(reader.operands[kValuePort]).root) {
        return true;
      }
    }
  }
  return false;
}

// The positions of the node's results or, for a node that makes sums, of its operands.
std::int64_t Segmenter::PositionsOf(int node) const {
  const LoweredNode& n = graph_.node(node);
  for (const std::vector<int>* ids : {&n.results, &n.operands}) {
    for (const int id : *ids) {
      if (id >= 0 && graph_.value(id).IsOfSamples()) return graph_.value(id).rows;
    }
  }
  return 1;
}

}  // namespace acan
