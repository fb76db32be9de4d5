#include "acan/manager/graph_planner.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "cut_cost.h"
#include "fmt/format.h"
#include "segmenter.h"
#include "tilings.h"

namespace acan {
namespace {

std::int64_t MostPositions(const LoweredGraph& graph) {
  std::int64_t positions = 1;
  for (const LoweredValue& value : graph.values()) {
    if (value.IsOfSamples()) positions = std::max(positions, value.rows);
  }
  return positions;
}

// From the coarsest to the finest cut, within the job's limit of samples: powers of two, and as
// many even boxes as there are workers, or twice as many.
std::vector<RowCut> RowCuts(const CutRequest& request) {
  const std::int64_t batch = request.training.batch;
  std::set<std::int64_t, std::greater<>> samples;
  for (auto s = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(batch))); s >= 1;
       s /= 2) {
    samples.insert(s);
  }
  for (const std::int64_t boxes : {request.speed.workers, 2 * request.speed.workers}) {
    if (boxes > 1 && boxes < batch) samples.insert((batch + boxes - 1) / boxes);
  }
  std::vector<RowCut> cuts;
  for (const std::int64_t s : samples) {
    if (s == 1 || s <= request.batch_rows.value_or(INT64_MAX)) cuts.push_back({s, 0});
  }
  const std::int64_t positions = MostPositions(request.model.training);
  for (auto p = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(positions)));
       p >= kMinPositions; p /= 2) {
    if (p < positions) cuts.push_back({1, p});
  }
  return cuts;
}

// The estimate without links lets no stage overlap the next. So a cut may still beat the best one
// if this fraction of its estimate does.
constexpr double kOverlap = 0.7;

constexpr std::int64_t kMaxThoroughlyPlaced = 4'096;  // tasks; more would take too long

double StepUsOfPlaced(const CutRequest& request, const GraphCuts& cuts, PlacementEffort effort) {
  const GraphTasks tasks(request.model, request.training, cuts);
  return PlaceTasks(*request.network, tasks.Tasks(FullPass(request, true)), effort).step_us;
}

double StepUsOverLinks(const CutRequest& request, const GraphCuts& cuts, const CutCost& cost) {
  if (cost.tasks <= request.budget->tasks) {
    request.budget->tasks -= cost.tasks;
    return StepUsOfPlaced(request, cuts, PlacementEffort::kQuick);
  }
  return cost.step_us + UsOverOneLink(*request.network, cost.moved_bytes);
}

// Of SearchBudget::unfit_work, for each node of each cut.
constexpr std::int64_t kWorkOfNode = 16;

// Cuts with boxes of `rows` where possible. nullopt: something does not fit, or a step takes
// `limit_us` or longer.
std::optional<ChosenCuts> CutBy(const CutRequest& request, const Tiling& tiling, const RowCut& rows,
                                double limit_us, AttentionSpread spread = AttentionSpread::kNone) {
  if (request.go_on) request.go_on();
  if (request.budget != nullptr) {
    const auto nodes = static_cast<std::int64_t>(request.model.training.nodes().size());
    request.budget->nodes -= nodes;
    request.budget->unfit_work -= kWorkOfNode * nodes;
  }
  GraphCuts cuts = tiling.cuts;
  Segmenter of_training(request, tiling.cuts, tiling.by_tiles, spread, true);
  const auto training = of_training.Cut(rows);
  if (!training) return std::nullopt;
  cuts.training = *training;
  CutCost cost = CostOf(request, cuts, of_training.costs());
  const double least_us = request.network != nullptr ? kOverlap * cost.step_us : cost.step_us;
  if (cost.largest_need_bytes > cuts.task_bytes || !cost.fits_limits || least_us >= limit_us) {
    return std::nullopt;
  }
  if (request.network != nullptr) {
    cost.step_us = StepUsOverLinks(request, cuts, cost);
    if (cost.step_us >= limit_us) return std::nullopt;
  }
  Segmenter of_evaluation(request, tiling.cuts, tiling.by_tiles, spread, false);
  const auto evaluation = of_evaluation.Cut(rows);
  if (!evaluation) return std::nullopt;
  cuts.evaluation = *evaluation;
  cost.largest_need_bytes = std::max(cost.largest_need_bytes, of_evaluation.need_bytes());
  return ChosenCuts{std::move(cuts), cost};
}

bool IsBudgetSpent(const CutRequest& request) {
  return request.budget != nullptr && request.budget->nodes <= 0;
}
// Whether a search that has found nothing that fits must end.
bool IsHopeless(const CutRequest& request) {
  return request.budget != nullptr && request.budget->unfit_work <= 0;
}

// How to spread attention, besides the cuts that memory requires: other ways are tried if there are
// fewer samples than workers.
std::vector<AttentionSpread> Spreads(const CutRequest& request, const RowCut& rows) {
  std::vector<AttentionSpread> spreads{AttentionSpread::kNone};
  const std::vector<LoweredNode>& nodes = request.model.training.nodes();
  const bool attends = std::any_of(nodes.begin(), nodes.end(), [](const LoweredNode& node) {
    return std::holds_alternative<model::Attention>(node.node->op);
  });
  if (attends && rows.IsWithinSamples() && request.training.batch < request.speed.workers) {
    spreads.insert(spreads.end(), {AttentionSpread::kQueries, AttentionSpread::kHeads});
  }
  return spreads;
}

// Cuts, and how they were found.
struct Found {
  ChosenCuts chosen;
  Tiling tiling;
  RowCut rows;
  AttentionSpread spread = AttentionSpread::kNone;
};

// Over links, a placement with more effort may change the order of cuts with nearly equal
// estimates. The list keeps the best cut of each way to cut the parameters.
class Shortlist {
 public:
  static constexpr double kNear = 1.1;  // times the best

  void Add(const Found& found) {
    if (!found_.empty() && found_.back().tiling.cuts.parameters == found.tiling.cuts.parameters &&
        found_.back().tiling.by_tiles == found.tiling.by_tiles) {
      if (UsOf(found) < UsOf(found_.back())) found_.back() = found;
      return;
    }
    found_.push_back(found);
  }
  // The best few.
  std::vector<Found> Take() && {
    constexpr std::size_t kMost = 4;
    std::ranges::stable_sort(found_, {}, UsOf);
    std::erase_if(found_, [least = found_.empty() ? 0 : UsOf(found_.front())](const Found& found) {
      return UsOf(found) > kNear * least;
    });
    if (found_.size() > kMost) found_.erase(found_.begin() + kMost, found_.end());
    return std::move(found_);
  }

 private:
  static double UsOf(const Found& found) { return found.chosen.cost.step_us; }

  std::vector<Found> found_;
};

// The best cut whose step takes less than `limit_us`. `shortlist` collects cuts near the best; it
// is null if no bytes cross links.
std::optional<Found> ChooseWith(const CutRequest& request, std::uint64_t task_bytes,
                                double limit_us, Shortlist* shortlist) {
  constexpr int kMaxWorse = 3;
  std::optional<Found> best;
  for (const Tiling& tiling : Tilings(request, task_bytes)) {
    int worse = 0;
    for (const RowCut& rows : RowCuts(request)) {
      if (best ? IsBudgetSpent(request) : IsHopeless(request)) return best;
      bool is_better = false;
      for (const AttentionSpread spread : Spreads(request, rows)) {
        if (best) limit_us = best->chosen.cost.step_us;
        const double near_us = shortlist != nullptr ? Shortlist::kNear * limit_us : limit_us;
        auto cut = CutBy(request, tiling, rows, near_us, spread);
        if (!cut) continue;
        Found found{std::move(*cut), tiling, rows, spread};
        if (shortlist != nullptr) shortlist->Add(found);
        if (found.chosen.cost.step_us >= limit_us) continue;
        best = std::move(found);
        is_better = true;
      }
      if (is_better) {
        worse = 0;
      } else if (std::isfinite(limit_us) && ++worse >= kMaxWorse) {
        break;
      }
    }
  }
  return best;
}

// The one of `best` and `others` with the shortest step when its tasks are placed with more effort;
// its step_us becomes that estimate.
Found BestOf(const CutRequest& request, Found best, std::vector<Found> others) {
  double least_us = best.chosen.cost.step_us;
  for (Found& found : others) {
    if (found.chosen.cost.tasks > kMaxThoroughlyPlaced) continue;
    const double us = StepUsOfPlaced(request, found.chosen.cuts, PlacementEffort::kThorough);
    if (us >= least_us) continue;
    least_us = us;
    best = std::move(found);
  }
  best.chosen.cost.step_us = least_us;
  return best;
}

// Chooses whether the backward pass recomputes values. Boxes and tiles stay the same: they hardly
// depend on it, and trying all combinations would take three times as long.
ChosenCuts ChooseRecompute(const CutRequest& request, Found found) {
  constexpr double kGain = 0.98;  // a smaller gain is below the estimate's error
  for (const Recompute recompute : {Recompute::kElements, Recompute::kBranches}) {
    const LoweredGraph& graph = request.model.TrainingOf(recompute);
    if (graph.nodes().size() == request.model.training.nodes().size()) continue;
    found.tiling.cuts.recompute = recompute;
    const double limit_us = kGain * found.chosen.cost.step_us;
    auto cut = CutBy(request, found.tiling, found.rows, limit_us, found.spread);
    if (cut) found.chosen = std::move(*cut);
  }
  return std::move(found.chosen);
}

// With tasks of half of the memory, the next task can be fetched while one runs. Each additional
// eighth must make the estimated step this much shorter.
constexpr double kLossPerEighth = 0.1;
constexpr std::uint64_t kEighths[] = {4, 6, 8};
// Tried if nothing fits: the size of tiles follows the size of tasks, and smaller tiles may fit
// where larger ones do not. Without these, more memory could fail where less suffices.
constexpr std::uint64_t kFallbackEighths[] = {3, 2, 1};

std::uint64_t EighthsOf(std::uint64_t bytes, std::uint64_t eighths) {
  return bytes / 8 * eighths + bytes % 8 * eighths / 8;
}

// Finds the way to cut that needs the least memory.
class SmallestMemory {
 public:
  explicit SmallestMemory(const CutRequest& request) : request_(request), rows_(RowCuts(request)) {
    request_.budget = &budget_;
  }

  // Any cuts that fit into request.capacity_bytes.
  std::optional<ChosenCuts> CutsThatFit() { return AnyWay(request_.capacity_bytes); }

  // Returns more than request.capacity_bytes; not the least if the search for it would take too
  // long. UINT64_MAX: no memory is enough, because a tuple or a task is larger than the space
  // accepts. REQUIRES: nothing fits into request.capacity_bytes.
  std::uint64_t Find() {
    constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 50;
    std::uint64_t too_little = request_.capacity_bytes;
    std::uint64_t enough = std::max<std::uint64_t>(too_little, 1024);
    do {
      if (enough > kMaxBytes) return UINT64_MAX;
      enough *= 2;
    } while (!AnyWay(enough));
    // Reduces the memory with the way that fits. Where that way ends, another one may continue.
    for (;;) {
      too_little = request_.capacity_bytes;
      while (enough - too_little > 1 && !IsHopeless(request_)) {
        const std::uint64_t middle = too_little + (enough - too_little) / 2;
        (CutsOf(way_, middle) ? enough : too_little) = middle;
      }
      if (enough - 1 == request_.capacity_bytes || IsHopeless(request_)) return enough;
      if (!AnyWay(enough - 1)) return enough;
      --enough;
    }
  }

 private:
  struct Way {
    std::uint64_t eighths = 8;
    RowCut rows;
  };

  std::optional<ChosenCuts> CutsOf(const Way& way, std::uint64_t bytes) const {
    constexpr double kAny = std::numeric_limits<double>::infinity();
    for (const Tiling& tiling : Tilings(request_, EighthsOf(bytes, way.eighths))) {
      if (auto cuts = CutBy(request_, tiling, way.rows, kAny)) return cuts;
    }
    return std::nullopt;
  }
  // The finest rows first, because they need the least memory. Notes the way that fits.
  std::optional<ChosenCuts> AnyWay(std::uint64_t bytes) {
    for (const std::uint64_t eighths : {8, 6, 4, 3, 2, 1}) {
      for (auto rows = rows_.rbegin(); rows != rows_.rend(); ++rows) {
        way_ = {eighths, *rows};
        if (auto cuts = CutsOf(way_, bytes)) return cuts;
      }
    }
    return std::nullopt;
  }

  SearchBudget budget_;
  CutRequest request_;
  const std::vector<RowCut> rows_;
  Way way_;
};

}  // namespace

// The budget if the request has none, which takes about 20 s. For models of up to 7,000 nodes, or
// about 160 transformer blocks, all ways are tried.
constexpr SearchBudget kBudget{.nodes = 4'000'000};

std::optional<ChosenCuts> ChooseCuts(const CutRequest& unbounded,
                                     std::uint64_t* smallest_need_bytes) {
  CutRequest request = unbounded;
  SearchBudget budget = kBudget;
  budget.unfit_work = request.unfit_work;
  if (request.budget == nullptr) request.budget = &budget;
  std::optional<Found> best;
  Shortlist near_best;
  Shortlist* const shortlist = request.network != nullptr ? &near_best : nullptr;
  double best_us = std::numeric_limits<double>::infinity();
  for (const std::uint64_t eighths : kEighths) {
    if (best && IsBudgetSpent(request)) break;
    const double loss = 1 + kLossPerEighth * static_cast<double>(eighths - kEighths[0]);
    auto found =
        ChooseWith(request, EighthsOf(request.capacity_bytes, eighths), best_us / loss, shortlist);
    if (!found) continue;
    best_us = loss * found->chosen.cost.step_us;
    best = std::move(found);
    if (best->chosen.cuts.training.size() == 1) break;  // no segment can be longer
  }
  for (const std::uint64_t eighths : kFallbackEighths) {
    if (best || IsHopeless(request)) break;
    best = ChooseWith(request, EighthsOf(request.capacity_bytes, eighths), best_us, shortlist);
  }
  if (best) {
    if (shortlist != nullptr) {
      best = BestOf(request, std::move(*best), std::move(near_best).Take());
    }
    if (request.recompute || IsBudgetSpent(request)) return std::move(best->chosen);
    return ChooseRecompute(request, std::move(*best));
  }
  if (smallest_need_bytes == nullptr) return std::nullopt;
  SmallestMemory search(request);
  // The search above may have ended before it had tried everything.
  if (IsHopeless(request)) {
    if (auto cuts = search.CutsThatFit()) return cuts;
  }
  *smallest_need_bytes = search.Find();
  return std::nullopt;
}

std::string Summary(const ChosenCuts& chosen, std::int64_t batch) {
  std::size_t tiled = 0;
  RowCut finest{batch, 0};
  for (const Segment& segment : chosen.cuts.training) {
    tiled += segment.by_tiles || segment.in_phases || segment.column_parts > 1 ? 1 : 0;
    finest = FinerOf(finest, segment.rows);
  }
  const std::int64_t samples = std::min(batch, finest.samples);
  const std::string rows = finest.IsWithinSamples()
                               ? fmt::format("{} positions of a sample", finest.positions)
                               : fmt::format("{} sample{}", samples, samples == 1 ? "" : "s");
  const char* again = chosen.cuts.recompute == Recompute::kNothing ? ""
                      : chosen.cuts.recompute == Recompute::kElements
                          ? "; recomputes activations, norms and dropout"
                          : "; recomputes branches";
  return fmt::format(
      "{} segment{}, {} of them in tiles; {} at a time{}; {} tasks per step, which move {:.1f} MB",
      chosen.cuts.training.size(), chosen.cuts.training.size() == 1 ? "" : "s", tiled, rows, again,
      chosen.cost.tasks, static_cast<double>(chosen.cost.moved_bytes) / 1e6);
}

}  // namespace acan
