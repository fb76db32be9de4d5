#include "update_tasks.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <utility>

#include "acan/core/optimizers.h"
#include "part_sums.h"

namespace acan {
namespace {

constexpr Range kNone{0, 0};

// A tile of a parameter, and the tasks' place of the parameter among all.
struct TileOf {
  std::int32_t parameter = 0;
  ParameterTile tile;
  std::int64_t rows() const { return tile.rows.size(); }
  std::int64_t columns() const { return tile.columns.size(); }
  std::uint64_t bytes() const { return 4 * static_cast<std::uint64_t>(rows() * columns()); }
};

// Of a tile's size, to make its gradient of all parts; 0: it is not trained, or there is no batch.
std::uint64_t MatricesOfGradient(const PassContext& context, int value) {
  if (value < 0 || context.pass.rows == 0) return 0;
  const LoweredValue& v = context.Value(value);
  if (v.kind == ValueKind::kSum) {
    return MatricesOfSum(PartBoxesOf(context, v.producer).size());
  }
  std::uint64_t matrices = 0;
  for (const int operand : context.graph.node(v.producer).operands) {
    matrices += MatricesOfGradient(context, operand);
  }
  return matrices;
}

// Tiles that one task makes, in the order of the parameters. Those of a task have room for all parts
// of their gradients: only a tile alone has them added by other tasks first.
std::vector<std::vector<TileOf>> Bundles(const PassContext& context) {
  std::vector<std::vector<TileOf>> bundles;
  std::uint64_t bytes = UINT64_MAX / 2, need = 0;
  const auto parameters = static_cast<std::int32_t>(context.graph.graph().parameters().size());
  for (std::int32_t p = 0; p < parameters; ++p) {
    const std::uint64_t matrices = MatricesBesideSums(context.training) +
                                   MatricesOfGradient(context, context.graph.GradientOf(p));
    for (const ParameterTile& tile : context.Tiles(p)) {
      const TileOf of{p, tile};
      const bool fits = bytes + of.bytes() <= context.cuts.update_bytes &&
                        need + of.bytes() * matrices <= context.cuts.task_bytes;
      if (!fits) {
        bundles.emplace_back();
        bytes = need = 0;
      }
      bundles.back().push_back(of);
      bytes += of.bytes();
      need += of.bytes() * matrices;
    }
  }
  return bundles;
}

class UpdateBuilder {
 public:
  explicit UpdateBuilder(const PassContext& context) : context_(context) {}

  std::vector<PlannedTask> Build() && {
    const std::vector<std::vector<TileOf>> bundles = Bundles(context_);
    for (std::size_t i = 0; i < bundles.size(); ++i) BuildBundle(bundles[i], i);
    return std::move(tasks_);
  }

  // Bundles are of one kind if their tiles have the same shapes and sums.
  std::vector<TaskSample> Sample() && {
    std::vector<TaskSample> samples;
    std::map<std::vector<std::int64_t>, std::pair<std::size_t, std::size_t>> kinds;
    const std::vector<std::vector<TileOf>> bundles = Bundles(context_);
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
        sums.push_back(AssignmentTo(of.parameter) != nullptr ? 1 : 0);
        AddSums(context_.graph.GradientOf(of.parameter), &sums);
      }
      kind.insert(kind.end(), {of.rows(), of.columns()});
      kind.insert(kind.end(), sums.begin(), sums.end());
    }
    return kind;
  }

  // How the sums that a gradient is made of are cut.
  void AddSums(int value, std::vector<std::int64_t>* sums) const {
    if (value < 0) return sums->push_back(-1);
    const LoweredValue& v = context_.Value(value);
    if (v.kind == ValueKind::kShared) {
      for (const int operand : context_.graph.node(v.producer).operands) AddSums(operand, sums);
      return;
    }
    const auto segment = static_cast<std::size_t>(context_.grid.SegmentOf(v.producer));
    const RowCut& rows = context_.segments[segment].rows;
    sums->insert(sums->end(), {rows.samples, rows.positions,
                               context_.Value(context_.ReducedBy(v.producer)).rows});
  }

  void BuildBundle(const std::vector<TileOf>& bundle, std::size_t place) {
    TaskBuilder task(TaskKind::kUpdate, context_.training);
    priority_ = UpdatePriority(context_.pass, static_cast<std::int64_t>(place));
    for (const TileOf& of : bundle) {
      if (const model::Assignment* assignment = AssignmentTo(of.parameter)) {
        Average(task, of, assignment->value);
      } else if (context_.graph.GradientOf(of.parameter) < 0) {
        Keep(task, of);
      } else {
        Update(task, of);
      }
    }
    tasks_.push_back(
        std::move(task).Finish(context_.keys.Task(TaskName::kUpdate, context_.training.precision,
                                                  static_cast<int>(place), kNone, kNone, kNone),
                               priority_ + 2, Layer()));
  }

  int Layer() const { return static_cast<int>(context_.segments.size()); }

  const model::Assignment* AssignmentTo(std::int32_t parameter) const {
    for (const model::Assignment& assignment : context_.graph.graph().assignments()) {
      if (assignment.parameter == parameter) return &assignment;
    }
    return nullptr;
  }

  // The next version of a running statistic, from the batch's sum.
  void Average(TaskBuilder& task, const TileOf& of, int value) {
    const LoweredNode& node = context_.graph.node(context_.Value(value).producer);
    const auto& average = std::get<model::RunningAverage>(node.node->op);
    const int sum = WholeSum(task, context_.graph.SumOfStatistic(node.operands[1]), of);
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
    KeepStates(task, of, 1);
  }

  // The next version of a parameter that is not trained.
  void Keep(TaskBuilder& task, const TileOf& of) { KeepStates(task, of, 0); }

  void KeepStates(TaskBuilder& task, const TileOf& of, std::size_t first) {
    for (const ParameterState state : States().subspan(first)) {
      const int buffer =
          task.Input(context_.TileKeyOf(of.parameter, of.tile, context_.pass.step, state),
                     of.rows(), of.columns());
      task.Put(context_.TileKeyOf(of.parameter, of.tile, context_.pass.step + 1, state),
               task.All(buffer), true);
    }
  }

  // The buffer of the tile of a sum over all rows, or of what is made of some.
  int GradientBuffer(TaskBuilder& task, int value, const TileOf& of) {
    const LoweredValue& v = context_.Value(value);
    const LoweredNode& node = context_.graph.node(v.producer);
    if (v.kind == ValueKind::kShared) {
      assert(std::holds_alternative<model::Add>(node.node->op));
      const int a = GradientBuffer(task, node.operands[0], of);
      const int b = GradientBuffer(task, node.operands[1], of);
      const int out = task.IsInput(a) ? task.Writable(b) : a;
      task.Launch(Kernel::kAdd, {task.All(out), task.All(a), task.All(b)});
      return out;
    }
    return WholeSum(task, value, of);
  }

  int WholeSum(TaskBuilder& task, int value, const TileOf& of) {
    std::vector<SumPart> parts = PartsOfSum(context_, value, of.tile);
    SumNames names;
    names.key = [&](const Range& place) { return context_.SumKey(value, place, of.tile); };
    names.task_key = [&](const Range& place) {
      return context_.keys.Task(TaskName::kGradientSum, context_.training.precision, value,
                                of.tile.rows, of.tile.columns, place);
    };
    names.priority = priority_;
    names.layer = Layer();
    names.sums = static_cast<std::uint64_t>(
        std::max<std::int64_t>(1, SumsOfGradient(context_.graph, of.parameter)));
    parts = ReduceParts(context_, std::move(parts), of.rows(), of.columns(), names, &tasks_);
    return SumOfParts(task, parts, of.rows(), of.columns());
  }

  void Update(TaskBuilder& task, const TileOf& of) {
    const int gradient = GradientBuffer(task, context_.graph.GradientOf(of.parameter), of);
    std::vector<int> before;
    std::vector<int> after;
    for (const ParameterState state : States()) {
      before.push_back(
          task.Input(context_.TileKeyOf(of.parameter, of.tile, context_.pass.step, state),
                     of.rows(), of.columns()));
      // The new values take the gradient's place: it is read before they are written.
      const bool value = state == ParameterState::kValue;
      after.push_back(value ? task.Writable(gradient) : task.NewBuffer(of.rows(), of.columns()));
    }
    std::vector<View> views;
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
  std::int64_t priority_ = 0;
  std::vector<PlannedTask> tasks_;
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
  const std::vector<std::vector<TileOf>> bundles = Bundles(context);
  for (std::size_t i = 0; i < bundles.size(); ++i) {
    TaskBuilder task(TaskKind::kInitialize, context.training);
    for (const TileOf& of : bundles[i]) {
      const model::Parameter& parameter = context.ParameterOf(of.parameter);
      for (const ParameterState state : StatesOf(StateCount(context.training.optimizer))) {
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
    tasks.push_back(std::move(task).Finish(
        context.keys.Task(TaskName::kInitialize, context.training.precision, static_cast<int>(i),
                          kNone, kNone, kNone),
        static_cast<std::int64_t>(i), static_cast<int>(context.segments.size())));
  }
  return tasks;
}

}  // namespace acan
