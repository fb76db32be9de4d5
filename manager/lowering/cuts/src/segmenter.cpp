#include "segmenter.h"

#include <algorithm>

#include "cut_cost.h"
#include "phased_segment.h"

namespace acan {
namespace {

constexpr int kMaxRefinements = 16;
constexpr std::int64_t kMaxColumnParts = 1024;

}  // namespace

Segmenter::Segmenter(const CutRequest& request, const GraphCuts& cuts,
                     const std::vector<TiledWork>& by_tiles, AttentionSpread spread, bool train)
    : request_(request),
      graph_(train ? request.model.TrainingOf(cuts.recompute) : request.model.evaluation),
      cuts_(cuts),
      by_tiles_(by_tiles),
      spread_(spread),
      train_(train),
      pass_(FullPass(request, train)),
      grid_(graph_),
      context_{graph_,
               cuts_,
               segments_,
               grid_,
               request.training,
               pass_,
               PassKeys(pass_.job, pass_.step, pass_.batch_id)} {
  const std::vector<model::Parameter>& parameters = graph_.graph().parameters();
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const ParameterCut& cut = cuts_.parameters[p];
    const std::int64_t rows = cuts_.block << cut.row_level,
                       columns = cuts_.block << cut.column_level;
    tiles_.push_back((1 + (parameters[p].rows - 1) / rows) *
                     (1 + (parameters[p].columns - 1) / columns));
  }
}

std::optional<std::vector<Segment>> Segmenter::Cut(const RowCut& rows) {
  Restart({});
  const auto nodes = static_cast<std::int64_t>(graph_.nodes().size());
  for (std::int64_t n = 0; n < nodes;) {
    const std::optional<Segment> segment = Longest(n, rows);
    if (!segment) return std::nullopt;
    Commit(*segment);
    n = segment->nodes.end;
  }
  if (!Refine()) return std::nullopt;
  return segments_;
}

void Segmenter::Commit(const Segment& segment) {
  segments_.push_back(segment);
  grid_.Add(graph_, cuts_, segment);
}

void Segmenter::Restart(const std::vector<Segment>& segments) {
  segments_ = segments;
  grid_ = ValueGrid(graph_, cuts_, segments_);
}

// Whether each column of the node's result depends only on the same column of its operands.
bool IsElementwise(const LoweredNode& node) {
  const model::Operator& op = node.node->op;
  return std::holds_alternative<model::Activation>(op) ||
         std::holds_alternative<model::ActivationGradient>(op) ||
         std::holds_alternative<model::Add>(op) || std::holds_alternative<model::Scale>(op) ||
         std::holds_alternative<model::Dropout>(op) || std::holds_alternative<model::Multiply>(op);
}

bool Segmenter::IsByTiles(std::int64_t n) const {
  const int id = static_cast<int>(n);
  const LoweredNode& node = graph_.node(id);
  if (node.is_view || node.is_shared) return false;
  if (CanBeTiled(graph_, id)) {
    if (std::holds_alternative<model::EmbeddingGradient>(node.node->op)) return false;
    const TiledWork by = by_tiles_[static_cast<std::size_t>(TiledNodeOf(graph_, id).parameter)];
    return by == TiledWork::kAll || (by == TiledWork::kGradient && ReducesRows(graph_, id));
  }
  if (!std::holds_alternative<model::ColumnSums>(node.node->op)) return false;
  const std::int32_t parameter = graph_.ParameterOfSum(node.results.front());
  return parameter >= 0 && by_tiles_[static_cast<std::size_t>(parameter)] != TiledWork::kNothing;
}

// The end of the elementwise nodes after a product that read its result; node + 1 if other segments
// already follow.
std::int64_t Segmenter::EndOfProduct(std::int64_t node) const {
  if (replaced_ >= 0) return node + 1;
  const auto nodes = static_cast<std::int64_t>(graph_.nodes().size());
  int made = graph_.node(static_cast<int>(node)).results.front();
  std::int64_t end = node + 1;
  for (; end < nodes; ++end) {
    const LoweredNode& next = graph_.node(static_cast<int>(end));
    const bool reads =
        std::find(next.operands.begin(), next.operands.end(), made) != next.operands.end();
    if (!reads || next.is_view || next.is_shared || !IsElementwise(next)) break;
    made = next.results.front();
  }
  return end;
}

// A product by tiles, together with the elementwise nodes after it.
Segment Segmenter::TiledProduct(std::int64_t node, const RowCut& rows) const {
  const int id = static_cast<int>(node);
  const LoweredNode& product = graph_.node(id);
  const std::int32_t parameter = TiledNodeOf(graph_, id).parameter;
  const ParameterCut& cut = cuts_.parameters[static_cast<std::size_t>(parameter)];
  const bool forward = std::holds_alternative<model::Linear>(product.node->op);
  Segment segment{{node, EndOfProduct(node)}, rows};
  segment.by_tiles = true;
  segment.column_span = cuts_.block << (forward ? cut.row_level : cut.column_level);
  const std::int64_t columns = graph_.value(product.results.front()).columns;
  segment.column_parts =
      static_cast<int>((columns + segment.column_span - 1) / segment.column_span);
  return segment;
}

// For all rows, or for as many as fit.
std::optional<Segment> Segmenter::ByTiles(std::int64_t node, const RowCut& rows) {
  Segment segment = TiledProduct(node, rows);
  while (!Fits(segment)) {
    const std::optional<RowCut> finer = Halved(segment.rows, PositionsOf(static_cast<int>(node)));
    if (!finer || !Allows(node, *finer)) return std::nullopt;
    segment.rows = *finer;
  }
  return JoinTiles(segment);
}

// The time of the segment if it is added after the existing ones.
double Segmenter::UsOf(const Segment& segment) {
  Commit(segment);
  const double us = CostOfSegment(request_, context_, static_cast<int>(segments_.size()) - 1).us;
  segments_.pop_back();
  grid_.RemoveLast();
  return us;
}

// Joins as many tiles in a task as make the product faster. A tile is small enough for its update,
// but multiplying it needs less memory.
Segment Segmenter::JoinTiles(Segment segment) {
  constexpr double kGain = 0.98;  // a smaller gain is below the estimate's error
  if (request_.size_bytes) return segment;
  const auto first = static_cast<int>(segment.nodes.begin);
  const model::Parameter& p = graph_.graph().parameter(TiledNodeOf(graph_, first).parameter);
  const ParameterCut& cut =
      cuts_.parameters[static_cast<std::size_t>(TiledNodeOf(graph_, first).parameter)];
  const bool forward = std::holds_alternative<model::Linear>(graph_.node(first).node->op);
  const int levels = forward ? RootLevel(p.columns, cuts_.block) - cut.column_level
                             : RootLevel(p.rows, cuts_.block) - cut.row_level;
  double us = UsOf(segment);
  for (Segment joined = segment; joined.joined_levels < levels;) {
    ++joined.joined_levels;
    if (!Fits(joined)) break;
    const double joined_us = UsOf(joined);
    if (joined_us >= kGain * us) continue;
    us = joined_us;
    segment = joined;
  }
  return segment;
}

Segment Segmenter::InUpdates(std::int64_t node) const {
  const int id = static_cast<int>(node);
  Segment segment{{node, node + 1}, {request_.training.batch, 0}};
  segment.in_updates = true;
  if (CanBeTiled(graph_, id)) return segment;
  const int sum = graph_.node(id).results.front();
  const std::int32_t parameter = graph_.ParameterOfSum(sum);
  segment.column_span = cuts_.block
                        << cuts_.parameters[static_cast<std::size_t>(parameter)].column_level;
  segment.column_parts =
      static_cast<int>((graph_.value(sum).columns + segment.column_span - 1) / segment.column_span);
  return segment;
}

// Whether attention gets segments of its own, in which it is spread over the workers.
bool Segmenter::IsSpread(std::int64_t node, const RowCut& rows) const {
  const model::Operator& op = graph_.node(static_cast<int>(node)).node->op;
  if (!rows.IsWithinSamples() || !IsAttention(op)) return false;
  return spread_ == AttentionSpread::kHeads ||
         (spread_ == AttentionSpread::kQueries && CanCutQueries(node, rows) &&
          std::holds_alternative<model::AttentionGradient>(op));
}

std::optional<Segment> Segmenter::Spread(std::int64_t node, const RowCut& rows) {
  if (spread_ == AttentionSpread::kQueries) return BySquares({{node, node + 1}, rows});
  Segment segment{{node, node + 1}, {1, 0}};
  const std::int64_t units = ColumnUnits(graph_, static_cast<int>(node));
  const std::int64_t boxes = request_.training.batch;
  const std::int64_t parts = std::min(units, (request_.speed.workers + boxes - 1) / boxes);
  segment.column_parts = static_cast<int>(parts);
  return Fits(segment) ? std::optional(segment) : std::nullopt;
}

std::optional<Segment> Segmenter::Longest(std::int64_t first, const RowCut& rows) {
  if (IsByTiles(first)) {
    if (ReducesRows(graph_, static_cast<int>(first))) return InUpdates(first);
    return ByTiles(first, {request_.training.batch, 0});
  }
  if (IsSpread(first, rows)) {
    if (std::optional<Segment> spread = Spread(first, rows)) return spread;
  }
  const std::optional<RowCut> allowed = AllowedFor(first, rows);
  if (!allowed) return std::nullopt;
  const auto nodes = static_cast<std::int64_t>(graph_.nodes().size());
  std::int64_t limit = first;
  while (limit < nodes && Allows(limit, *allowed) && HasSameBoxes(first, limit, *allowed) &&
         !ReadsSumSince(limit, first) && !ReadsKeysSince(limit, first, *allowed)) {
    // A segment with a coarser cut ends where the wanted cut is possible again.
    if (limit > first && !(*allowed == rows) && Allows(limit, rows)) break;
    if (IsByTiles(limit) || (limit > first && IsSpread(limit, rows))) break;
    ++limit;
  }
  const auto fits = [&](std::int64_t end) { return Fits({{first, end}, *allowed}); };
  limit = EndByMemory(first, limit, *allowed);
  if (limit > first && fits(limit)) return Segment{{first, limit}, *allowed};
  if (limit <= first + 1 || !fits(first + 1)) return Alone(first, *allowed);
  std::int64_t good = first + 1, bad = limit;
  while (bad - good > 1) {
    // Most segments are short: doubles the length, and then halves the interval.
    const std::int64_t middle =
        good - first < (bad - good) / 2 ? first + 2 * (good - first) : good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return Segment{{first, good}, *allowed};
}

// Sums lie in the space in the tiles of their parameter, so they are cut like these tiles.
std::optional<Segment> Segmenter::ByColumns(Segment segment) {
  const int id = static_cast<int>(segment.nodes.begin);
  const int result = graph_.node(id).results.front();
  const std::int64_t units = ColumnUnits(graph_, id);
  if (graph_.value(result).kind == ValueKind::kSum) {
    const std::int32_t parameter = graph_.ParameterOfSum(result);
    if (parameter < 0 || units == 1) return std::nullopt;
    const std::int64_t columns = graph_.value(result).columns;
    segment.column_span = cuts_.block
                          << cuts_.parameters[static_cast<std::size_t>(parameter)].column_level;
    segment.column_parts =
        static_cast<int>((columns + segment.column_span - 1) / segment.column_span);
    return segment.column_parts > 1 && Fits(segment) ? std::optional(segment) : std::nullopt;
  }
  if (std::holds_alternative<model::CrossEntropyGradient>(graph_.node(id).node->op)) {
    return units > 1 ? ByClasses(segment) : std::nullopt;
  }
  for (std::int64_t parts = 1; parts < std::min(units, kMaxColumnParts);) {
    parts = std::min({2 * parts, units, kMaxColumnParts});
    segment.column_parts = static_cast<int>(parts);
    if (Fits(segment)) return segment;
  }
  return std::nullopt;
}

// Parts of the classes are nodes of the tree that adds their exponentials, as are the tiles of the
// layer that makes them.
std::optional<Segment> Segmenter::ByClasses(Segment segment) {
  const int logits = graph_.node(static_cast<int>(segment.nodes.begin)).operands.front();
  const std::int64_t classes = graph_.value(logits).columns;
  const std::int64_t leaf = std::max(kClassLeaf, cuts_.block);
  for (int level = RootLevel(classes, leaf) - 1; level >= 0; --level) {
    segment.column_span = leaf << level;
    const std::int64_t parts = (classes + segment.column_span - 1) / segment.column_span;
    if (parts > kMaxColumnParts) break;
    segment.column_parts = static_cast<int>(parts);
    if (Fits(segment)) return segment;
  }
  return std::nullopt;
}

// For a loss over many classes, rows of a large table, or attention.
std::optional<Segment> Segmenter::InPhases(Segment segment) {
  const model::Operator& op = graph_.node(static_cast<int>(segment.nodes.begin)).node->op;
  if (IsAttention(op)) {
    return segment.rows.IsWithinSamples() ? BySquares(segment) : std::nullopt;
  }
  segment.in_phases = true;
  if (const auto* loss = std::get_if<model::CrossEntropy>(&op)) {
    if (loss->order != model::ExponentialOrder::kLanes) return std::nullopt;
    return ByClasses(segment);
  }
  if (!std::holds_alternative<model::Embedding>(op)) return std::nullopt;
  return Fits(segment) ? std::optional(segment) : std::nullopt;
}

// With as many keys as queries per task of attention, and as many heads as fit.
std::optional<Segment> Segmenter::BySquares(Segment segment) {
  segment.in_phases = true;
  segment.key_span = segment.rows.positions;
  const std::int64_t units = ColumnUnits(graph_, static_cast<int>(segment.nodes.begin));
  for (std::int64_t parts = 1;; parts = std::min(2 * parts, units)) {
    segment.column_parts = static_cast<int>(parts);
    if (Fits(segment)) return segment;
    if (parts == units) return std::nullopt;
  }
}

// Cuts a node that is too large for one task: by the tiles of its parameter, by parts of its
// columns, in phases, or with smaller boxes.
std::optional<Segment> Segmenter::Alone(std::int64_t node, const RowCut& rows) {
  const int id = static_cast<int>(node);
  RowCut cut = rows;
  for (;;) {
    Segment segment{{node, node + 1}, cut};
    // The gradient of attention has sums along both axes, so it cannot be cut along only one of
    // them.
    const bool only_in_phases =
        cut.IsWithinSamples() &&
        std::holds_alternative<model::AttentionGradient>(graph_.node(id).node->op);
    if (!only_in_phases && Fits(segment)) return segment;
    if (CanBeTiled(graph_, id)) {
      Segment tiled = segment;
      tiled.by_tiles = true;
      const bool is_product = !ReducesRows(graph_, id);
      if (is_product) tiled = TiledProduct(node, cut);
      const auto with_joined = [&] {
        return is_product && replaced_ < 0 ? JoinTiles(tiled) : tiled;
      };
      if (Fits(tiled)) return with_joined();
      tiled.nodes.end = node + 1;
      if (Fits(tiled)) return with_joined();
    }
    const std::optional<Segment> by_columns = only_in_phases ? std::nullopt : ByColumns(segment);
    if (by_columns) return by_columns;
    if (const std::optional<Segment> in_phases = InPhases(segment)) return in_phases;
    const std::optional<RowCut> finer = Halved(cut, PositionsOf(id));
    if (!finer || !AllowsAlone(node, *finer)) return std::nullopt;
    cut = *finer;
  }
}

// The segments that replace a segment that does not fit.
std::optional<std::vector<Segment>> Segmenter::Finer(int at) {
  const Segment segment = segments_[static_cast<std::size_t>(at)];
  if (segment.joined_levels > 0) {
    Segment fewer = segment;
    --fewer.joined_levels;
    return std::vector<Segment>{fewer};
  }
  if (segment.by_tiles && segment.nodes.size() > 1) {
    Segment product = segment;
    product.nodes.end = segment.nodes.begin + 1;
    return std::vector<Segment>{product, {{product.nodes.end, segment.nodes.end}, segment.rows}};
  }
  if (segment.nodes.size() > 1) {
    const std::int64_t middle = segment.nodes.begin + segment.nodes.size() / 2;
    return std::vector<Segment>{{{segment.nodes.begin, middle}, segment.rows},
                                {{middle, segment.nodes.end}, segment.rows}};
  }
  replaced_ = at;
  const std::optional<Segment> alone = Alone(segment.nodes.begin, segment.rows);
  replaced_ = -1;
  if (!alone) return std::nullopt;
  return std::vector<Segment>{*alone};
}

// Refines segments until each fits among its actual neighbours.
bool Segmenter::Refine() {
  for (int round = 0; round < kMaxRefinements; ++round) {
    std::vector<Segment> refined;
    bool changed = false;
    costs_.clear();
    need_bytes_ = 0;
    for (int s = 0; s < static_cast<int>(segments_.size()); ++s) {
      if (MeasureAt(s)) {
        refined.push_back(segments_[static_cast<std::size_t>(s)]);
        continue;
      }
      const auto finer = Finer(s);
      if (!finer) return false;
      changed = true;
      refined.insert(refined.end(), finer->begin(), finer->end());
    }
    if (!changed) return true;
    Restart(refined);
  }
  return false;
}

}  // namespace acan
