#include "acan/manager/plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "cuts.h"
#include "fmt/format.h"
#include "graph_plan.h"
#include "perceptron_tasks.h"

namespace acan {
namespace {

// Boxes are not halved merely to have more of them if a half would take less time than this many
// times what a task costs beside its computing. Half of it is hidden, as the next task's messages
// travel while one is computed; below that, the broker and the manager are what everybody waits
// for.
constexpr double kWorthwhileOverheads = 0.5;
constexpr double kSpeedThatMatters = 0.9;  // share of all speed that the plan is made for
constexpr double kUnequal = 2;             // fastest over slowest; below, it may be noise
constexpr double kMostShares = 1e6;
// Where a layer ends, all wait for whoever took the last boxes. So there should be two for each
// worker, and with unequal handlers the slowest one should need no more than a sixteenth of a
// layer's time for a box; if boxes that small are still worth it: so many times what a task costs,
// which prefetching then hides whole.
constexpr double kBoxesOfEqual = 2;
constexpr double kBoxesOfSlowest = 16;
constexpr double kWorthwhileForBalance = 10;
// A layer with so many times less work than its neighbour gets no boxes for balance unless handlers
// are unequal: little waits for it, and the neighbour's tasks may have to put its pieces together.
constexpr std::int64_t kLittleWork = 4;

class Planner {
 public:
  explicit Planner(const PlanRequest& request) : request_(request), cuts_(request) {}

  // Cuts until every task needs at most `task_bytes`, and the space takes all its tuples. False if
  // it cannot be; largest_need_bytes of the plan is then that of boxes that cannot be smaller.
  bool Fit(std::uint64_t task_bytes, Plan* plan);

 private:
  std::int64_t block() const { return request_.training.block; }
  std::size_t layer_count() const { return limits_.size(); }
  std::int64_t OutputSpan(std::size_t l) const {
    return cuts_.OutputSpan(static_cast<int>(l), levels_[l]);
  }
  std::int64_t InputSpan(std::size_t l) const {
    return cuts_.InputSpan(static_cast<int>(l), levels_[l]);
  }
  std::int64_t BatchSpan(std::size_t l) const {
    return std::min(block() << levels_[l].batch, request_.training.batch);
  }
  std::int64_t Weights(std::size_t l) const {
    const int layer = static_cast<int>(l);
    return request_.model.outputs(layer) * request_.model.inputs(layer);
  }
  void Start();
  void CutToSize();
  bool Cut(std::size_t l, CutLimits limits);
  bool HalveWeights(std::size_t l);
  bool NarrowWeights(std::size_t l);
  void HalveBatch(std::size_t l);
  bool HalveForNeed(std::size_t l, TaskKind kind);
  std::uint64_t LeastNeed(std::size_t l) const;
  void CutToLeastNeed(std::uint64_t task_bytes);
  bool IsTooLarge(const PlannedTask& task, std::uint64_t task_bytes) const;
  bool IsLittle(std::size_t l) const;
  bool WantsMoreBoxes(std::size_t l) const;
  void AddParallelism();
  double FlopsOfTwo(double overheads) const;
  Plan FromLevels(std::uint64_t task_bytes) const;

  const PlanRequest& request_;
  const Cuts cuts_;
  std::vector<CutLimits> limits_;
  std::vector<Levels> levels_;  // always cuts_.Choose(limits_)
};

void Planner::Start() {
  limits_.assign(static_cast<std::size_t>(request_.model.layer_count()), CutLimits());
  for (CutLimits& limits : limits_) {
    limits.batch_level = RootLevel(request_.training.batch, block());
    while (request_.batch_rows && limits.batch_level > 0 &&
           block() << limits.batch_level > *request_.batch_rows) {
      --limits.batch_level;
    }
  }
  levels_ = cuts_.Choose(limits_);
  if (request_.size_bytes) CutToSize();
}

// Until no tile is larger than the job says. To halve one layer may turn another's tiles, and at
// the end of an axis a turned one may be larger.
void Planner::CutToSize() {
  for (bool halved = true; halved;) {
    halved = false;
    for (std::size_t l = 0; l < layer_count(); ++l) {
      while (4 * static_cast<std::uint64_t>(OutputSpan(l) * InputSpan(l)) > *request_.size_bytes &&
             HalveWeights(l)) {
        halved = true;
      }
    }
  }
}

bool Planner::Cut(std::size_t l, CutLimits limits) {
  if (!cuts_.Possible(static_cast<int>(l), limits)) return false;
  limits_[l] = limits;
  levels_ = cuts_.Choose(limits_);
  return true;
}

bool Planner::HalveWeights(std::size_t l) {
  CutLimits limits = limits_[l];
  ++limits.halvings;
  return Cut(l, limits);
}

// What a task needs besides its tile are the tile's edges along the batch: of tiles of one size the
// square ones need least.
bool Planner::NarrowWeights(std::size_t l) {
  CutLimits limits = limits_[l];
  limits.most_span = OutputSpan(l) + InputSpan(l) - 1;
  if (Cut(l, limits)) return true;
  ++limits.halvings;
  return Cut(l, limits);
}

void Planner::HalveBatch(std::size_t l) {
  CutLimits limits = limits_[l];
  --limits.batch_level;
  Cut(l, limits);
}

// Halves what makes a task large: its weights, or the samples that it covers.
bool Planner::HalveForNeed(std::size_t l, TaskKind kind) {
  const std::int64_t widest = std::max(OutputSpan(l), InputSpan(l));
  // Cutting the batch costs more than cutting the weights: every gradient then comes in parts.
  const bool by_weights = BatchSpan(l) <= 2 * widest && kind != TaskKind::kLoss;
  if (by_weights && NarrowWeights(l)) return true;
  if (limits_[l].batch_level > 0) {
    HalveBatch(l);
    return true;
  }
  return NarrowWeights(l);
}

// No task that updates a tile needs less: a box of activations, one of deltas, the gradient and the
// weights; or, where gradients come in parts, two parts and the weights.
std::uint64_t Planner::LeastNeed(std::size_t l) const {
  const std::int64_t outputs = OutputSpan(l), inputs = InputSpan(l), rows = BatchSpan(l);
  const std::int64_t tile = outputs * inputs;
  const std::int64_t edges = rows * (outputs + inputs);
  const bool in_parts = rows < request_.training.batch;
  return 4 *
         static_cast<std::uint64_t>(in_parts ? std::max(edges + tile, 3 * tile) : edges + 2 * tile);
}

// Most of the cutting for handlers with little memory, without all the tasks of each attempt.
void Planner::CutToLeastNeed(std::uint64_t task_bytes) {
  for (std::size_t l = 0; l < layer_count(); ++l) {
    while (LeastNeed(l) > task_bytes && HalveForNeed(l, TaskKind::kUpdate)) {
    }
  }
}

// Of the tuples that it reads and makes, too.
bool Planner::IsTooLarge(const PlannedTask& task, std::uint64_t task_bytes) const {
  const auto too_large = [&](std::int64_t rows, std::int64_t cols) {
    return 4 * static_cast<std::uint64_t>(rows * cols) > request_.tuple_bytes;
  };
  const Task& t = task.task;
  return NeedBytes(t) > task_bytes || task.inputs.size() > request_.task_inputs ||
         std::any_of(t.pieces.begin(), t.pieces.end(),
                     [&](const Piece& piece) { return too_large(piece.rows, piece.cols); }) ||
         std::any_of(t.outputs.begin(), t.outputs.end(), [&](const Output& output) {
           return too_large(output.view.rows, output.view.cols);
         });
}

// The operations of two boxes that each take `overheads` times as long as a task costs.
double Planner::FlopsOfTwo(double overheads) const {
  return 2 * GflopsOf(request_) * 1e3 * OverheadUsOf(request_) * overheads;
}

// Whether a neighbour has so much more work that what this layer's boxes leave idle is not missed.
bool Planner::IsLittle(std::size_t l) const {
  const auto much_work = [&](std::size_t other) {
    return kLittleWork * Weights(l) <= Weights(other);
  };
  return (l > 0 && much_work(l - 1)) || (l + 1 < layer_count() && much_work(l + 1));
}

// Boxes for all workers; and more, if they take so long that who has none would wait for long: two
// for each, many for unequal ones.
bool Planner::WantsMoreBoxes(std::size_t l) const {
  const auto layer = static_cast<int>(l);
  const auto boxes = static_cast<double>(cuts_.OutputParts(layer, levels_[l]) *
                                         cuts_.InputParts(layer, levels_[l]));
  const double flops = 2.0 * static_cast<double>(OutputSpan(l) * InputSpan(l) * BatchSpan(l));
  const double workers = request_.handlers.workers;
  const double for_balance = std::max(kBoxesOfSlowest * request_.handlers.slowest_share,
                                      IsLittle(l) ? 0 : kBoxesOfEqual * workers);
  if (boxes < for_balance && flops >= FlopsOfTwo(kWorthwhileForBalance)) return true;
  return boxes < workers && flops >= FlopsOfTwo(kWorthwhileOverheads);
}

// As long as boxes are worth a task. Layers with much work first, as others go by them.
void Planner::AddParallelism() {
  if (request_.size_bytes) return;
  std::vector<std::size_t> order(layer_count());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return Weights(a) > Weights(b); });
  for (const std::size_t l : order) {
    while (WantsMoreBoxes(l) && HalveWeights(l)) {
    }
  }
}

Plan Planner::FromLevels(std::uint64_t task_bytes) const {
  Plan plan;
  plan.block = block();
  plan.batch = request_.training.batch;
  plan.task_bytes = task_bytes;
  for (std::size_t l = 0; l < levels_.size(); ++l) {
    LayerPlan layer;
    const std::int64_t outputs = request_.model.outputs(static_cast<int>(l));
    for (const Range& o : NodesOfLevel(outputs, block(), levels_[l].outputs)) {
      layer.rows.push_back({o, levels_[l].outputs, levels_[l].inputs, levels_[l].batch});
    }
    plan.layers.push_back(std::move(layer));
  }
  return plan;
}

bool Planner::Fit(std::uint64_t task_bytes, Plan* plan) {
  Start();
  AddParallelism();
  CutToLeastNeed(task_bytes);
  Pass pass;
  pass.job = "plan";
  pass.rows = request_.training.batch;
  for (;;) {
    *plan = FromLevels(task_bytes);
    const PerceptronTasks graph(request_.model, request_.training, *plan);
    std::vector<PlannedTask> tasks = graph.Tasks(pass);
    plan->tasks_per_step = static_cast<std::int64_t>(tasks.size());
    for (PlannedTask& task : graph.Initialize(pass.job)) tasks.push_back(std::move(task));
    // All layers at once: each attempt makes all tasks again.
    std::vector<const PlannedTask*> too_large(layer_count(), nullptr);  // the largest of each layer
    plan->largest_need_bytes = 0;
    for (const PlannedTask& task : tasks) {
      plan->largest_need_bytes = std::max(plan->largest_need_bytes, NeedBytes(task.task));
      const PlannedTask*& largest = too_large[static_cast<std::size_t>(task.layer)];
      if (IsTooLarge(task, task_bytes) &&
          (largest == nullptr || NeedBytes(largest->task) < NeedBytes(task.task))) {
        largest = &task;
      }
    }
    bool fits = true;
    for (std::size_t l = 0; l < layer_count(); ++l) {
      if (too_large[l] == nullptr) continue;
      fits = false;
      plan->largest_need_bytes = NeedBytes(too_large[l]->task);
      if (!HalveForNeed(l, too_large[l]->task.kind)) return false;
    }
    if (fits) return true;
  }
}

}  // namespace

HandlerShares SharesOf(std::vector<double> gflops, int threads) {
  HandlerShares shares;
  shares.workers = std::max(1, threads);
  if (gflops.empty()) return shares;
  double total = 0;
  for (double& speed : gflops) total += speed = std::max(speed, 1e-9);
  std::sort(gflops.begin(), gflops.end(), std::greater<>());
  double sum = 0;
  std::size_t slowest = 0;
  while (slowest + 1 < gflops.size() && sum + gflops[slowest] < kSpeedThatMatters * total) {
    sum += gflops[slowest++];
  }
  const auto workers =
      static_cast<int>(std::lround(std::min(total / gflops[slowest], kMostShares)));
  shares.workers = std::max(shares.workers, workers);
  shares.gflops = total / shares.workers;
  if (gflops.front() >= kUnequal * gflops.back()) {
    shares.slowest_share = std::min(total / gflops.back(), kMostShares);
  }
  return shares;
}

int Plan::FeatureCellLevel(const Model& model, int boundary) const {
  int level = INT32_MAX;
  if (boundary < model.layer_count()) {
    for (const TileRow& row : layers[static_cast<std::size_t>(boundary)].rows) {
      level = std::min(level, row.input_level);
    }
  }
  if (boundary > 0) {
    for (const TileRow& row : layers[static_cast<std::size_t>(boundary) - 1].rows) {
      level = std::min(level, row.output_level);
    }
  }
  return level;
}

int Plan::BatchCellLevel() const {
  int level = INT32_MAX;
  for (const LayerPlan& layer : layers) {
    for (const TileRow& row : layer.rows) level = std::min(level, row.batch_level);
  }
  return level;
}

std::string Plan::Summary() const {
  if (graph) return graph_summary;
  std::string text;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const TileRow& row = layers[l].rows.front();
    text += fmt::format("{}layer {}: {} rows of tiles of [{}, <= {}]", l == 0 ? "" : "; ", l,
                        layers[l].rows.size(), row.outputs.size(), block << row.input_level);
    if ((block << row.batch_level) < batch)
      text += fmt::format(" x {} samples", block << row.batch_level);
  }
  return text;
}

std::optional<Plan> MakePlan(const PlanRequest& request, std::uint64_t* smallest_need_bytes) {
  if (request.graphs) return MakeGraphPlan(request, smallest_need_bytes);
  Planner planner(request);
  std::optional<Plan> best;
  double best_cost = 0;
  Plan plan;
  for (const int eighths : {4, 5, 6, 7, 8}) {
    const std::uint64_t task_bytes =
        request.capacity_bytes / 8 * static_cast<std::uint64_t>(eighths);
    if (!planner.Fit(task_bytes, &plan)) continue;
    // Fewer tasks are less overhead; but where two do not fit, none is fetched while one runs.
    const double cost = static_cast<double>(plan.tasks_per_step) * (1.0 + 0.1 * (eighths - 4));
    if (best && cost >= best_cost) continue;
    best = plan;
    best_cost = cost;
  }
  if (!best && smallest_need_bytes != nullptr) *smallest_need_bytes = plan.largest_need_bytes;
  return best;
}

}  // namespace acan
