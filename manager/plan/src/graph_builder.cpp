#include "graph_builder.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "acan/core/names.h"

namespace acan {

using tuplespace::Key;

namespace {

constexpr Range kNone{0, 0};
constexpr std::int64_t kStepPriority = 1'000'000;

}  // namespace

GraphBuilder::GraphBuilder(const Model& model, const Training& training, const Plan& plan,
                           const Pass& pass)
    : model_(model),
      training_(training),
      plan_(plan),
      pass_(pass),
      names_(pass.job, pass.step, pass.batch_id) {}

const std::vector<TileRow>& GraphBuilder::RowsOf(int layer) const {
  return plan_.layers[static_cast<std::size_t>(layer)].rows;
}

std::vector<Range> GraphBuilder::BatchNodes(int level) const {
  return NodesWithin({0, pass_.rows}, block(), level);
}

std::int64_t GraphBuilder::ForwardPriority(int layer) const {
  return pass_.step * kStepPriority + 4 * layer;
}
std::int64_t GraphBuilder::BackwardPriority(int layer) const {
  return pass_.step * kStepPriority + 4 * (2 * model_.layer_count() - layer) + 1000;
}
// Updates wait until nothing else can be done, the first layer's first: the next step begins there.
std::int64_t GraphBuilder::UpdatePriority(int layer) const {
  return pass_.step * kStepPriority + kStepPriority / 2 + 4 * layer;
}

void GraphBuilder::Add(Draft&& draft, const char* kind, int layer, const Range& rows,
                       const Range& outputs, const Range& inputs, std::int64_t priority) {
  tasks_.push_back(std::move(draft).Finish(
      names_.Task(kind, training_.precision, layer, rows, outputs, inputs), priority, layer));
}

int GraphBuilder::Assemble(Draft& draft, const char* what, int boundary, const Range& rows,
                           const Range& features) const {
  const int buffer = draft.NewBuffer(rows.size(), features.size());
  for (const Range& b : NodesWithin(rows, block(), plan_.BatchCellLevel())) {
    for (const Range& f :
         NodesWithin(features, block(), plan_.FeatureCellLevel(model_, boundary))) {
      draft.AddPiece(buffer, names_.Features(what, boundary, b, f), b.begin - rows.begin,
                     f.begin - features.begin, b.size(), f.size());
    }
  }
  return buffer;
}

void GraphBuilder::Disperse(Draft& draft, const char* what, int boundary, const Range& rows,
                            const Range& features, int buffer) const {
  for (const Range& b : NodesWithin(rows, block(), plan_.BatchCellLevel())) {
    for (const Range& f :
         NodesWithin(features, block(), plan_.FeatureCellLevel(model_, boundary))) {
      draft.Put(
          names_.Features(what, boundary, b, f),
          draft.Part(buffer, b.begin - rows.begin, f.begin - features.begin, b.size(), f.size()));
    }
  }
}

int GraphBuilder::SumOf(Draft& draft, const std::vector<Partial>& parts, std::int64_t rows,
                        std::int64_t cols) const {
  std::vector<int> buffers;
  std::vector<Range> ranges;
  for (const Partial& part : parts) {
    buffers.push_back(draft.Input(part.key, rows, cols));
    ranges.push_back(part.range);
  }
  return draft.Sum(buffers, ranges);
}

template <class KeyOf>
std::vector<GraphBuilder::Partial> GraphBuilder::Gather(std::vector<Partial> parts,
                                                        std::int64_t shape_rows,
                                                        std::int64_t shape_cols,
                                                        const KeyOf& key_of, TaskKind kind,
                                                        const char* name, std::int64_t priority,
                                                        int layer, const Range& a, const Range& b) {
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
        Gather(std::move(half), shape_rows, shape_cols, key_of, kind, name, priority, layer, a, b);
    if (half.size() > 1) {
      Draft draft(kind, training_);
      const int sum = SumOf(draft, half, shape_rows, shape_cols);
      const Key key = key_of(range);
      draft.Put(key, draft.All(sum));
      Add(std::move(draft), name, layer, a, b, range, priority);
      half = {{range, key}};
    }
    halves.push_back(std::move(half.front()));
  }
  return halves;
}

// ---- the passes
// ----------------------------------------------------------------------------------

void GraphBuilder::BuildInitialize() {
  for (int layer = 0; layer < model_.layer_count(); ++layer) {
    const std::int64_t fan_in = model_.inputs(layer);
    // nn.Linear: weights and biases uniform in +-1/sqrt(inputs).
    const float bound = 1.0f / std::sqrt(static_cast<float>(fan_in));
    for (const TileRow& row : RowsOf(layer)) {
      for (const Range& i : NodesWithin({0, fan_in}, block(), row.input_level)) {
        Draft draft(TaskKind::kInitialize, training_);
        const auto make = [&](int tensor, const Range& o, const Range& in, std::int64_t columns) {
          for (int state = -1; state < StateCount(training_.optimizer); ++state) {
            const bool bias = tensor % 2 == 1;
            const int buffer =
                bias ? draft.NewBuffer(1, o.size()) : draft.NewBuffer(o.size(), in.size());
            KernelScalars s;
            if (state < 0) {
              s.f = {-bound, bound};
              s.i = {static_cast<std::int64_t>(training_.seed), tensor, bias ? 0 : o.begin,
                     bias ? o.begin : in.begin, columns};
              draft.Launch(Kernel::kUniform, {draft.All(buffer)}, s);
            } else {
              draft.Launch(Kernel::kFill, {draft.All(buffer)}, s);
            }
            draft.Put(TileKey(pass_.job, pass_.step, tensor, state, o, in), draft.All(buffer),
                      true);
          }
        };
        make(2 * layer, row.outputs, i, fan_in);
        if (i.begin == 0) make(2 * layer + 1, row.outputs, {0, 1}, model_.outputs(layer));
        Add(std::move(draft), "initialize", layer, kNone, row.outputs, i, layer);
      }
    }
  }
}

void GraphBuilder::BuildForward(int layer) {
  const std::int64_t priority = ForwardPriority(layer);
  for (const TileRow& row : RowsOf(layer)) {
    const Range& o = row.outputs;
    const std::vector<Range> nodes =
        NodesWithin({0, model_.inputs(layer)}, block(), row.input_level);
    for (const Range& b : BatchNodes(row.batch_level)) {
      std::vector<Partial> parts;
      for (const Range& i : nodes) {
        Draft draft(TaskKind::kForward, training_);
        const int x = Assemble(draft, "act", layer, b, i);
        const int w =
            draft.Input(TileKey(pass_.job, pass_.step, 2 * layer, -1, o, i), o.size(), i.size());
        draft.SetAffinity(w);
        const int z = draft.NewBuffer(b.size(), o.size());
        draft.Gemm(GemmForm::kForward, x, w, z);
        if (nodes.size() == 1) {
          FinishForward(draft, z, layer, b, o);
        } else {
          parts.push_back({i, names_.Box("part.forward", layer, b, o, i)});
          draft.Put(parts.back().key, draft.All(z));
        }
        Add(std::move(draft), "forward", layer, b, o, i, priority);
      }
      if (nodes.size() == 1) continue;
      parts = Gather(
          std::move(parts), b.size(), o.size(),
          [&](const Range& i) { return names_.Box("part.forward", layer, b, o, i); },
          TaskKind::kActivation, "sum.forward", priority + 1, layer, b, o);
      Draft draft(TaskKind::kActivation, training_);
      FinishForward(draft, SumOf(draft, parts, b.size(), o.size()), layer, b, o);
      Add(std::move(draft), "activation", layer, b, o, kNone, priority + 1);
    }
  }
}

// The loss is part of the last layer's tasks if one of them has all outputs of its samples.
bool GraphBuilder::LossIsFused() const {
  return RowsOf(model_.layer_count() - 1).size() == 1;
}

void GraphBuilder::FinishForward(Draft& draft, int z, int layer, const Range& rows,
                                 const Range& outputs) {
  const bool last = LastLayer(layer);
  const Activation activation = last ? Activation::kIdentity : model_.activation;
  const int bias = draft.Input(TileKey(pass_.job, pass_.step, 2 * layer + 1, -1, outputs, {0, 1}),
                               1, outputs.size());
  const bool keep_sums = pass_.train && RowOf(activation).gradient_takes_input;
  const int out = draft.Writable(z);
  const int sums = keep_sums ? draft.NewBuffer(rows.size(), outputs.size()) : -1;
  KernelScalars scalars;
  scalars.f[0] = model_.clip_bound;
  scalars.i[0] = static_cast<std::int64_t>(activation);
  draft.Launch(Kernel::kBiasActivation,
               {draft.All(out), draft.All(z), draft.All(bias), draft.All(sums)}, scalars);
  if (last && LossIsFused()) {
    FinishLoss(draft, out, rows);
    return;
  }
  Disperse(draft, "act", layer + 1, rows, outputs, out);
  if (keep_sums) Disperse(draft, "pre", layer + 1, rows, outputs, sums);
}

void GraphBuilder::BuildLoss() {
  if (LossIsFused()) return;
  const int last = model_.layer_count() - 1;
  for (const Range& b : BatchNodes(RowsOf(last).front().batch_level)) {
    Draft draft(TaskKind::kLoss, training_);
    FinishLoss(draft, Assemble(draft, "act", last + 1, b, {0, model_.layers.back()}), b);
    Add(std::move(draft), "loss", last, b, kNone, kNone, ForwardPriority(last) + 2);
  }
}

void GraphBuilder::FinishLoss(Draft& draft, int logits, const Range& rows) {
  const std::int64_t outputs = model_.layers.back();
  const bool classes = model_.loss == Loss::kCrossEntropy;
  const std::int64_t target_cols = classes ? 1 : outputs;
  const int targets = draft.NewBuffer(rows.size(), target_cols);
  for (const Range& b : NodesWithin(rows, block(), plan_.BatchCellLevel())) {
    draft.AddPiece(targets, names_.Rows("target", b), b.begin - rows.begin, 0, b.size(),
                   target_cols);
  }
  const int delta = pass_.train ? draft.NewBuffer(rows.size(), outputs) : -1;
  const int per_row = draft.NewBuffer(rows.size(), classes ? 2 : 1);
  const int sums = draft.NewBuffer(1, classes ? 2 : 1);
  KernelScalars scalars;
  scalars.i[0] = block();
  const auto samples = static_cast<float>(pass_.rows);
  std::vector<View> views{draft.All(delta), draft.All(logits), draft.All(targets),
                          draft.Part(per_row, 0, 0, rows.size(), 1)};
  if (classes) {
    scalars.f[0] = 1.0f / samples;
    views.push_back(draft.Part(per_row, 0, 1, rows.size(), 1));
    draft.Launch(Kernel::kSoftmaxCrossEntropy, std::move(views), scalars);
  } else {
    scalars.f[0] = 2.0f / (samples * static_cast<float>(outputs));
    draft.Launch(Kernel::kSquaredError, std::move(views), scalars);
  }
  KernelScalars order;
  order.i[0] = block();
  draft.Launch(Kernel::kColumnSums, {draft.All(sums), draft.All(per_row)}, order);
  draft.Put(names_.Rows("loss", rows), draft.All(sums));
  if (pass_.train) Disperse(draft, "delta", model_.layer_count(), rows, {0, outputs}, delta);
}

void GraphBuilder::BuildBackward(int layer) {
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
        Draft draft(TaskKind::kBackward, training_);
        const int d = Assemble(draft, "delta", layer + 1, b, o);
        const int w =
            draft.Input(TileKey(pass_.job, pass_.step, 2 * layer, -1, o, i), o.size(), i.size());
        draft.SetAffinity(w);
        const int d_inputs = draft.NewBuffer(b.size(), i.size());
        draft.Gemm(GemmForm::kBackward, d, w, d_inputs);
        if (tile_rows.size() == 1) {
          FinishBackward(draft, d_inputs, layer, b, i);
        } else {
          draft.Put(names_.Box("part.backward", layer, b, o, i), draft.All(d_inputs));
        }
        Add(std::move(draft), "backward", layer, b, o, i, priority);
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
        parts.push_back({row.outputs, names_.Box("part.backward", layer, b, row.outputs, i)});
      }
      parts = Gather(
          std::move(parts), b.size(), i.size(),
          [&](const Range& o) { return names_.Box("part.backward", layer, b, o, i); },
          TaskKind::kActivation, "sum.backward", priority + 1, layer, b, i);
      Draft draft(TaskKind::kActivation, training_);
      FinishBackward(draft, SumOf(draft, parts, b.size(), i.size()), layer, b, i);
      Add(std::move(draft), "activation_gradient", layer, b, kNone, i, priority + 1);
    }
  }
}

void GraphBuilder::FinishBackward(Draft& draft, int d_inputs, int layer, const Range& rows,
                                  const Range& inputs) {
  const char* saved_as = RowOf(model_.activation).gradient_takes_input ? "pre" : "act";
  const int saved = Assemble(draft, saved_as, layer, rows, inputs);
  const int out = draft.Writable(d_inputs);
  KernelScalars scalars;
  scalars.f[0] = model_.clip_bound;
  scalars.i[0] = static_cast<std::int64_t>(model_.activation);
  draft.Launch(Kernel::kActivationGradient, {draft.All(out), draft.All(d_inputs), draft.All(saved)},
               scalars);
  Disperse(draft, "delta", layer, rows, inputs, out);
}

void GraphBuilder::BuildUpdate(int layer) {
  for (const TileRow& row : RowsOf(layer)) {
    const Range& o = row.outputs;
    const std::vector<Range> batch = BatchNodes(row.batch_level);
    for (const Range& i : NodesWithin({0, model_.inputs(layer)}, block(), row.input_level)) {
      if (batch.size() > 1) {
        BuildSplitUpdate(layer, row, i, batch);
        continue;
      }
      Draft draft(TaskKind::kUpdate, training_);
      const int x = Assemble(draft, "act", layer, batch.front(), i);
      const int d = Assemble(draft, "delta", layer + 1, batch.front(), o);
      const int gradient = draft.NewBuffer(o.size(), i.size());
      draft.Gemm(GemmForm::kGradient, d, x, gradient);
      FinishUpdate(draft, gradient, 2 * layer, o, i);
      if (i.begin == 0) {
        const int bias_gradient = draft.NewBuffer(1, o.size());
        KernelScalars order;
        order.i[0] = block();
        draft.Launch(Kernel::kColumnSums, {draft.All(bias_gradient), draft.All(d)}, order);
        FinishUpdate(draft, bias_gradient, 2 * layer + 1, o, {0, 1});
      }
      Add(std::move(draft), "update", layer, kNone, o, i, UpdatePriority(layer));
    }
  }
}

void GraphBuilder::BuildSplitUpdate(int layer, const TileRow& row, const Range& inputs,
                                    const std::vector<Range>& batch) {
  const Range& o = row.outputs;
  const std::int64_t priority = UpdatePriority(layer);
  const bool with_bias = inputs.begin == 0;
  const auto bias_key = [&](const Range& b) {
    return names_.Box("part.bias_gradient", layer, b, o, kNone);
  };
  const auto key = [&](const Range& b) { return names_.Box("part.gradient", layer, b, o, inputs); };
  std::vector<Partial> parts;
  std::vector<Partial> bias_parts;
  for (const Range& b : batch) {
    Draft draft(TaskKind::kUpdate, training_);
    const int x = Assemble(draft, "act", layer, b, inputs);
    const int d = Assemble(draft, "delta", layer + 1, b, o);
    const int gradient = draft.NewBuffer(o.size(), inputs.size());
    draft.Gemm(GemmForm::kGradient, d, x, gradient);
    parts.push_back({b, key(b)});
    draft.Put(parts.back().key, draft.All(gradient));
    if (with_bias) {
      const int bias_gradient = draft.NewBuffer(1, o.size());
      KernelScalars order;
      order.i[0] = block();
      draft.Launch(Kernel::kColumnSums, {draft.All(bias_gradient), draft.All(d)}, order);
      bias_parts.push_back({b, bias_key(b)});
      draft.Put(bias_parts.back().key, draft.All(bias_gradient));
    }
    Add(std::move(draft), "gradient", layer, b, o, inputs, priority);
  }
  // The sums' tasks are named by (outputs, inputs) and the batch range that they cover.
  parts = Gather(std::move(parts), o.size(), inputs.size(), key, TaskKind::kUpdate, "sum.gradient",
                 priority + 1, layer, o, inputs);
  Draft draft(TaskKind::kUpdate, training_);
  FinishUpdate(draft, SumOf(draft, parts, o.size(), inputs.size()), 2 * layer, o, inputs);
  if (with_bias) {
    bias_parts = Gather(std::move(bias_parts), 1, o.size(), bias_key, TaskKind::kUpdate,
                        "sum.bias_gradient", priority + 1, layer, o, kNone);
    FinishUpdate(draft, SumOf(draft, bias_parts, 1, o.size()), 2 * layer + 1, o, {0, 1});
  }
  Add(std::move(draft), "update", layer, kNone, o, inputs, priority + 2);
}

void GraphBuilder::FinishUpdate(Draft& draft, int gradient, int tensor, const Range& outputs,
                                const Range& inputs) {
  const bool bias = tensor % 2 == 1;
  const std::int64_t rows = bias ? 1 : outputs.size();
  const std::int64_t cols = bias ? outputs.size() : inputs.size();
  const int states = StateCount(training_.optimizer);
  std::vector<int> before;
  std::vector<int> after;
  for (int state = -1; state < states; ++state) {
    before.push_back(
        draft.Input(TileKey(pass_.job, pass_.step, tensor, state, outputs, inputs), rows, cols));
    // The new weights take the gradient's place: it is read before they are written.
    after.push_back(state < 0 ? draft.Writable(gradient) : draft.NewBuffer(rows, cols));
  }
  if (!bias) draft.SetAffinity(before.front());
  std::vector<View> views;
  for (const int buffer : after) views.push_back(draft.All(buffer));
  for (const int buffer : before) views.push_back(draft.All(buffer));
  views.push_back(draft.All(gradient));
  draft.Launch(RowOf(training_.optimizer).kernel, std::move(views), pass_.optimizer);
  for (int state = -1; state < states; ++state) {
    draft.Put(TileKey(pass_.job, pass_.step + 1, tensor, state, outputs, inputs),
              draft.All(after[static_cast<std::size_t>(state + 1)]), true);
  }
}

}  // namespace acan
