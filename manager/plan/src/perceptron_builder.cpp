#include "perceptron_builder.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <span>

namespace acan {

using tuplespace::Key;

namespace {

constexpr Range kNone{0, 0};
constexpr std::int64_t kStepPriority = 1'000'000;

}  // namespace

PerceptronBuilder::PerceptronBuilder(const Model& model, const Training& training, const Plan& plan,
                                     const Pass& pass)
    : model_(model),
      training_(training),
      plan_(plan),
      pass_(pass),
      keys_(pass.job, pass.step, pass.batch_id) {}

const std::vector<TileRow>& PerceptronBuilder::RowsOf(int layer) const {
  return plan_.layers[static_cast<std::size_t>(layer)].rows;
}

std::vector<Range> PerceptronBuilder::BatchNodes(int level) const {
  return NodesWithin({0, pass_.rows}, block(), level);
}

Key PerceptronBuilder::Tile(const Parameter& parameter, const Range& outputs, const Range& inputs,
                            ParameterState state) const {
  return TileKey(pass_.job, pass_.step, {parameter.id, state}, outputs, inputs);
}

std::int64_t PerceptronBuilder::ForwardPriority(int layer) const {
  return pass_.step * kStepPriority + 4 * layer;
}
std::int64_t PerceptronBuilder::BackwardPriority(int layer) const {
  return pass_.step * kStepPriority + 4 * (2 * model_.layer_count() - layer) + 1000;
}
// Updates wait until nothing else can be done, the first layer's first: the next step begins there.
std::int64_t PerceptronBuilder::UpdatePriority(int layer) const {
  return pass_.step * kStepPriority + kStepPriority / 2 + 4 * layer;
}

void PerceptronBuilder::Add(TaskBuilder&& task, TaskName name, int layer, const Range& rows,
                            const Range& outputs, const Range& inputs, std::int64_t priority) {
  tasks_.push_back(std::move(task).Finish(
      keys_.Task(name, training_.precision, layer, rows, outputs, inputs), priority, layer));
}

int PerceptronBuilder::Gather(TaskBuilder& task, StepTuple kind, int boundary, const Range& rows,
                              const Range& features) const {
  const int buffer = task.NewBuffer(rows.size(), features.size());
  for (const Range& b : NodesWithin(rows, block(), plan_.BatchCellLevel())) {
    for (const Range& f :
         NodesWithin(features, block(), plan_.FeatureCellLevel(model_, boundary))) {
      task.AddPiece(buffer, keys_.Features(kind, boundary, b, f), b.begin - rows.begin,
                    f.begin - features.begin, b.size(), f.size());
    }
  }
  return buffer;
}

void PerceptronBuilder::Scatter(TaskBuilder& task, StepTuple kind, int boundary, const Range& rows,
                                const Range& features, int buffer) const {
  for (const Range& b : NodesWithin(rows, block(), plan_.BatchCellLevel())) {
    for (const Range& f :
         NodesWithin(features, block(), plan_.FeatureCellLevel(model_, boundary))) {
      task.Put(
          keys_.Features(kind, boundary, b, f),
          task.Part(buffer, b.begin - rows.begin, f.begin - features.begin, b.size(), f.size()));
    }
  }
}

int PerceptronBuilder::SumOf(TaskBuilder& task, const std::vector<Partial>& parts,
                             std::int64_t rows, std::int64_t cols) const {
  std::vector<int> buffers;
  std::vector<Range> ranges;
  for (const Partial& part : parts) {
    buffers.push_back(task.Input(part.key, rows, cols));
    ranges.push_back(part.range);
  }
  return task.Sum(buffers, ranges);
}

template <class KeyOf>
std::vector<PerceptronBuilder::Partial> PerceptronBuilder::Reduce(
    std::vector<Partial> parts, std::int64_t shape_rows, std::int64_t shape_cols,
    const KeyOf& key_of, TaskKind kind, TaskName name, std::int64_t priority, int layer,
    const Range& a, const Range& b) {
  const auto bytes = static_cast<std::uint64_t>(4 * shape_rows * shape_cols);
  // Besides the partials: sums on the way up the tree, and what the task makes of the whole.
  constexpr std::uint64_t kOthers = 5;
  const std::uint64_t room = plan_.task_bytes / bytes;
  // And of the inputs that the space lets a task have, for two sums in one task.
  constexpr std::uint64_t kMostPartials = tuplespace::SpaceLimits{}.task_inputs / 4;
  const std::uint64_t most = room > kOthers + 2 ? std::min(room - kOthers, kMostPartials) : 2;
  if (parts.size() <= most) return parts;
  const Range both{parts.front().range.begin, parts.back().range.end};
  const std::int64_t middle = Halve(both, block()).first.end;
  const auto split = std::find_if(parts.begin(), parts.end(),
                                  [&](const Partial& p) { return p.range.begin == middle; });
  assert(split != parts.end());
  std::vector<Partial> halves;
  for (auto [first, last] : {std::pair(parts.begin(), split), std::pair(split, parts.end())}) {
    std::vector<Partial> half(std::make_move_iterator(first), std::make_move_iterator(last));
    const Range range{half.front().range.begin, half.back().range.end};
    half =
        Reduce(std::move(half), shape_rows, shape_cols, key_of, kind, name, priority, layer, a, b);
    if (half.size() > 1) {
      TaskBuilder task(kind, training_);
      const int sum = SumOf(task, half, shape_rows, shape_cols);
      const Key key = key_of(range);
      task.Put(key, task.All(sum));
      Add(std::move(task), name, layer, a, b, range, priority);
      half = {{range, key}};
    }
    halves.push_back(std::move(half.front()));
  }
  return halves;
}

// ---- the passes
// ----------------------------------------------------------------------------------

void PerceptronBuilder::BuildInitialize() {
  for (int layer = 0; layer < model_.layer_count(); ++layer) {
    const Parameter weight = WeightOf(model_, layer), bias = BiasOf(model_, layer);
    for (const TileRow& row : RowsOf(layer)) {
      const Range& o = row.outputs;
      for (const Range& i : NodesWithin({0, weight.cols}, block(), row.input_level)) {
        TaskBuilder task(TaskKind::kInitialize, training_);
        Draw(task, weight, o, i);
        if (i.begin == 0) Draw(task, bias, o, {0, 1});
        Add(std::move(task), TaskName::kInitialize, layer, kNone, o, i, layer);
      }
    }
  }
}

// As nn.Linear: weights and biases uniform in +-1/sqrt(inputs). The optimizer's state is zeros.
void PerceptronBuilder::Draw(TaskBuilder& task, const Parameter& parameter, const Range& outputs,
                             const Range& inputs) {
  const bool bias = parameter.IsBias();
  const std::int64_t fan_in = model_.inputs(parameter.layer);
  const float bound = 1.0f / std::sqrt(static_cast<float>(fan_in));
  for (const ParameterState state : StatesOf(StateCount(training_.optimizer))) {
    const int buffer =
        bias ? task.NewBuffer(1, outputs.size()) : task.NewBuffer(outputs.size(), inputs.size());
    KernelScalars scalars;
    if (state == ParameterState::kValue) {
      // Elements are counted as those of a matrix [outputs, inputs], of a bias [1, outputs].
      scalars.f = {-bound, bound};
      scalars.i = {static_cast<std::int64_t>(training_.seed),
                   static_cast<std::int64_t>(parameter.id), bias ? 0 : outputs.begin,
                   bias ? outputs.begin : inputs.begin, bias ? parameter.rows : parameter.cols};
      task.Launch(Kernel::kUniform, {task.All(buffer)}, scalars);
    } else {
      task.Launch(Kernel::kFill, {task.All(buffer)}, scalars);
    }
    task.Put(Tile(parameter, outputs, inputs, state), task.All(buffer), true);
  }
}

void PerceptronBuilder::BuildForward(int layer) {
  const std::int64_t priority = ForwardPriority(layer);
  for (const TileRow& row : RowsOf(layer)) {
    const Range& o = row.outputs;
    const std::vector<Range> nodes =
        NodesWithin({0, model_.inputs(layer)}, block(), row.input_level);
    for (const Range& b : BatchNodes(row.batch_level)) {
      std::vector<Partial> parts;
      for (const Range& i : nodes) {
        TaskBuilder task(TaskKind::kForward, training_);
        const int x = Gather(task, StepTuple::kActivation, layer, b, i);
        const int w = task.Input(Tile(WeightOf(model_, layer), o, i), o.size(), i.size());
        task.SetAffinity(w);
        const int z = task.NewBuffer(b.size(), o.size());
        task.Gemm(GemmForm::kForward, x, w, z);
        if (nodes.size() == 1) {
          FinishForward(task, z, layer, b, o);
        } else {
          parts.push_back({i, keys_.Box(StepTuple::kForwardPart, layer, b, o, i)});
          task.Put(parts.back().key, task.All(z));
        }
        Add(std::move(task), TaskName::kForward, layer, b, o, i, priority);
      }
      if (nodes.size() == 1) continue;
      parts = Reduce(
          std::move(parts), b.size(), o.size(),
          [&](const Range& i) { return keys_.Box(StepTuple::kForwardPart, layer, b, o, i); },
          TaskKind::kActivation, TaskName::kForwardSum, priority + 1, layer, b, o);
      TaskBuilder task(TaskKind::kActivation, training_);
      FinishForward(task, SumOf(task, parts, b.size(), o.size()), layer, b, o);
      Add(std::move(task), TaskName::kActivation, layer, b, o, kNone, priority + 1);
    }
  }
}

// The loss is part of the last layer's tasks if one of them has all outputs of its samples.
bool PerceptronBuilder::LossIsFused() const {
  return RowsOf(model_.layer_count() - 1).size() == 1;
}

void PerceptronBuilder::FinishForward(TaskBuilder& task, int z, int layer, const Range& rows,
                                      const Range& outputs) {
  const bool last = LastLayer(layer);
  const Activation activation = last ? Activation::kIdentity : model_.activation;
  const int bias = task.Input(Tile(BiasOf(model_, layer), outputs, {0, 1}), 1, outputs.size());
  const bool keep_sums = pass_.train && RowOf(activation).gradient_takes_input;
  const int out = task.Writable(z);
  const int sums = keep_sums ? task.NewBuffer(rows.size(), outputs.size()) : -1;
  KernelScalars scalars;
  scalars.f[0] = model_.clip_bound;
  scalars.i[0] = static_cast<std::int64_t>(activation);
  task.Launch(Kernel::kBiasActivation, {task.All(out), task.All(z), task.All(bias), task.All(sums)},
              scalars);
  if (last && LossIsFused()) {
    FinishLoss(task, out, rows);
    return;
  }
  Scatter(task, StepTuple::kActivation, layer + 1, rows, outputs, out);
  if (keep_sums) Scatter(task, StepTuple::kPreActivation, layer + 1, rows, outputs, sums);
}

void PerceptronBuilder::BuildLoss() {
  if (LossIsFused()) return;
  const int last = model_.layer_count() - 1;
  for (const Range& b : BatchNodes(RowsOf(last).front().batch_level)) {
    TaskBuilder task(TaskKind::kLoss, training_);
    FinishLoss(task, Gather(task, StepTuple::kActivation, last + 1, b, {0, model_.layers.back()}),
               b);
    Add(std::move(task), TaskName::kLoss, last, b, kNone, kNone, ForwardPriority(last) + 2);
  }
}

void PerceptronBuilder::FinishLoss(TaskBuilder& task, int logits, const Range& rows) {
  const std::int64_t outputs = model_.layers.back();
  const bool classes = model_.loss == Loss::kCrossEntropy;
  const std::int64_t target_cols = classes ? 1 : outputs;
  const int targets = task.NewBuffer(rows.size(), target_cols);
  for (const Range& b : NodesWithin(rows, block(), plan_.BatchCellLevel())) {
    task.AddPiece(targets, keys_.Rows(StepTuple::kTarget, b), b.begin - rows.begin, 0, b.size(),
                  target_cols);
  }
  const int delta = pass_.train ? task.NewBuffer(rows.size(), outputs) : -1;
  const int per_row = task.NewBuffer(rows.size(), classes ? 2 : 1);
  const int sums = task.NewBuffer(1, classes ? 2 : 1);
  KernelScalars scalars;
  scalars.i[0] = block();
  const auto samples = static_cast<float>(pass_.rows);
  std::vector<View> views{task.All(delta), task.All(logits), task.All(targets),
                          task.Part(per_row, 0, 0, rows.size(), 1)};
  if (classes) {
    scalars.f[0] = 1.0f / samples;
    views.push_back(task.Part(per_row, 0, 1, rows.size(), 1));
    task.Launch(Kernel::kSoftmaxCrossEntropy, std::move(views), scalars);
  } else {
    scalars.f[0] = 2.0f / (samples * static_cast<float>(outputs));
    task.Launch(Kernel::kSquaredError, std::move(views), scalars);
  }
  KernelScalars order;
  order.i[0] = block();
  task.Launch(Kernel::kColumnSums, {task.All(sums), task.All(per_row)}, order);
  task.Put(keys_.Rows(StepTuple::kLoss, rows), task.All(sums));
  if (pass_.train)
    Scatter(task, StepTuple::kDelta, model_.layer_count(), rows, {0, outputs}, delta);
}

void PerceptronBuilder::BuildBackward(int layer) {
  const std::int64_t priority = BackwardPriority(layer);
  const std::vector<TileRow>& tile_rows = RowsOf(layer);
  int batch_level = 0;
  int input_level = 0;
  for (const TileRow& row : tile_rows) {
    batch_level = std::max(batch_level, row.batch_level);
    input_level = std::max(input_level, row.input_level);
  }
  const Range all_inputs{0, model_.inputs(layer)};
  for (const TileRow& row : tile_rows) {
    const Range& o = row.outputs;
    for (const Range& b : BatchNodes(row.batch_level)) {
      for (const Range& i : NodesWithin(all_inputs, block(), row.input_level)) {
        TaskBuilder task(TaskKind::kBackward, training_);
        const int d = Gather(task, StepTuple::kDelta, layer + 1, b, o);
        const int w = task.Input(Tile(WeightOf(model_, layer), o, i), o.size(), i.size());
        task.SetAffinity(w);
        const int d_inputs = task.NewBuffer(b.size(), i.size());
        task.Gemm(GemmForm::kBackward, d, w, d_inputs);
        if (tile_rows.size() == 1) {
          FinishBackward(task, d_inputs, layer, b, i);
        } else {
          task.Put(keys_.Box(StepTuple::kBackwardPart, layer, b, o, i), task.All(d_inputs));
        }
        Add(std::move(task), TaskName::kBackward, layer, b, o, i, priority);
      }
    }
  }
  if (tile_rows.size() == 1) return;
  for (const TileRow& row : tile_rows) {
    // Rows of tiles that are cut differently would have to be put together here first.
    assert(row.batch_level == batch_level && row.input_level == input_level);
    static_cast<void>(row);
  }
  for (const Range& b : BatchNodes(batch_level)) {
    for (const Range& i : NodesWithin(all_inputs, block(), input_level)) {
      std::vector<Partial> parts;
      for (const TileRow& row : tile_rows) {
        parts.push_back(
            {row.outputs, keys_.Box(StepTuple::kBackwardPart, layer, b, row.outputs, i)});
      }
      parts = Reduce(
          std::move(parts), b.size(), i.size(),
          [&](const Range& o) { return keys_.Box(StepTuple::kBackwardPart, layer, b, o, i); },
          TaskKind::kActivation, TaskName::kBackwardSum, priority + 1, layer, b, i);
      TaskBuilder task(TaskKind::kActivation, training_);
      FinishBackward(task, SumOf(task, parts, b.size(), i.size()), layer, b, i);
      Add(std::move(task), TaskName::kActivationGradient, layer, b, kNone, i, priority + 1);
    }
  }
}

void PerceptronBuilder::FinishBackward(TaskBuilder& task, int d_inputs, int layer,
                                       const Range& rows, const Range& inputs) {
  const StepTuple saved_as = RowOf(model_.activation).gradient_takes_input
                                 ? StepTuple::kPreActivation
                                 : StepTuple::kActivation;
  const int saved = Gather(task, saved_as, layer, rows, inputs);
  const int out = task.Writable(d_inputs);
  KernelScalars scalars;
  scalars.f[0] = model_.clip_bound;
  scalars.i[0] = static_cast<std::int64_t>(model_.activation);
  task.Launch(Kernel::kActivationGradient, {task.All(out), task.All(d_inputs), task.All(saved)},
              scalars);
  Scatter(task, StepTuple::kDelta, layer, rows, inputs, out);
}

void PerceptronBuilder::BuildUpdate(int layer) {
  for (const TileRow& row : RowsOf(layer)) {
    const Range& o = row.outputs;
    const std::vector<Range> batch = BatchNodes(row.batch_level);
    for (const Range& i : NodesWithin({0, model_.inputs(layer)}, block(), row.input_level)) {
      if (batch.size() > 1) {
        BuildSplitUpdate(layer, row, i, batch);
        continue;
      }
      TaskBuilder task(TaskKind::kUpdate, training_);
      const int x = Gather(task, StepTuple::kActivation, layer, batch.front(), i);
      const int d = Gather(task, StepTuple::kDelta, layer + 1, batch.front(), o);
      const int gradient = task.NewBuffer(o.size(), i.size());
      task.Gemm(GemmForm::kGradient, d, x, gradient);
      FinishUpdate(task, gradient, WeightOf(model_, layer), o, i);
      if (i.begin == 0) {
        const int bias_gradient = task.NewBuffer(1, o.size());
        KernelScalars order;
        order.i[0] = block();
        task.Launch(Kernel::kColumnSums, {task.All(bias_gradient), task.All(d)}, order);
        FinishUpdate(task, bias_gradient, BiasOf(model_, layer), o, {0, 1});
      }
      Add(std::move(task), TaskName::kUpdate, layer, kNone, o, i, UpdatePriority(layer));
    }
  }
}

void PerceptronBuilder::BuildSplitUpdate(int layer, const TileRow& row, const Range& inputs,
                                         const std::vector<Range>& batch) {
  const Range& o = row.outputs;
  const std::int64_t priority = UpdatePriority(layer);
  const bool with_bias = inputs.begin == 0;
  const auto bias_key = [&](const Range& b) {
    return keys_.Box(StepTuple::kBiasGradientPart, layer, b, o, kNone);
  };
  const auto key = [&](const Range& b) {
    return keys_.Box(StepTuple::kGradientPart, layer, b, o, inputs);
  };
  std::vector<Partial> parts;
  std::vector<Partial> bias_parts;
  for (const Range& b : batch) {
    TaskBuilder task(TaskKind::kUpdate, training_);
    const int x = Gather(task, StepTuple::kActivation, layer, b, inputs);
    const int d = Gather(task, StepTuple::kDelta, layer + 1, b, o);
    const int gradient = task.NewBuffer(o.size(), inputs.size());
    task.Gemm(GemmForm::kGradient, d, x, gradient);
    parts.push_back({b, key(b)});
    task.Put(parts.back().key, task.All(gradient));
    if (with_bias) {
      const int bias_gradient = task.NewBuffer(1, o.size());
      KernelScalars order;
      order.i[0] = block();
      task.Launch(Kernel::kColumnSums, {task.All(bias_gradient), task.All(d)}, order);
      bias_parts.push_back({b, bias_key(b)});
      task.Put(bias_parts.back().key, task.All(bias_gradient));
    }
    Add(std::move(task), TaskName::kGradient, layer, b, o, inputs, priority);
  }
  // The sums' tasks are named by (outputs, inputs) and the batch range that they cover.
  parts = Reduce(std::move(parts), o.size(), inputs.size(), key, TaskKind::kUpdate,
                 TaskName::kGradientSum, priority + 1, layer, o, inputs);
  TaskBuilder task(TaskKind::kUpdate, training_);
  FinishUpdate(task, SumOf(task, parts, o.size(), inputs.size()), WeightOf(model_, layer), o,
               inputs);
  if (with_bias) {
    bias_parts = Reduce(std::move(bias_parts), 1, o.size(), bias_key, TaskKind::kUpdate,
                        TaskName::kBiasGradientSum, priority + 1, layer, o, kNone);
    FinishUpdate(task, SumOf(task, bias_parts, 1, o.size()), BiasOf(model_, layer), o, {0, 1});
  }
  Add(std::move(task), TaskName::kUpdate, layer, kNone, o, inputs, priority + 2);
}

void PerceptronBuilder::FinishUpdate(TaskBuilder& task, int gradient, const Parameter& parameter,
                                     const Range& outputs, const Range& inputs) {
  const bool bias = parameter.IsBias();
  const std::int64_t rows = bias ? 1 : outputs.size();
  const std::int64_t cols = bias ? outputs.size() : inputs.size();
  const std::span<const ParameterState> states = StatesOf(StateCount(training_.optimizer));
  std::vector<int> before;
  std::vector<int> after;
  for (const ParameterState state : states) {
    before.push_back(task.Input(Tile(parameter, outputs, inputs, state), rows, cols));
    // The new weights take the gradient's place: it is read before they are written.
    const bool value = state == ParameterState::kValue;
    after.push_back(value ? task.Writable(gradient) : task.NewBuffer(rows, cols));
  }
  if (!bias) task.SetAffinity(before.front());
  std::vector<View> views;
  for (const int buffer : after) views.push_back(task.All(buffer));
  for (const int buffer : before) views.push_back(task.All(buffer));
  views.push_back(task.All(gradient));
  task.Launch(RowOf(training_.optimizer).kernel, std::move(views), pass_.optimizer);
  for (std::size_t i = 0; i < states.size(); ++i) {
    const MatrixId matrix{parameter.id, states[i]};
    task.Put(TileKey(pass_.job, pass_.step + 1, matrix, outputs, inputs), task.All(after[i]), true);
  }
}

}  // namespace acan
