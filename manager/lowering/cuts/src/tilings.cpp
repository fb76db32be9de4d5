#include "tilings.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <utility>

#include "acan/core/optimizers.h"
#include "parameter_cuts.h"
#include "value_grid.h"

namespace acan {
namespace {

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
    // Over links, the inputs of a narrower layer need not move either if it is cut along them.
    constexpr std::int64_t kOfOperands = 4;
    const bool is_wide = kOfOperands * p.elements() >= rows * (p.rows + p.columns);
    if (!is_wide && request.network == nullptr) continue;
    const int bias = node.operands.size() > 2 ? node.operands[2] : -1;
    layers.push_back({weight, bias < 0 ? -1 : graph.value(bias).index, p.elements(), rows, false});
  }
  return layers;
}

// The axes along which the tiles of a wide layer are halved.
enum class Halving : std::uint8_t {
  kOutputs,  // its products have no parts to add up
  kInputs,   // the gradient of its operands has no parts to add up
  kInTurn,   // both in turn, so that tiles are square
};

struct TileWish {
  std::int64_t tiles = 1;  // at least
  Halving halving = Halving::kOutputs;
};

// Cuts a wide layer into the wanted number of tiles, each small enough that a task can update it
// from the operands and results of the whole batch.
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
  // The value and states before and after, with the gradient in the place of the new value.
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
  // The gradient of the model's inputs is not needed.
  const Halving halving = layer.has_input_gradient ? wish.halving : Halving::kOutputs;
  std::int64_t tiles = wish.tiles;
  if (!layer.has_input_gradient && wish.halving == Halving::kInTurn) {
    // As many tiles as the inputs of a square layer after this one have parts. Then each task of
    // that layer reads one tuple of this layer's outputs and copies nothing.
    for (tiles = 1; tiles * tiles < wish.tiles;) tiles *= 2;
  }
  while (!request.size_bytes && can_be_halved() &&
         parts(p.rows, cut.row_level) * parts(p.columns, cut.column_level) < tiles) {
    halve(halving);
  }
  while (is_too_large() && can_be_halved()) halve(Halving::kInTurn);
  return cut;
}

// The numbers of tiles that a wide layer may have: one or two per worker if workers are equal, many
// more if they are unequal, so that the slowest one does not end long after the others.
std::vector<std::int64_t> TileCounts(const CutRequest& request) {
  std::vector<std::int64_t> counts{request.speed.workers, 2 * std::int64_t{request.speed.workers}};
  if (request.network != nullptr)
    counts.push_back(std::int64_t{request.speed.workers} * request.speed.workers);
  constexpr double kMaxTiles = 4096;
  constexpr int kFiner = 4;
  for (double share = 2 * request.speed.slowest_share; share >= 1 && counts.back() < kMaxTiles;
       share /= kFiner) {
    counts.push_back(kFiner * counts.back());
  }
  return counts;
}

// The bytes of a whole tile.
std::uint64_t TileBytes(const CutRequest& request, const WideLayer& layer, const GraphCuts& cuts) {
  const model::Parameter& p = request.model.training.graph().parameter(layer.weight);
  const ParameterCut& cut = cuts.parameters[static_cast<std::size_t>(layer.weight)];
  const std::int64_t rows = std::min(p.rows, cuts.block << cut.row_level);
  const std::int64_t columns = std::min(p.columns, cuts.block << cut.column_level);
  return static_cast<std::uint64_t>(4 * rows * columns);
}

// Over links, each large tile is updated by a task of its own, so that it can move to its operands
// without the next tile.
void KeepApart(const CutRequest& request, const WideLayer& layer, GraphCuts* cuts) {
  const std::uint64_t tile_bytes = TileBytes(request, layer, *cuts);
  if (tile_bytes < request.network->least_kept_tile_bytes) return;
  cuts->update_bytes = std::min(cuts->update_bytes, tile_bytes);
}

// `layer` is the index among the wide layers.
Halving HalvingOf(Halving pattern, std::size_t layer) {
  if (pattern != Halving::kInputs) return pattern;
  return layer % 2 == 0 ? Halving::kOutputs : Halving::kInputs;
}

void AddLayer(const CutRequest& request, const WideLayer& layer, const TileWish& wish, TiledWork by,
              Tiling* tiling) {
  const auto weight = static_cast<std::size_t>(layer.weight);
  const ParameterCut cut = CutLayer(request, layer, wish, tiling->cuts);
  tiling->cuts.parameters[weight] = cut;
  tiling->by_tiles[weight] = by;
  if (layer.bias < 0) return;
  const auto bias = static_cast<std::size_t>(layer.bias);
  tiling->cuts.parameters[bias].column_level = std::max(cut.row_level, LeastColumnLevel(request));
  tiling->by_tiles[bias] = by;
}

void AddIfNew(Tiling tiling, std::vector<Tiling>* all) {
  const auto same = [&](const Tiling& other) {
    return other.by_tiles == tiling.by_tiles && other.cuts.parameters == tiling.cuts.parameters;
  };
  if (std::none_of(all->begin(), all->end(), same)) all->push_back(std::move(tiling));
}

// If the other parameters are smaller than a tile, the updates of the tiles share them, because
// updates of tiles that compute gradients take far longer than other updates of the same size.
void ShareRest(const CutRequest& request, const WideLayer& layer, GraphCuts* cuts) {
  if (request.size_bytes) return;  // limits what a task may touch
  const std::uint64_t tile_bytes = TileBytes(request, layer, *cuts);
  std::uint64_t others = 0;
  for (const model::Parameter& p : request.model.training.graph().parameters()) {
    others += 4 * static_cast<std::uint64_t>(p.elements());
  }
  others -= 4 * static_cast<std::uint64_t>(layer.elements);
  if (others >= tile_bytes) return;
  const model::Parameter& p = request.model.training.graph().parameter(layer.weight);
  const ParameterCut& cut = cuts->parameters[static_cast<std::size_t>(layer.weight)];
  cuts->update_tasks = TilesOf(p.rows, p.columns, cut, cuts->block).size();
  cuts->update_bytes = std::max(cuts->update_bytes, tile_bytes + others);
}

// The updates compute the gradients of wide layers whose operands need none, which are the last
// nodes of the graph. Other gradients would end the segments of boxes of rows.
void AddGradientsByTiles(const CutRequest& request, const std::vector<WideLayer>& layers,
                         std::vector<Tiling>* all) {
  for (const std::int64_t tiles : TileCounts(request)) {
    Tiling tiling = all->front();
    for (const WideLayer& layer : layers) {
      const bool frozen = request.model.training.graph().parameter(layer.weight).frozen;
      if (layer.has_input_gradient || frozen) continue;
      AddLayer(request, layer, {tiles, Halving::kOutputs}, TiledWork::kGradient, &tiling);
      ShareRest(request, layer, &tiling.cuts);
    }
    AddIfNew(std::move(tiling), all);
  }
}

}  // namespace

std::vector<Tiling> Tilings(const CutRequest& request, std::uint64_t task_bytes) {
  constexpr std::size_t kMaxSizes = 3;
  const GraphCuts cuts = CutParameters(request, task_bytes);
  std::vector<Tiling> all{{cuts, std::vector<TiledWork>(cuts.parameters.size())}};
  const std::vector<WideLayer> layers = WideLayers(request);
  // Over a link, the operands of the whole batch would travel once more.
  if (request.network == nullptr) AddGradientsByTiles(request, layers, &all);
  std::set<std::int64_t, std::greater<>> sizes;
  for (const WideLayer& layer : layers) sizes.insert(layer.elements);
  while (sizes.size() > kMaxSizes) sizes.erase(std::prev(sizes.end()));
  for (const std::int64_t least : sizes) {
    for (const Halving pattern : {Halving::kOutputs, Halving::kInputs, Halving::kInTurn}) {
      for (const std::int64_t tiles : TileCounts(request)) {
        Tiling tiling = all.front();
        std::size_t wide = 0;
        for (const WideLayer& layer : layers) {
          if (layer.elements < least) continue;
          AddLayer(request, layer, {tiles, HalvingOf(pattern, wide++)}, TiledWork::kAll, &tiling);
          if (request.network != nullptr) KeepApart(request, layer, &tiling.cuts);
        }
        AddIfNew(std::move(tiling), &all);
      }
    }
  }
  return all;
}

}  // namespace acan
