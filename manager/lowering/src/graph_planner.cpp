#include "acan/manager/graph_planner.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "acan/core/optimizers.h"
#include "cut_cost.h"
#include "fmt/format.h"
#include "gradient_norm.h"
#include "value_grid.h"

namespace acan {
namespace {

constexpr std::int64_t kLeastPositions = 16;  // of a box within a sample
constexpr std::int64_t kMaxRowsWithin = std::int64_t{1} << 31;
constexpr int kMostRefinements = 8;

// Its table says that it is cut by samples only. A part of learned positions is made of a part of
// their table.
bool NeedsWholeSamples(const model::Operator& op) {
  if (std::holds_alternative<model::LearnedPositions>(op)) return false;
  const std::vector<model::Cut>& cuts = model::RowOf(op).cuts;
  return std::none_of(cuts.begin(), cuts.end(),
                      [](const model::Cut& cut) { return cut.axis == model::Axis::kRows; });
}

// The next finer cut of values with so many positions; nullopt: there is none.
std::optional<RowCut> Halved(const RowCut& cut, std::int64_t positions) {
  if (!cut.IsWithinSamples() && cut.samples > 1) return RowCut{cut.samples / 2, 0};
  std::int64_t half = cut.positions / 2;
  if (!cut.IsWithinSamples()) {
    half = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(positions))) / 2;
  }
  if (half < kLeastPositions) return std::nullopt;
  return RowCut{1, half};
}

// Cuts one of the two graphs into segments.
class Segmenter {
 public:
  Segmenter(const CutRequest& request, const GraphCuts& cuts, bool train)
      : request_(request),
        graph_(train ? request.model.training : request.model.evaluation),
        pass_(FullPass(request, train)),
        cuts_(cuts) {}

  // With boxes of `rows` where the operators allow it. nullopt: something does not fit.
  std::optional<std::vector<Segment>> Cut(const RowCut& rows) {
    segments_.clear();
    const auto nodes = static_cast<std::int64_t>(graph_.nodes().size());
    for (std::int64_t n = 0; n < nodes;) {
      const std::optional<Segment> segment = Longest(n, rows);
      if (!segment) return std::nullopt;
      segments_.push_back(*segment);
      n = segment->nodes.end;
    }
    if (!Refine()) return std::nullopt;
    return segments_;
  }
  std::uint64_t smallest_need() const { return smallest_need_; }

 private:
  bool Allows(std::int64_t n, const RowCut& rows) const;
  bool ReadsSumSince(std::int64_t node, std::int64_t first) const;
  std::optional<Segment> Longest(std::int64_t first, const RowCut& rows);
  std::int64_t PositionsOf(int node) const;
  std::optional<Segment> ByColumns(Segment segment);
  std::optional<Segment> Alone(std::int64_t node, const RowCut& rows);
  std::optional<RowCut> AllowedFor(std::int64_t node, RowCut rows) const;
  bool Fits(const Segment& segment);
  bool Fits(const WholePass& pass, std::size_t at);
  bool Refine();
  std::optional<std::vector<Segment>> Finer(const Segment& segment);

  const CutRequest& request_;
  const LoweredGraph& graph_;
  const Pass pass_;
  GraphCuts cuts_;
  std::vector<Segment> segments_;
  std::uint64_t smallest_need_ = UINT64_MAX;
};

bool Segmenter::Allows(std::int64_t n, const RowCut& rows) const {
  const LoweredNode& node = graph_.node(static_cast<int>(n));
  if (node.is_view || node.is_shared) return true;
  if (!rows.IsWithinSamples() && rows.samples >= request_.training.batch) return true;  // one box
  const model::Operator& op = node.node->op;
  if (rows.IsWithinSamples() && NeedsWholeSamples(op)) return false;
  const bool sums = graph_.value(node.results.front()).kind == ValueKind::kSum ||
                    std::holds_alternative<model::CrossEntropy>(op) ||
                    std::holds_alternative<model::SquaredError>(op);
  std::int64_t positions = 0;
  for (const std::vector<int>* ids : {&node.operands, &node.results}) {
    for (const int id : *ids) {
      if (id < 0 || !graph_.value(id).IsOfSamples()) continue;
      if (rows.IsWithinSamples() && positions > 0 && positions != graph_.value(id).rows) {
        return false;
      }
      positions = graph_.value(id).rows;
    }
  }
  if (rows.IsWithinSamples() && positions <= 1) return false;
  return !sums || RowOrder(cuts_.block, positions).Allows(rows);
}

// `rows`, or the next coarser cut that the node allows.
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

// Measured among those that are chosen already, with all that follows as one.
bool Segmenter::Fits(const Segment& segment) {
  std::vector<Segment> all = segments_;
  all.push_back(segment);
  const auto nodes = static_cast<std::int64_t>(graph_.nodes().size());
  if (segment.nodes.end < nodes) all.push_back({{segment.nodes.end, nodes}, segment.rows});
  const WholePass pass(graph_, cuts_, all, request_.training, pass_);
  return Fits(pass, segments_.size());
}

bool Segmenter::Fits(const WholePass& pass, std::size_t at) {
  const SegmentCost cost = CostOfSegment(request_, pass, static_cast<int>(at));
  const bool fits = cost.need_bytes <= cuts_.task_bytes && cost.fits_space;
  if (!fits) smallest_need_ = std::min(smallest_need_, cost.need_bytes);
  return fits;
}

// Whether the node reads a sum over all rows that a node from `first` on makes: then it waits for
// all boxes.
bool Segmenter::ReadsSumSince(std::int64_t node, std::int64_t first) const {
  const LoweredNode& reader = graph_.node(static_cast<int>(node));
  if (reader.is_view || reader.is_shared) return false;
  return std::any_of(reader.operands.begin(), reader.operands.end(), [&](int operand) {
    return operand >= 0 && graph_.value(operand).kind == ValueKind::kSum &&
           graph_.value(operand).producer >= first;
  });
}

std::optional<Segment> Segmenter::Longest(std::int64_t first, const RowCut& rows) {
  const std::optional<RowCut> allowed = AllowedFor(first, rows);
  if (!allowed) return std::nullopt;
  const auto nodes = static_cast<std::int64_t>(graph_.nodes().size());
  std::int64_t limit = first;
  while (limit < nodes && Allows(limit, *allowed) && !ReadsSumSince(limit, first)) {
    // Where the wanted cut is possible again, a coarser one ends.
    if (limit > first && !(*allowed == rows) && Allows(limit, rows)) break;
    ++limit;
  }
  const auto fits = [&](std::int64_t end) { return Fits({{first, end}, *allowed}); };
  if (fits(limit)) return Segment{{first, limit}, *allowed};
  if (!fits(first + 1)) return Alone(first, *allowed);
  std::int64_t good = first + 1, bad = limit;
  while (bad - good > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return Segment{{first, good}, *allowed};
}

// Of what the node makes or, of sums, reads.
std::int64_t Segmenter::PositionsOf(int node) const {
  const LoweredNode& n = graph_.node(node);
  for (const std::vector<int>* ids : {&n.results, &n.operands}) {
    for (const int id : *ids) {
      if (id >= 0 && graph_.value(id).IsOfSamples()) return graph_.value(id).rows;
    }
  }
  return 1;
}

// Sums lie in the space in the tiles of their parameter, so they are cut as these are.
std::optional<Segment> Segmenter::ByColumns(Segment segment) {
  constexpr std::int64_t kMostParts = 1024;
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
  for (std::int64_t parts = 1; parts < std::min(units, kMostParts);) {
    parts = std::min({2 * parts, units, kMostParts});
    segment.column_parts = static_cast<int>(parts);
    if (Fits(segment)) return segment;
  }
  return std::nullopt;
}

// A node that is too large for one task: by the tiles of its parameter, by parts of its columns, or
// with smaller boxes.
std::optional<Segment> Segmenter::Alone(std::int64_t node, const RowCut& rows) {
  const int id = static_cast<int>(node);
  RowCut cut = rows;
  for (;;) {
    Segment segment{{node, node + 1}, cut};
    if (Fits(segment)) return segment;
    if (CanBeTiled(graph_, id)) {
      segment.by_tiles = true;
      if (Fits(segment)) return segment;
      segment.by_tiles = false;
    }
    if (const std::optional<Segment> by_columns = ByColumns(segment)) return by_columns;
    const std::optional<RowCut> finer = Halved(cut, PositionsOf(id));
    if (!finer || !Allows(node, *finer)) return std::nullopt;
    cut = *finer;
  }
}

std::optional<std::vector<Segment>> Segmenter::Finer(const Segment& segment) {
  if (segment.nodes.size() > 1) {
    const std::int64_t middle = segment.nodes.begin + segment.nodes.size() / 2;
    return std::vector<Segment>{{{segment.nodes.begin, middle}, segment.rows},
                                {{middle, segment.nodes.end}, segment.rows}};
  }
  // What is assembled of pieces needs up to twice as much as it was measured to need.
  const std::uint64_t all = cuts_.task_bytes;
  std::optional<Segment> alone;
  for (const std::uint64_t eighths : {4, 5, 6, 7}) {
    cuts_.task_bytes = all / 8 * eighths;
    alone = Alone(segment.nodes.begin, segment.rows);
    if (alone && !(*alone == segment)) break;
    alone.reset();
  }
  cuts_.task_bytes = all;
  if (!alone) return std::nullopt;
  return std::vector<Segment>{*alone};
}

// Until each fits among its neighbours as they are.
bool Segmenter::Refine() {
  for (int round = 0; round < kMostRefinements; ++round) {
    std::vector<Segment> refined;
    bool changed = false;
    const std::vector<Segment> all = segments_;
    const WholePass pass(graph_, cuts_, all, request_.training, pass_);
    for (std::size_t s = 0; s < all.size(); ++s) {
      if (Fits(pass, s)) {
        refined.push_back(all[s]);
        continue;
      }
      segments_.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(s));
      const auto finer = Finer(all[s]);
      if (!finer) return false;
      changed = true;
      refined.insert(refined.end(), finer->begin(), finer->end());
    }
    segments_ = std::move(refined);
    if (!changed) return true;
  }
  return false;
}

// ---- parameters --------------------------------------------------------------------------------

// What updating a tile needs, in matrices of its size: the value and states before and after, and
// parts of the gradient.
std::uint64_t MatricesOfUpdate(const Training& training) {
  return 2 * static_cast<std::uint64_t>(StateCount(training.optimizer)) + 6;
}

void CutParameters(const CutRequest& request, GraphCuts* cuts) {
  const std::uint64_t most =
      std::min({cuts->task_bytes / MatricesOfUpdate(request.training), request.tuple_bytes,
                request.size_bytes.value_or(UINT64_MAX)});
  // The norm of gradients has rows in lane order, whose leaves are not cut.
  const int least_column_level =
      request.training.clip_norm > 0 ? RootLevel(kLaneLeafColumns, cuts->block) : 0;
  std::uint64_t all = 0;
  cuts->parameters.clear();
  for (const model::Parameter& p : request.model.training.graph().parameters()) {
    ParameterCut cut{RootLevel(p.rows, cuts->block), RootLevel(p.columns, cuts->block)};
    const auto span = [&](std::int64_t size, int level) {
      return std::min(size, cuts->block << level);
    };
    const auto bytes = [&] {
      return 4 * static_cast<std::uint64_t>(span(p.rows, cut.row_level) *
                                            span(p.columns, cut.column_level));
    };
    while (bytes() > most && (cut.row_level > 0 || cut.column_level > least_column_level)) {
      const bool by_rows =
          cut.column_level <= least_column_level ||
          (cut.row_level > 0 && span(p.rows, cut.row_level) >= span(p.columns, cut.column_level));
      --(by_rows ? cut.row_level : cut.column_level);
    }
    cuts->parameters.push_back(cut);
    all += 4 * static_cast<std::uint64_t>(p.elements());
  }
  // Two updates for each worker: the first ones let the next step begin.
  constexpr std::uint64_t kLeastUpdateBytes = 64 << 10;
  const std::uint64_t share = all / (2 * static_cast<std::uint64_t>(request.workers));
  cuts->update_bytes = std::min(most, std::max(share, kLeastUpdateBytes));
}

// ---- rows --------------------------------------------------------------------------------------

// From the coarsest that keeps every worker busy, or holds as much as the job says, to the finest.
std::vector<RowCut> RowCuts(const CutRequest& request) {
  std::vector<RowCut> cuts;
  std::int64_t positions = 1;
  for (const LoweredValue& value : request.model.training.values()) {
    if (value.IsOfSamples()) positions = std::max(positions, value.rows);
  }
  const auto batch = static_cast<std::uint64_t>(request.training.batch);
  for (auto samples = static_cast<std::int64_t>(std::bit_ceil(batch)); samples >= 1; samples /= 2) {
    if (!request.batch_rows || samples <= *request.batch_rows) cuts.push_back({samples, 0});
  }
  if (cuts.empty()) cuts.push_back({1, 0});
  for (auto p = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(positions)));
       p >= kLeastPositions; p /= 2) {
    if (p < positions) cuts.push_back({1, p});
  }
  return cuts;
}

std::optional<ChosenCuts> ChooseWith(const CutRequest& request, std::uint64_t task_bytes,
                                     std::uint64_t* smallest_need_bytes) {
  GraphCuts cuts;
  cuts.block = request.training.block;
  cuts.task_bytes = task_bytes;
  CutParameters(request, &cuts);
  std::optional<ChosenCuts> best;
  int worse = 0;
  for (const RowCut& rows : RowCuts(request)) {
    Segmenter training(request, cuts, true);
    const auto segments = training.Cut(rows);
    if (!segments) {
      *smallest_need_bytes = std::min(*smallest_need_bytes, training.smallest_need());
      continue;
    }
    GraphCuts tried = cuts;
    tried.training = *segments;
    CutCost cost = CostOf(request, tried);
    if (cost.largest_need_bytes > task_bytes) {
      *smallest_need_bytes = std::min(*smallest_need_bytes, cost.largest_need_bytes);
      continue;
    }
    if (best && cost.step_us >= best->cost.step_us) {
      constexpr int kMostWorse = 3;
      if (++worse >= kMostWorse) break;
      continue;
    }
    Segmenter evaluation(request, tried, false);
    const auto evaluates = evaluation.Cut(rows);
    if (!evaluates) continue;
    tried.evaluation = *evaluates;
    best = ChosenCuts{std::move(tried), cost};
    worse = 0;
  }
  return best;
}

}  // namespace

std::optional<ChosenCuts> ChooseCuts(const CutRequest& request,
                                     std::uint64_t* smallest_need_bytes) {
  std::uint64_t smallest = UINT64_MAX;
  std::optional<ChosenCuts> best;
  // Where two tasks do not fit, none is fetched while one runs.
  for (const std::uint64_t eighths : {4, 6, 8}) {
    best = ChooseWith(request, request.capacity_bytes / 8 * eighths, &smallest);
    if (best) break;
  }
  if (!best && smallest_need_bytes != nullptr) *smallest_need_bytes = smallest;
  return best;
}

std::string Summary(const ChosenCuts& chosen, std::int64_t batch) {
  std::size_t tiled = 0;
  RowCut finest{batch, 0};
  for (const Segment& segment : chosen.cuts.training) {
    tiled += segment.by_tiles || segment.column_parts > 1 ? 1 : 0;
    finest = FinerOf(finest, segment.rows);
  }
  const std::string rows = finest.IsWithinSamples()
                               ? fmt::format("{} positions of a sample", finest.positions)
                               : fmt::format("{} samples", std::min(batch, finest.samples));
  return fmt::format(
      "{} segment{}, {} of them by tiles; {} at a time; {} tasks a step, which moves "
      "{:.1f} MB",
      chosen.cuts.training.size(), chosen.cuts.training.size() == 1 ? "" : "s", tiled, rows,
      chosen.cost.tasks, static_cast<double>(chosen.cost.moved_bytes) / 1e6);
}

}  // namespace acan
