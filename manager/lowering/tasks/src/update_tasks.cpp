#include "update_tasks.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <utility>

#include "acan/core/optimizers.h"
#include "gradient_norm.h"
#include "parameter_gradients.h"

namespace acan {
namespace {

constexpr Range kNothing{0, 0};

class UpdateBuilder {
 public:
  explicit UpdateBuilder(const PassContext& context) : context_(context), sums_(context, &tasks_) {}

  std::vector<PlannedTask> Build() && {
    if (Clips()) tasks_ = GradientNormTasks(context_);
    const std::vector<std::vector<TileOf>> bundles = NotFrozen();
    tasks_.reserve(tasks_.size() + bundles.size());
    for (std::size_t i = 0; i < bundles.size(); ++i) BuildBundle(bundles[i], i);
    return std::move(tasks_);
  }

  // Bundles whose tiles have the same shapes and sums are of one kind.
  std::vector<TaskSample> Sample() && {
    std::vector<TaskSample> samples;
    if (Clips()) {
      for (PlannedTask& task : GradientNormTasks(context_)) samples.push_back({std::move(task), 1});
    }
    std::map<std::vector<std::int64_t>, std::pair<std::size_t, std::size_t>> kinds;
    const std::vector<std::vector<TileOf>> bundles = NotFrozen();
    for (std::size_t i = 0; i < bundles.size(); ++i) {
      const auto [kind, is_new] =
          kinds.try_emplace(KindOf(bundles[i]), std::pair(samples.size(), samples.size()));
      auto& [first, end] = kind->second;
      if (is_new) {
        BuildBundle(bundles[i], i);
        for (PlannedTask& task : tasks_) samples.push_back({std::move(task), 0});
        tasks_.clear();
        end = samples.size();
      }
      for (std::size_t s = first; s < end; ++s) ++samples[s].count;
    }
    return samples;
  }

 private:
  std::vector<std::int64_t> KindOf(const std::vector<TileOf>& bundle) {
    std::vector<std::int64_t> kind;
    for (const TileOf& of : bundle) {
      std::vector<std::int64_t>& sums = sums_of_[of.parameter];
      if (sums.empty()) {
        sums.push_back(AssignedTo(of.parameter) != model::kNoValue ? 1 : 0);
        AddSums(SumForUpdate(context_.graph, of.parameter), &sums);
      }
      kind.insert(kind.end(), {of.rows(), of.columns()});
      kind.insert(kind.end(), sums.begin(), sums.end());
      AddCells(SumForUpdate(context_.graph, of.parameter), of, &kind);
    }
    return kind;
  }

  // Appends how the sums of a gradient, or the sum of a running statistic, are cut.
  void AddSums(int value, std::vector<std::int64_t>* sums) const {
    if (value < 0) return sums->push_back(-1);
    const LoweredValue& v = context_.Value(value);
    if (v.kind == ValueKind::kShared) {
      for (const int operand : context_.graph.node(v.producer).operands) AddSums(operand, sums);
      return;
    }
    const auto segment = static_cast<std::size_t>(context_.grid.SegmentOf(v.producer));
    const RowCut& rows = context_.segments[segment].rows;
    sums->push_back(context_.segments[segment].in_updates ? 1 : 0);
    sums->push_back(IsPositionsGradient(context_.graph, v.producer) ? 1 : 0);
    sums->insert(sums->end(), {rows.samples, rows.positions,
                               context_.Value(context_.ReducedBy(v.producer)).rows});
  }

  // Appends the numbers of cells read by sums that only update tasks compute.
  void AddCells(int value, const TileOf& of, std::vector<std::int64_t>* cells) const {
    if (value < 0) return;
    const LoweredValue& v = context_.Value(value);
    const LoweredNode& node = context_.graph.node(v.producer);
    if (v.kind == ValueKind::kShared) {
      for (const int operand : node.operands) AddCells(operand, of, cells);
    } else if (IsComputedByUpdates(context_, value)) {
      for (const auto& [operand, columns] : OperandsOfSum(node, of.tile)) {
        cells->push_back(CellsOfBatch(context_, operand, columns));
      }
    }
  }

  std::vector<std::vector<TileOf>> NotFrozen() const {
    return Bundles(context_, [this](std::int32_t p) { return !context_.ParameterOf(p).frozen; });
  }

  bool Clips() const { return context_.training.clip_norm > 0; }

  void BuildBundle(const std::vector<TileOf>& bundle, std::size_t place) {
    TaskBuilder task(TaskKind::kUpdate, context_.training);
    factor_ = View{};
    preferred_bytes_ = 0;
    priority_ = UpdatePriority(context_.pass, static_cast<std::int64_t>(place));
    for (const TileOf& of : bundle) {
      if (const model::ValueId value = AssignedTo(of.parameter); value != model::kNoValue) {
        Average(task, of, value);
      } else if (context_.graph.GradientOf(of.parameter) < 0) {
        Keep(task, of);
      } else {
        Update(task, of);
      }
    }
    tasks_.push_back(std::move(task).Finish(
        context_.keys.Task(TaskName::kUpdate, context_.training.precision, static_cast<int>(place),
                           kNothing, kNothing, kNothing),
        priority_ + 2, context_.SegmentOfUpdates()));
  }

  model::ValueId AssignedTo(std::int32_t parameter) const {
    return context_.graph.graph().AssignedTo(parameter);
  }

  // The next version of a running statistic, from the batch's sum.
  void Average(TaskBuilder& task, const TileOf& of, int value) {
    const LoweredNode& node = context_.graph.node(context_.Value(value).producer);
    const auto& average = std::get<model::RunningAverage>(node.node->op);
    const int sum =
        sums_.SumBuffer(task, SumForUpdate(context_.graph, of.parameter), of, priority_);
    const std::int64_t rows = context_.pass.rows * average.positions;
    const bool unbiased = average.correction == model::Correction::kUnbiased && rows > 1;
    const int mean = task.Writable(sum);
    KernelScalars divisor;
    divisor.f[0] = static_cast<float>(unbiased ? rows - 1 : rows);
    task.Launch(Kernel::kDivide, {task.All(mean), task.All(sum)}, divisor);
    const int running = task.Input(context_.TileKeyOf(of.parameter, of.tile, context_.pass.step),
                                   of.rows(), of.columns());
    KernelScalars blend;
    blend.f = {1.0f - average.momentum, average.momentum};
    task.Launch(Kernel::kBlend, {task.All(mean), task.All(running), task.All(mean)}, blend);
    task.Put(context_.TileKeyOf(of.parameter, of.tile, context_.pass.step + 1), task.All(mean),
             true);
  }

  // Puts the next version of a parameter on which the loss does not depend: it is unchanged.
  void Keep(TaskBuilder& task, const TileOf& of) {
    for (const ParameterState state : context_.MatricesOf(of.parameter)) {
      const int buffer =
          task.Input(context_.TileKeyOf(of.parameter, of.tile, context_.pass.step, state),
                     of.rows(), of.columns());
      task.Put(context_.TileKeyOf(of.parameter, of.tile, context_.pass.step + 1, state),
               task.All(buffer), true);
    }
  }

  // The gradient multiplied by the factor that clips all gradients.
  int ClippedGradient(TaskBuilder& task, const TileOf& of) {
    if (factor_.buffer < 0) {
      factor_ = task.All(task.Input(context_.keys.Batch(StepTuple::kClipFactor), 1, 1));
    }
    const int gradient = task.Input(WholeGradientOf(context_, of).key, of.rows(), of.columns());
    const int clipped = task.NewBuffer(of.rows(), of.columns());
    task.Launch(Kernel::kScaleBy, {task.All(clipped), task.All(gradient), factor_});
    return clipped;
  }

  void Update(TaskBuilder& task, const TileOf& of) {
    const int gradient =
        Clips() ? ClippedGradient(task, of)
                : sums_.Buffer(task, context_.graph.GradientOf(of.parameter), of, priority_);
    std::vector<int> before;
    std::vector<int> after;
    before.reserve(States().size());
    after.reserve(States().size());
    for (const ParameterState state : States()) {
      before.push_back(
          task.Input(context_.TileKeyOf(of.parameter, of.tile, context_.pass.step, state),
                     of.rows(), of.columns()));
      // The new value is written in place of the gradient, which is read before.
      const bool value = state == ParameterState::kValue;
      after.push_back(value ? task.Writable(gradient) : task.NewBuffer(of.rows(), of.columns()));
    }
    // The handler that holds the tile makes its next version, so tiles stay where they are.
    if (of.bytes() > preferred_bytes_) {
      preferred_bytes_ = of.bytes();
      task.SetAffinity(before.front());
    }
    std::vector<View> views;
    views.reserve(after.size() + before.size() + 1);
    for (const int buffer : after) views.push_back(task.All(buffer));
    for (const int buffer : before) views.push_back(task.All(buffer));
    views.push_back(task.All(gradient));
    const bool decays = context_.ParameterOf(of.parameter).decayed;
    task.Launch(RowOf(context_.training.optimizer).kernel, std::move(views),
                decays ? context_.pass.optimizer : context_.pass.optimizer_without_decay);
    for (std::size_t i = 0; i < after.size(); ++i) {
      task.Put(context_.TileKeyOf(of.parameter, of.tile, context_.pass.step + 1, States()[i]),
               task.All(after[i]), true);
    }
  }

  std::span<const ParameterState> States() const {
    return StatesOf(StateCount(context_.training.optimizer));
  }

  const PassContext& context_;
  std::vector<PlannedTask> tasks_;
  const TileSums sums_;
  // Of the current task.
  std::int64_t priority_ = 0;
  View factor_;
  std::uint64_t preferred_bytes_ = 0;  // of the tile whose holder is preferred
  std::map<std::int32_t, std::vector<std::int64_t>> sums_of_;  // parameters, for KindOf
};

// Draws a tile of the first version of a parameter.
struct Drawer {
  TaskBuilder& task;
  View tile;
  std::int64_t seed;
  std::int32_t parameter;
  const TileOf& of;
  std::int64_t width;  // columns of the parameter

  void operator()(const model::Constant& constant) const {
    KernelScalars scalars;
    scalars.f[0] = constant.value;
    task.Launch(Kernel::kFill, {tile}, scalars);
  }
  void operator()(const model::Uniform& uniform) const {
    task.Launch(Kernel::kUniform, {tile}, Place({uniform.low, uniform.high}));
  }
  void operator()(const model::Normal& normal) const {
    task.Launch(Kernel::kNormal, {tile}, Place({normal.mean, normal.deviation}));
  }
  void operator()(const model::TruncatedNormal& normal) const {
    task.Launch(Kernel::kTruncatedNormal, {tile},
                Place({normal.mean, normal.deviation, normal.low, normal.high}));
  }

 private:
  KernelScalars Place(std::initializer_list<float> floats) const {
    KernelScalars scalars;
    std::copy(floats.begin(), floats.end(), scalars.f.begin());
    scalars.i = {seed, parameter, of.tile.rows.begin, of.tile.columns.begin, width};
    return scalars;
  }
};

}  // namespace

std::vector<PlannedTask> UpdateTasks(const PassContext& context) {
  return UpdateBuilder(context).Build();
}

std::vector<TaskSample> SampleUpdates(const PassContext& context) {
  return UpdateBuilder(context).Sample();
}

std::vector<PlannedTask> InitializeTasks(const PassContext& context) {
  std::vector<PlannedTask> tasks;
  const std::vector<std::vector<TileOf>> bundles =
      Bundles(context, [](std::int32_t) { return true; });
  for (std::size_t i = 0; i < bundles.size(); ++i) {
    TaskBuilder task(TaskKind::kInitialize, context.training);
    for (const TileOf& of : bundles[i]) {
      const model::Parameter& parameter = context.ParameterOf(of.parameter);
      for (const ParameterState state : context.MatricesOf(of.parameter)) {
        const View tile = task.All(task.NewBuffer(of.rows(), of.columns()));
        if (state == ParameterState::kValue) {
          std::visit(Drawer{task, tile, static_cast<std::int64_t>(context.training.seed),
                            of.parameter, of, parameter.columns},
                     parameter.initial);
        } else {
          task.Launch(Kernel::kFill, {tile});
        }
        task.Put(context.TileKeyOf(of.parameter, of.tile, 0, state), tile, true);
      }
    }
    tasks.push_back(
        std::move(task).Finish(context.keys.Task(TaskName::kInitialize, context.training.precision,
                                                 static_cast<int>(i), kNothing, kNothing, kNothing),
                               static_cast<std::int64_t>(i), context.SegmentOfUpdates()));
  }
  return tasks;
}

}  // namespace acan
