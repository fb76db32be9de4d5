#include "placement_search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "step_timeline.h"

namespace acan {
namespace {

constexpr double kNever = StepTimeline::kNever;
constexpr int kNobody = -1;

Placement NotPlaced(const StepShape& shape) {
  Placement placed;
  placed.handler_of.assign(shape.tasks.size(), kNobody);
  placed.step_us = kNever;
  return placed;
}

// The largest tile that a task reads or makes, if handlers keep tiles of its size.
std::optional<std::size_t> MainTile(const HandlerNetwork& network, const StepShape& shape,
                                    const StepShape::OfTask& task) {
  std::optional<std::size_t> main;
  for (const std::vector<std::size_t>* tuples : {&task.outputs, &task.inputs}) {
    for (const std::size_t i : *tuples) {
      const StepShape::OfTuple& tuple = shape.tuples[i];
      if (!tuple.tile || tuple.bytes < network.least_kept_tile_bytes) continue;
      if (!main || tuple.bytes > shape.tuples[*main].bytes) main = i;
    }
    if (main) return main;
  }
  return main;
}

// The tiles of a step that are large enough for handlers to keep.
struct TileGrid {
  std::map<MatrixId, std::set<std::int64_t>> rows, columns;  // where tiles begin
};

TileGrid GridOf(const HandlerNetwork& network, const StepShape& shape) {
  TileGrid grid;
  for (const StepShape::OfTuple& tuple : shape.tuples) {
    if (!tuple.tile || tuple.bytes < network.least_kept_tile_bytes) continue;
    grid.rows[tuple.tile->matrix].insert(tuple.tile->row);
    grid.columns[tuple.tile->matrix].insert(tuple.tile->column);
  }
  return grid;
}

// The handler of one of `count` equal parts; each handler gets parts in proportion to its speed.
int HandlerOfPart(const HandlerNetwork& network, std::size_t part, std::size_t count) {
  double all = 0;
  for (const PlacedHandler& handler : network.handlers) all += std::max(handler.gflops, 1e-9);
  double left = all * (static_cast<double>(part) + 0.5) /
                static_cast<double>(std::max<std::size_t>(1, count));
  for (std::size_t h = 0; h < network.handlers.size(); ++h) {
    left -= std::max(network.handlers[h].gflops, 1e-9);
    if (left <= 0) return static_cast<int>(h);
  }
  return static_cast<int>(network.handlers.size()) - 1;
}

int HandlerOfTile(const HandlerNetwork& network, const TileGrid& grid, const TileId& tile,
                  bool by_rows) {
  const std::set<std::int64_t>& rows = grid.rows.at(tile.matrix);
  const std::set<std::int64_t>& columns = grid.columns.at(tile.matrix);
  const bool takes_rows = columns.size() == 1 || (by_rows && rows.size() > 1);
  const std::set<std::int64_t>& axis = takes_rows ? rows : columns;
  const auto place = axis.find(takes_rows ? tile.row : tile.column);
  return HandlerOfPart(network, static_cast<std::size_t>(std::distance(axis.begin(), place)),
                       axis.size());
}

// ---- moves -------------------------------------------------------------------------------------

// Tasks that should run on the same handler.
using Group = std::vector<std::size_t>;

// The groups of all tasks of a tile, then a group for each task without a tile.
std::vector<Group> GroupsOf(const HandlerNetwork& network, const StepShape& shape,
                            std::size_t* of_tiles) {
  std::map<TileId, std::size_t> numbers;
  // Tiles that one task makes belong to the same group.
  for (const StepShape::OfTask& task : shape.tasks) {
    std::optional<std::size_t> number;
    for (const std::size_t output : task.outputs) {
      const auto& tile = shape.tuples[output].tile;
      if (!tile || shape.tuples[output].bytes < network.least_kept_tile_bytes) continue;
      if (!number) number = numbers.size();
      numbers.emplace(*tile, *number);
    }
  }
  std::map<std::size_t, Group> tiled;
  std::vector<Group> single;
  for (std::size_t t = 0; t < shape.tasks.size(); ++t) {
    const auto main = MainTile(network, shape, shape.tasks[t]);
    const auto number = main ? numbers.find(*shape.tuples[*main].tile) : numbers.end();
    if (number != numbers.end()) {
      tiled[number->second].push_back(t);
    } else {
      single.push_back({t});
    }
  }
  std::vector<Group> groups;
  for (auto& [number, group] : tiled) groups.push_back(std::move(group));
  *of_tiles = groups.size();
  for (Group& group : single) groups.push_back(std::move(group));
  return groups;
}

class Search {
 public:
  Search(const HandlerNetwork& network, const StepShape& shape, Placement placement,
         std::int64_t tries)
      : network_(network),
        shape_(shape),
        groups_(GroupsOf(network, shape, &tiled_)),
        best_(std::move(placement)),
        score_(ScoreOf(network, best_)),
        tries_(tries) {}

  Placement Run() && {
    while (tries_ > 0 && (MoveGroups() || SwapGroups())) {
    }
    return std::move(best_);
  }

 private:
  bool Try(const std::vector<int>& handler_of) {
    constexpr double kGain = 1e-4;  // ensures termination
    if (--tries_ < 0) return false;
    Placement placed = PlaceSteadily(network_, shape_, handler_of);
    const double score = ScoreOf(network_, placed);
    if (!(score < (1 - kGain) * score_)) return false;
    best_ = std::move(placed);
    score_ = score;
    return true;
  }
  static void Put(const Group& group, int handler, std::vector<int>* handler_of) {
    for (const std::size_t t : group) (*handler_of)[t] = handler;
  }
  int HandlerOf(const Group& group) const { return best_.handler_of[group.back()]; }

  bool MoveGroups() {
    bool moved = false;
    for (const Group& group : groups_) {
      for (int h = 0; h < static_cast<int>(network_.handlers.size()) && tries_ > 0; ++h) {
        std::vector<int> handler_of = best_.handler_of;
        Put(group, h, &handler_of);
        if (handler_of != best_.handler_of) moved = Try(handler_of) || moved;
      }
    }
    return moved;
  }
  bool SwapGroups() {
    bool moved = false;
    for (std::size_t a = 0; a < tiled_; ++a) {
      for (std::size_t b = a + 1; b < tiled_ && tries_ > 0; ++b) {
        const int of_a = HandlerOf(groups_[a]), of_b = HandlerOf(groups_[b]);
        if (of_a == of_b) continue;
        std::vector<int> handler_of = best_.handler_of;
        Put(groups_[a], of_b, &handler_of);
        Put(groups_[b], of_a, &handler_of);
        moved = Try(handler_of) || moved;
      }
    }
    return moved;
  }

  const HandlerNetwork& network_;
  const StepShape& shape_;
  std::size_t tiled_ = 0;  // the first groups_, which belong to tiles
  const std::vector<Group> groups_;
  Placement best_;
  double score_;
  std::int64_t tries_;
};

}  // namespace

double ScoreOf(const HandlerNetwork& network, const Placement& placed) {
  constexpr double kMovedWeight = 0.3;
  double moved_us = 0;
  for (std::size_t host = 0; host < placed.loads.size(); ++host) {
    const LinkLoad& load = placed.loads[host];
    moved_us +=
        static_cast<double>(load.out_bytes + load.in_bytes) / 1024 * network.hosts[host].us_per_kib;
  }
  return placed.step_us + kMovedWeight * moved_us / static_cast<double>(placed.loads.size());
}

std::map<TileId, int> HomesOf(const StepShape& shape, const std::vector<int>& handler_of) {
  std::map<TileId, int> home_of;
  for (std::size_t t = 0; t < shape.tasks.size(); ++t) {
    if (handler_of[t] == kNobody) continue;
    for (const std::size_t output : shape.tasks[t].outputs) {
      if (shape.tuples[output].tile) home_of[*shape.tuples[output].tile] = handler_of[t];
    }
  }
  return home_of;
}

namespace {

// The tasks of some steps on their named handlers, in the order in which these take them: a handler
// that asks gets the first task whose inputs are there.
class NamedSteps {
 public:
  NamedSteps(const HandlerNetwork& network, const StepShape& shape,
             const std::vector<int>& handler_of, std::size_t steps)
      : shape_(shape),
        handler_of_(handler_of),
        timeline_(network, shape, HomesOf(shape, handler_of), steps),
        queues_(network.handlers.size()),
        steps_(steps) {
    std::vector<std::size_t> maker(shape.tuples.size(), kNoTask);
    for (std::size_t t = 0; t < shape.tasks.size(); ++t) {
      for (const std::size_t output : shape.tasks[t].outputs) maker[output] = t;
    }
    missing_.assign(steps * shape.tasks.size(), 0);
    readers_.resize(shape.tasks.size());
    for (std::size_t t = 0; t < shape.tasks.size(); ++t) {
      for (const std::size_t input : shape.tasks[t].inputs) {
        const StepShape::OfTuple& tuple = shape.tuples[input];
        const bool is_of_step_before = !tuple.is_made && tuple.next_version;
        const std::size_t made_by = maker[tuple.next_version.value_or(input)];
        if (made_by == kNoTask) continue;
        readers_[made_by].push_back({t, is_of_step_before});
        for (std::size_t step = is_of_step_before ? 1 : 0; step < steps; ++step) {
          ++missing_[step * shape.tasks.size() + t];
        }
      }
    }
  }

  // Returns false if a task does not fit into its handler.
  bool Run() {
    for (std::size_t step = 0; step < steps_; ++step) {
      for (std::size_t t = 0; t < shape_.tasks.size(); ++t) QueueIfReady({step, t});
    }
    for (;;) {
      const int handler = NextHandler();
      if (handler == kNobody) return true;
      const StepTimeline::TaskOfStep of = Take(handler);
      if (!timeline_.Fits(of, handler)) return false;
      timeline_.Settle(of, handler);
      for (const auto& [reader, is_of_next_step] : readers_[of.task]) {
        const std::size_t step = of.step + (is_of_next_step ? 1 : 0);
        if (step == steps_) continue;
        --missing_[step * shape_.tasks.size() + reader];
        QueueIfReady({step, reader});
      }
    }
  }
  StepTimeline& timeline() { return timeline_; }

 private:
  static constexpr std::size_t kNoTask = SIZE_MAX;
  struct Reader {
    std::size_t task = 0;
    bool is_of_next_step = false;
  };
  // The order in which the space grants ready tasks.
  using Rank = std::tuple<std::size_t, std::int64_t, std::size_t>;  // step, priority, task
  struct Queue {
    std::set<std::pair<double, Rank>> coming;  // with the time at which their inputs are there
    std::set<Rank> ready;                      // when the handler asks, by rank
  };

  void QueueIfReady(const StepTimeline::TaskOfStep& of) {
    if (missing_[of.step * shape_.tasks.size() + of.task] != 0) return;
    const auto handler = static_cast<std::size_t>(handler_of_[of.task]);
    queues_[handler].coming.emplace(timeline_.ReadyUs(of),
                                    Rank{of.step, shape_.tasks[of.task].priority, of.task});
  }

  // The handler that gets the next task. Results made later become available later, and do not
  // change this choice.
  int NextHandler() {
    int next = kNobody;
    double next_us = kNever;
    for (int h = 0; h < static_cast<int>(queues_.size()); ++h) {
      Queue& queue = queues_[static_cast<std::size_t>(h)];
      const double asks_us = timeline_.AsksUs(h);
      while (!queue.coming.empty() && queue.coming.begin()->first <= asks_us) {
        queue.ready.insert(queue.coming.begin()->second);
        queue.coming.erase(queue.coming.begin());
      }
      if (queue.ready.empty() && queue.coming.empty()) continue;
      const double us = queue.ready.empty() ? queue.coming.begin()->first : asks_us;
      if (us < next_us) {
        next = h;
        next_us = us;
      }
    }
    return next;
  }

  StepTimeline::TaskOfStep Take(int handler) {
    Queue& queue = queues_[static_cast<std::size_t>(handler)];
    if (queue.ready.empty()) {
      queue.ready.insert(queue.coming.begin()->second);
      queue.coming.erase(queue.coming.begin());
    }
    const auto [step, priority, task] = *queue.ready.begin();
    queue.ready.erase(queue.ready.begin());
    return {step, task};
  }

  const StepShape& shape_;
  const std::vector<int>& handler_of_;
  StepTimeline timeline_;
  std::vector<Queue> queues_;  // by handler
  const std::size_t steps_;
  std::vector<int> missing_;                  // by step and task: inputs that are not made yet
  std::vector<std::vector<Reader>> readers_;  // by task
};

}  // namespace

Placement PlaceSteadily(const HandlerNetwork& network, const StepShape& shape,
                        const std::vector<int>& handler_of) {
  constexpr std::size_t kFirst = 1, kSteps = 4;  // in the first step, handlers begin idle
  NamedSteps steps(network, shape, handler_of, kSteps);
  if (!steps.Run()) return NotPlaced(shape);
  const StepTimeline& timeline = steps.timeline();
  const double all_us = timeline.EndUs(kSteps - 1) - timeline.EndUs(kFirst);
  Placement placed = steps.timeline().Take();
  placed.step_us = std::max(placed.step_us, all_us / static_cast<double>(kSteps - 1 - kFirst));
  return placed;
}

Placement PlaceGreedily(const HandlerNetwork& network, const StepShape& shape,
                        const std::map<TileId, int>& home_of, const std::vector<int>& pinned,
                        double link_weight) {
  StepTimeline timeline(network, shape, home_of, 1);
  for (std::size_t t = 0; t < shape.tasks.size(); ++t) {
    int best = kNobody;
    double best_score = kNever;
    for (int h = 0; h < static_cast<int>(network.handlers.size()); ++h) {
      if (!pinned.empty() && pinned[t] != kNobody && pinned[t] != h) continue;
      if (!timeline.Fits({0, t}, h)) continue;
      const StepTimeline::Offer offer = timeline.OfferOf({0, t}, h);
      const double score = offer.end_us + link_weight * offer.link_us;
      if (score < best_score) {
        best = h;
        best_score = score;
      }
    }
    if (best == kNobody) return NotPlaced(shape);
    timeline.Settle({0, t}, best);
  }
  const double end_us = timeline.EndUs(0);
  Placement placed = timeline.Take();
  placed.step_us = std::max(placed.step_us, end_us);
  return placed;
}

std::vector<std::vector<int>> SpreadsOfTiles(const HandlerNetwork& network,
                                             const StepShape& shape) {
  const TileGrid grid = GridOf(network, shape);
  std::vector<std::vector<int>> spreads;
  if (grid.rows.empty()) return spreads;
  for (const bool alternates : {true, false}) {
    for (const bool first_by_rows : {true, false}) {
      std::map<ParameterId, bool> by_rows;  // for a weight and its states
      bool next = first_by_rows;
      for (const auto& [matrix, rows] : grid.rows) {
        if (!by_rows.try_emplace(matrix.parameter, next).second) continue;
        if (alternates) next = !next;
      }
      std::vector<int> spread;
      for (const StepShape::OfTask& task : shape.tasks) {
        const auto main = MainTile(network, shape, task);
        if (!main) {
          spread.push_back(kNobody);
          continue;
        }
        const TileId& tile = *shape.tuples[*main].tile;
        spread.push_back(HandlerOfTile(network, grid, tile, by_rows.at(tile.matrix.parameter)));
      }
      if (std::ranges::find(spreads, spread) == spreads.end()) spreads.push_back(std::move(spread));
    }
  }
  return spreads;
}

Placement Improve(const HandlerNetwork& network, const StepShape& shape, Placement placement,
                  std::int64_t tries) {
  if (!std::isfinite(placement.step_us)) return placement;
  return Search(network, shape, std::move(placement), tries).Run();
}

}  // namespace acan
