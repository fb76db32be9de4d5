#include "acan/manager/graph_planner.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <iterator>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "acan/core/optimizers.h"
#include "cut_cost.h"
#include "fmt/format.h"
#include "gradient_norm.h"
#include "segmenter.h"

namespace acan {
namespace {

// ---- parameters --------------------------------------------------------------------------------

// What updating a tile needs, in matrices of its size: the value and states before and after, and
// parts of the gradient.
std::uint64_t MatricesOfUpdate(const Training& training) {
  return 2 * static_cast<std::uint64_t>(StateCount(training.optimizer)) + 6;
}

// A vector's gradient sums columns of values of samples: of at least one sample, and of two values
// that may be put together from pieces. No task can do more columns than this.
std::int64_t MostColumnsOfVector(const CutRequest& request, std::int32_t parameter,
                                 std::uint64_t task_bytes) {
  const LoweredGraph& graph = request.model.training;
  std::int64_t positions = 1;
  const int gradient = graph.GradientOf(parameter);
  if (gradient >= 0 && graph.value(gradient).kind == ValueKind::kSum) {
    for (const int operand : graph.node(graph.value(gradient).producer).operands) {
      if (operand < 0 || !graph.value(operand).IsOfSamples()) continue;
      positions = std::max(positions, graph.value(operand).rows);
    }
  }
  constexpr std::uint64_t kMatrices = 5;
  return static_cast<std::int64_t>(task_bytes /
                                   (4 * kMatrices * static_cast<std::uint64_t>(positions)));
}

// The norm of gradients has rows in lane order, whose leaves are not cut.
int LeastColumnLevel(const CutRequest& request) {
  const bool clips = request.training.clip_norm > 0;
  return clips ? RootLevel(kLaneLeafColumns, request.training.block) : 0;
}

void CutParameters(const CutRequest& request, GraphCuts* cuts) {
  const std::uint64_t most =
      std::min({cuts->task_bytes / MatricesOfUpdate(request.training), request.tuple_bytes,
                request.size_bytes.value_or(UINT64_MAX)});
  const int least_column_level = LeastColumnLevel(request);
  std::uint64_t all = 0;
  cuts->parameters.clear();
  const std::vector<model::Parameter>& parameters = request.model.training.graph().parameters();
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(parameters.size()); ++id) {
    const model::Parameter& p = parameters[static_cast<std::size_t>(id)];
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
    const std::int64_t most_columns =
        p.rows == 1 ? MostColumnsOfVector(request, id, cuts->task_bytes) : p.columns;
    while (cut.column_level > 0 && span(p.columns, cut.column_level) > most_columns) {
      --cut.column_level;
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

std::int64_t MostPositions(const LoweredGraph& graph) {
  std::int64_t positions = 1;
  for (const LoweredValue& value : graph.values()) {
    if (value.IsOfSamples()) positions = std::max(positions, value.rows);
  }
  return positions;
}

// From the coarsest to the finest, none with more samples than the job says: powers of two, and as
// many even boxes as there are workers, or twice as many.
std::vector<RowCut> RowCuts(const CutRequest& request) {
  const std::int64_t batch = request.training.batch;
  std::set<std::int64_t, std::greater<>> samples;
  for (auto s = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(batch))); s >= 1;
       s /= 2) {
    samples.insert(s);
  }
  for (const std::int64_t boxes : {request.workers, 2 * request.workers}) {
    if (boxes > 1 && boxes < batch) samples.insert((batch + boxes - 1) / boxes);
  }
  std::vector<RowCut> cuts;
  for (const std::int64_t s : samples) {
    if (s == 1 || s <= request.batch_rows.value_or(INT64_MAX)) cuts.push_back({s, 0});
  }
  const std::int64_t positions = MostPositions(request.model.training);
  for (auto p = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(positions)));
       p >= kLeastPositions; p /= 2) {
    if (p < positions) cuts.push_back({1, p});
  }
  return cuts;
}

GraphCuts WithTaskBytes(const CutRequest& request, std::uint64_t task_bytes) {
  GraphCuts cuts;
  cuts.block = request.training.block;
  cuts.task_bytes = task_bytes;
  CutParameters(request, &cuts);
  return cuts;
}

// With boxes of `rows` where that is possible. nullopt: something does not fit, or a step takes at
// least `limit_us`.
std::optional<ChosenCuts> CutBy(const CutRequest& request, const GraphCuts& parameters,
                                const std::vector<bool>& by_tiles, const RowCut& rows,
                                double limit_us) {
  GraphCuts cuts = parameters;
  const auto training = Segmenter(request, parameters, by_tiles, true).Cut(rows);
  if (!training) return std::nullopt;
  cuts.training = *training;
  CutCost cost = CostOf(request, cuts);
  if (cost.largest_need_bytes > cuts.task_bytes || cost.step_us >= limit_us) return std::nullopt;
  const auto evaluation = Segmenter(request, parameters, by_tiles, false).Cut(rows);
  if (!evaluation) return std::nullopt;
  cuts.evaluation = *evaluation;
  cost.largest_need_bytes = std::max(cost.largest_need_bytes, NeedOfEvaluation(request, cuts));
  return ChosenCuts{std::move(cuts), cost};
}

// ---- weights by tiles --------------------------------------------------------------------------

// The tiles of the parameters, and which of them are multiplied by tiles though they would fit into
// one task: wide layers over few rows move less so, as no task has all of a gradient.
struct Tiling {
  GraphCuts cuts;
  std::vector<bool> by_tiles;
};

// A linear operator that may be computed by the tiles of its weight.
struct WideLayer {
  std::int32_t weight = -1;
  std::int32_t bias = -1;
  std::int64_t elements = 0;
  std::int64_t batch_rows = 0;
  bool has_input_gradient = false;
};

std::vector<WideLayer> WideLayers(const CutRequest& request) {
  const LoweredGraph& graph = request.model.training;
  std::vector<WideLayer> layers;
  for (int id = 0; id < static_cast<int>(graph.nodes().size()); ++id) {
    const LoweredNode& node = graph.node(id);
    if (!CanBeTiled(graph, id)) continue;
    const std::int32_t weight = TiledNodeOf(graph, id).parameter;
    const auto known = std::find_if(layers.begin(), layers.end(),
                                    [&](const WideLayer& l) { return l.weight == weight; });
    if (std::holds_alternative<model::LinearInputGradient>(node.node->op)) {
      if (known != layers.end()) known->has_input_gradient = true;
      continue;
    }
    if (!std::holds_alternative<model::Linear>(node.node->op) || known != layers.end()) continue;
    const model::Parameter& p = graph.graph().parameter(weight);
    // Boxes of rows move a gradient each; tiles move the operands and results of the batch.
    const std::int64_t rows = request.training.batch * graph.value(node.operands[0]).rows;
    constexpr std::int64_t kOfOperands = 4;
    if (kOfOperands * p.elements() < rows * (p.rows + p.columns)) continue;
    const int bias = node.operands.size() > 2 ? node.operands[2] : -1;
    layers.push_back({weight, bias < 0 ? -1 : graph.value(bias).index, p.elements(), rows, false});
  }
  return layers;
}

// Along which axes the tiles of a wide layer are halved.
enum class Halving : std::uint8_t {
  kOutputs,  // its products have no parts to be added up
  kInputs,   // the gradient of its operands has none
  kInTurn,   // along both: tiles are square
};

struct TileWish {
  std::int64_t tiles = 1;  // at least
  Halving halving = Halving::kOutputs;
};

// The tiles of a wide layer: as many as wished, and so small that a task can update one from the
// operands and results of the whole batch.
ParameterCut CutLayer(const CutRequest& request, const WideLayer& layer, const TileWish& wish,
                      const GraphCuts& cuts) {
  const model::Parameter& p = request.model.training.graph().parameter(layer.weight);
  const int least = LeastColumnLevel(request);
  ParameterCut cut{RootLevel(p.rows, cuts.block), RootLevel(p.columns, cuts.block)};
  const auto span = [&](std::int64_t size, int level) {
    return std::min(size, cuts.block << level);
  };
  const auto parts = [&](std::int64_t size, int level) {
    return (size + (cuts.block << level) - 1) / (cuts.block << level);
  };
  // A version before and one after, with the gradient in the place of the new value.
  const std::uint64_t states = StatesOf(StateCount(request.training.optimizer)).size();
  const auto is_too_large = [&] {
    const std::int64_t rows = span(p.rows, cut.row_level);
    const std::int64_t columns = span(p.columns, cut.column_level);
    const auto tile = static_cast<std::uint64_t>(4 * rows * columns);
    const auto edges = static_cast<std::uint64_t>(4 * layer.batch_rows * (rows + columns));
    return 2 * states * tile + edges > cuts.task_bytes ||
           tile > std::min(request.tuple_bytes, request.size_bytes.value_or(UINT64_MAX));
  };
  const auto halve = [&](Halving halving) {
    const bool wider = span(p.columns, cut.column_level) > span(p.rows, cut.row_level);
    const bool wants_columns =
        halving == Halving::kInputs || (halving == Halving::kInTurn && wider);
    const bool by_columns = cut.row_level == 0 || (wants_columns && cut.column_level > least);
    --(by_columns ? cut.column_level : cut.row_level);
  };
  const auto can_be_halved = [&] { return cut.row_level > 0 || cut.column_level > least; };
  // Nobody needs the gradient of a model's inputs.
  const Halving halving = layer.has_input_gradient ? wish.halving : Halving::kOutputs;
  while (!request.size_bytes && can_be_halved() &&
         parts(p.rows, cut.row_level) * parts(p.columns, cut.column_level) < wish.tiles) {
    halve(halving);
  }
  while (is_too_large() && can_be_halved()) halve(Halving::kInTurn);
  return cut;
}

// How many tiles a wide layer may have for the workers: one or two for each of equal ones, many
// more for unequal ones, so that the slowest one does not end long after the others.
std::vector<std::int64_t> TileCounts(const CutRequest& request) {
  std::vector<std::int64_t> counts{request.workers, 2 * std::int64_t{request.workers}};
  constexpr double kMostTiles = 4096;
  constexpr int kFiner = 4;
  for (double share = 2 * request.slowest_share; share >= 1 && counts.back() < kMostTiles;
       share /= kFiner) {
    counts.push_back(kFiner * counts.back());
  }
  return counts;
}

// `layer` is the how manyth wide one.
Halving HalvingOf(Halving pattern, std::size_t layer) {
  if (pattern != Halving::kInputs) return pattern;
  return layer % 2 == 0 ? Halving::kOutputs : Halving::kInputs;
}

void AddLayer(const CutRequest& request, const WideLayer& layer, const TileWish& wish,
              Tiling* tiling) {
  const auto weight = static_cast<std::size_t>(layer.weight);
  const ParameterCut cut = CutLayer(request, layer, wish, tiling->cuts);
  tiling->cuts.parameters[weight] = cut;
  tiling->by_tiles[weight] = true;
  if (layer.bias < 0) return;
  const auto bias = static_cast<std::size_t>(layer.bias);
  tiling->cuts.parameters[bias].column_level = std::max(cut.row_level, LeastColumnLevel(request));
  tiling->by_tiles[bias] = true;
}

// The one without layers by tiles comes first.
std::vector<Tiling> Tilings(const CutRequest& request, std::uint64_t task_bytes) {
  constexpr std::size_t kMostSizes = 3;
  const GraphCuts cuts = WithTaskBytes(request, task_bytes);
  std::vector<Tiling> all{{cuts, std::vector<bool>(cuts.parameters.size(), false)}};
  const std::vector<WideLayer> layers = WideLayers(request);
  std::set<std::int64_t, std::greater<>> sizes;
  for (const WideLayer& layer : layers) sizes.insert(layer.elements);
  while (sizes.size() > kMostSizes) sizes.erase(std::prev(sizes.end()));
  for (const std::int64_t least : sizes) {
    for (const Halving pattern : {Halving::kOutputs, Halving::kInputs, Halving::kInTurn}) {
      for (const std::int64_t tiles : TileCounts(request)) {
        Tiling tiling = all.front();
        std::size_t wide = 0;
        for (const WideLayer& layer : layers) {
          if (layer.elements < least) continue;
          AddLayer(request, layer, {tiles, HalvingOf(pattern, wide++)}, &tiling);
        }
        const auto same = [&](const Tiling& other) {
          return other.by_tiles == tiling.by_tiles &&
                 other.cuts.parameters == tiling.cuts.parameters;
        };
        if (std::none_of(all.begin(), all.end(), same)) all.push_back(std::move(tiling));
      }
    }
  }
  return all;
}

// ---- choices -----------------------------------------------------------------------------------

std::optional<ChosenCuts> ChooseWith(const CutRequest& request, std::uint64_t task_bytes) {
  constexpr int kMostWorse = 3;
  std::optional<ChosenCuts> best;
  for (const Tiling& tiling : Tilings(request, task_bytes)) {
    int worse = 0;
    for (const RowCut& rows : RowCuts(request)) {
      const double limit_us = best ? best->cost.step_us : std::numeric_limits<double>::infinity();
      if (auto cut = CutBy(request, tiling.cuts, tiling.by_tiles, rows, limit_us)) {
        best = std::move(cut);
        worse = 0;
      } else if (best && ++worse >= kMostWorse) {
        break;
      }
    }
  }
  return best;
}

// Tasks of half of the memory let the next one be fetched while one runs.
constexpr std::uint64_t kEighths[] = {4, 6, 8};

std::uint64_t EighthsOf(std::uint64_t bytes, std::uint64_t eighths) {
  return bytes / 8 * eighths + bytes % 8 * eighths / 8;
}

// The way to cut that fits into the least memory.
class SmallestMemory {
 public:
  explicit SmallestMemory(const CutRequest& request)
      : request_(request), rows_(RowCuts(request)) {}

  // More than request.capacity_bytes, with which nothing fits. UINT64_MAX: no memory is enough, as
  // tuples or tasks are larger than the space takes.
  std::uint64_t Find() {
    constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 50;
    std::uint64_t too_little = request_.capacity_bytes;
    std::uint64_t enough = std::max<std::uint64_t>(too_little, 1024);
    do {
      if (enough > kMostBytes) return UINT64_MAX;
      enough *= 2;
    } while (!AnyWayFits(enough));
    // The way that was found is followed down; where it ends, another one may go on.
    for (;;) {
      too_little = request_.capacity_bytes;
      while (enough - too_little > 1) {
        const std::uint64_t middle = too_little + (enough - too_little) / 2;
        (Fits(way_, middle) ? enough : too_little) = middle;
      }
      if (enough - 1 == request_.capacity_bytes || !AnyWayFits(enough - 1)) return enough;
      --enough;
    }
  }

 private:
  struct Way {
    std::uint64_t eighths = 8;
    RowCut rows;
  };

  bool Fits(const Way& way, std::uint64_t bytes) const {
    const GraphCuts parameters = WithTaskBytes(request_, EighthsOf(bytes, way.eighths));
    const std::vector<bool> by_tiles(parameters.parameters.size(), false);
    return CutBy(request_, parameters, by_tiles, way.rows, std::numeric_limits<double>::infinity())
        .has_value();
  }
  bool AnyWayFits(std::uint64_t bytes) {
    for (auto eighths = std::rbegin(kEighths); eighths != std::rend(kEighths); ++eighths) {
      for (auto rows = rows_.rbegin(); rows != rows_.rend(); ++rows) {
        if (!Fits({*eighths, *rows}, bytes)) continue;
        way_ = {*eighths, *rows};
        return true;
      }
    }
    return false;
  }

  const CutRequest& request_;
  const std::vector<RowCut> rows_;
  Way way_;
};

}  // namespace

std::optional<ChosenCuts> ChooseCuts(const CutRequest& request,
                                     std::uint64_t* smallest_need_bytes) {
  std::optional<ChosenCuts> best;
  double best_us = std::numeric_limits<double>::infinity();
  for (const std::uint64_t eighths : kEighths) {
    auto chosen = ChooseWith(request, EighthsOf(request.capacity_bytes, eighths));
    if (!chosen) continue;
    // Where two tasks do not fit, none is fetched while one runs.
    constexpr double kPenaltyOfEighth = 0.05;
    const double us =
        chosen->cost.step_us * (1 + kPenaltyOfEighth * static_cast<double>(eighths - kEighths[0]));
    if (us >= best_us) continue;
    best = std::move(chosen);
    best_us = us;
  }
  if (best) return best;
  if (smallest_need_bytes != nullptr) *smallest_need_bytes = SmallestMemory(request).Find();
  return std::nullopt;
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
