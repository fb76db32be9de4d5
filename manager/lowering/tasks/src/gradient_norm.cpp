#include "gradient_norm.h"

#include <cassert>
#include <utility>

#include "parameter_gradients.h"
#include "part_sums.h"

namespace acan {
namespace {

constexpr Range kNoRange{0, 0};
constexpr std::int64_t kOneGroup = std::int64_t{1} << 30;  // more than the rows of any tile
constexpr float kEpsilon = 1e-6f;                          // as in PyTorch, added to the norm
constexpr std::int32_t kAllParameters = -1;

class NormBuilder {
 public:
  explicit NormBuilder(const PassContext& context) : context_(context), sums_(context, &tasks_) {}

  std::vector<PlannedTask> Build() && {
    const auto trained = [this](std::int32_t p) { return context_.graph.GradientOf(p) >= 0; };
    const std::vector<std::vector<TileOf>> bundles = Bundles(context_, trained);
    for (std::size_t i = 0; i < bundles.size(); ++i) BuildSquares(bundles[i], i);
    const auto parameters = static_cast<std::int32_t>(context_.graph.graph().parameters().size());
    std::vector<SumPart> parts;
    for (std::int32_t p = 0; p < parameters; ++p) {
      if (!trained(p)) continue;
      const std::int64_t place = static_cast<std::int64_t>(parts.size()) * context_.cuts.block;
      parts.push_back({{place, place + context_.cuts.block}, SumOfParameter(p)});
    }
    BuildFactor(std::move(parts));
    return std::move(tasks_);
  }

 private:
  // Of elements [rows, columns] of a parameter: the key of their sum, or of each row's sum.
  tuplespace::Key SquaresKey(std::int32_t parameter, const Range& rows,
                             const Range& columns) const {
    return context_.keys.Box(StepTuple::kSquaresPart, parameter, kNoRange, rows, columns);
  }
  Range AllColumns(std::int32_t parameter) const {
    return {0, context_.ParameterOf(parameter).columns};
  }

  // Adds the squares of some tiles. Their gradients become whole in the process.
  void BuildSquares(const std::vector<TileOf>& bundle, std::size_t place) {
    TaskBuilder task(TaskKind::kUpdate, context_.training);
    const std::int64_t priority = UpdatePriority(context_.pass, 0);
    for (const TileOf& of : bundle) {
      const int gradient =
          sums_.Buffer(task, context_.graph.GradientOf(of.parameter), of, priority);
      const WholeGradient whole = WholeGradientOf(context_, of);
      if (!whole.is_made) task.Put(whole.key, task.All(gradient));
      assert(of.tile.columns.begin % kLaneLeafColumns == 0);
      const View squares = task.All(task.NewBuffer(of.rows(), 1));
      task.Launch(Kernel::kRowSquares, {squares, task.All(gradient)});
      const bool all_columns = of.tile.columns == AllColumns(of.parameter);
      task.Put(SquaresKey(of.parameter, of.tile.rows, of.tile.columns),
               all_columns ? SumOfRows(task, squares) : squares);
    }
    Add(std::move(task), TaskName::kSquares, static_cast<std::int32_t>(place), kNoRange, kNoRange);
  }

  View SumOfRows(TaskBuilder& task, const View& squares) const {
    const View sum = task.All(task.NewBuffer(1, 1));
    KernelScalars order;
    order.i = {context_.cuts.block, kOneGroup};
    task.Launch(Kernel::kColumnDots, {sum, squares, View{}}, order);
    return sum;
  }

  // Makes the parameter's sum of squares; returns its key.
  tuplespace::Key SumOfParameter(std::int32_t parameter) {
    std::vector<SumPart> rows;
    const std::vector<ParameterTile> tiles = context_.Tiles(parameter);
    for (std::size_t i = 0; i < tiles.size();) {
      const Range of_rows = tiles[i].rows;
      std::vector<SumPart> columns;
      for (; i < tiles.size() && tiles[i].rows == of_rows; ++i) {
        columns.push_back({tiles[i].columns, SquaresKey(parameter, of_rows, tiles[i].columns)});
      }
      rows.push_back({of_rows, SumAlongColumns(parameter, of_rows, std::move(columns))});
    }
    if (rows.size() == 1) return rows.front().key;
    const Range all{0, context_.ParameterOf(parameter).rows}, columns = AllColumns(parameter);
    SumNames names = NamesOf(parameter, columns);
    names.key = [&](const Range& range) { return SquaresKey(parameter, range, columns); };
    rows = ReduceParts(context_, std::move(rows), 1, 1, names, &tasks_);
    TaskBuilder task(TaskKind::kUpdate, context_.training);
    task.Put(SquaresKey(parameter, all, columns), task.All(SumOfParts(task, rows, 1, 1)));
    Add(std::move(task), TaskName::kSquaresSum, parameter, columns, all);
    return SquaresKey(parameter, all, columns);
  }

  // Adds the sums of some rows over all columns; returns the key.
  tuplespace::Key SumAlongColumns(std::int32_t parameter, const Range& rows,
                                  std::vector<SumPart> parts) {
    const Range all = AllColumns(parameter);
    if (parts.size() == 1) return SquaresKey(parameter, rows, all);
    SumNames names = NamesOf(parameter, rows);
    names.key = [&](const Range& range) { return SquaresKey(parameter, rows, range); };
    parts = ReduceParts(context_, std::move(parts), rows.size(), 1, names, &tasks_);
    TaskBuilder task(TaskKind::kUpdate, context_.training);
    const View squares = task.All(SumOfParts(task, parts, rows.size(), 1));
    task.Put(SquaresKey(parameter, rows, all), SumOfRows(task, squares));
    Add(std::move(task), TaskName::kSquaresSum, parameter, rows, all);
    return SquaresKey(parameter, rows, all);
  }

  void BuildFactor(std::vector<SumPart> parts) {
    SumNames names = NamesOf(kAllParameters, kNoRange);
    names.key = [&](const Range& range) { return SquaresKey(kAllParameters, kNoRange, range); };
    parts = ReduceParts(context_, std::move(parts), 1, 1, names, &tasks_);
    TaskBuilder task(TaskKind::kUpdate, context_.training);
    const View squares = task.All(SumOfParts(task, parts, 1, 1));
    const View factor = task.All(task.NewBuffer(1, 1));
    KernelScalars clip;
    clip.f = {static_cast<float>(context_.training.clip_norm), kEpsilon};
    task.Launch(Kernel::kClipFactor, {factor, squares}, clip);
    task.Put(context_.keys.Batch(StepTuple::kGradientNorm), squares);
    task.Put(context_.keys.Batch(StepTuple::kClipFactor), factor);
    Add(std::move(task), TaskName::kClipFactor, kAllParameters, kNoRange, kNoRange);
  }

  tuplespace::Key TaskKey(TaskName name, std::int32_t of, const Range& a, const Range& b) const {
    return context_.keys.Task(name, context_.training.precision, of, kNoRange, a, b);
  }
  SumNames NamesOf(std::int32_t parameter, const Range& across) const {
    SumNames names;
    names.task_key = [this, parameter, across](const Range& range) {
      return TaskKey(TaskName::kSquaresSum, parameter, across, range);
    };
    names.priority = UpdatePriority(context_.pass, 0);
    names.segment = context_.SegmentOfUpdates();
    names.beside = MatricesBesideSums(context_.training);
    return names;
  }
  void Add(TaskBuilder&& task, TaskName name, std::int32_t of, const Range& a, const Range& b) {
    tasks_.push_back(std::move(task).Finish(TaskKey(name, of, a, b),
                                            UpdatePriority(context_.pass, 0) + 1,
                                            context_.SegmentOfUpdates()));
  }

  const PassContext& context_;
  std::vector<PlannedTask> tasks_;
  const TileSums sums_;
};

}  // namespace

std::vector<PlannedTask> GradientNormTasks(const PassContext& context) {
  assert(context.training.clip_norm > 0);
  return NormBuilder(context).Build();
}

}  // namespace acan
