#include "phased_attention.h"

#include <algorithm>
#include <map>

#include "operator_calls.h"
#include "phases.h"

namespace acan {
namespace {

constexpr std::int64_t kLeaf = 64;  // of keys and queries, independent of the block of other sums

// The axis of the parts; the values occur in keys.
enum class Kind : std::uint8_t { kOfQueries, kOfKeys };

const model::Attention& ForwardOf(const LoweredNode& node) {
  if (const auto* op = std::get_if<model::Attention>(&node.node->op)) return *op;
  return std::get<model::AttentionGradient>(node.node->op).forward;
}

std::vector<Range> NodesOfSpan(std::int64_t positions, std::int64_t span) {
  std::vector<Range> nodes;
  for (std::int64_t begin = 0; begin < positions; begin += span) {
    nodes.push_back({begin, std::min(begin + span, positions)});
  }
  return nodes;
}

class PhasedAttention : public Phases {
 public:
  PhasedAttention(const PassContext& context, int segment, bool sampled)
      : Phases(context, segment),
        op_(ForwardOf(node_)),
        is_gradient_(std::holds_alternative<model::AttentionGradient>(node_.node->op)),
        sampled_(sampled),
        positions_(Operand(0).rows),
        queries_(NodesOfSpan(positions_, Segment().rows.positions)),
        keys_(NodesOfSpan(positions_, Segment().key_span)) {}

  // Adds the tasks of one part of the heads of a sample, which represents `count` such parts.
  void Build(const Range& sample, int part, std::int64_t count) {
    sample_ = sample;
    part_ = part;
    std::map<std::vector<std::int64_t>, std::size_t> kinds;
    for (const Range& queries : queries_) {
      for (const Range& keys : KeysOf(queries)) {
        const auto [kind, is_new] = kinds.try_emplace(
            {queries.size(), keys.size(), IsWhole(queries), IsWholeOfKeys(keys)}, tasks_.size());
        if (sampled_ && !is_new) {
          counts_[kind->second] += count;
          continue;
        }
        is_gradient_ ? BuildGradient(queries, keys) : BuildForward(queries, keys);
        counts_.resize(tasks_.size(), count);
      }
    }
    for (const Range& queries : queries_) {
      if (!IsWhole(queries)) is_gradient_ ? SumQueries(queries) : JoinKeys(queries);
    }
    for (const Range& keys : keys_) {
      if (is_gradient_ && !IsWholeOfKeys(keys)) SumKeys(keys);
    }
    counts_.resize(tasks_.size(), count);
  }

  std::vector<TaskSample> TakeSamples() && {
    std::vector<TaskSample> samples;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      samples.push_back({std::move(tasks_[i]), counts_[i]});
    }
    return samples;
  }

 private:
  // The nodes of keys that the queries see at least partly. The forward pass skips keys after them.
  std::vector<Range> KeysOf(const Range& queries) const {
    const Range seen = KeysSeenBy(op_, queries, positions_);
    std::vector<Range> nodes;
    for (const Range& keys : keys_) {
      if (keys.begin >= seen.end) break;
      nodes.push_back({keys.begin, is_gradient_ ? keys.end : std::min(keys.end, seen.end)});
    }
    return nodes;
  }
  bool Sees(const Range& queries, const Range& keys) const {
    return keys.begin < KeysSeenBy(op_, queries, positions_).end;
  }
  // Whether one square has all keys that the queries see, or all queries that see the keys.
  bool IsWhole(const Range& queries) const { return KeysOf(queries).size() == 1; }
  bool IsWholeOfKeys(const Range& keys) const {
    return std::count_if(queries_.begin(), queries_.end(),
                         [&](const Range& queries) { return Sees(queries, keys); }) == 1;
  }
  // The place of a node in the tree whose leaves are blocks.
  Range PlaceOf(const Range& positions) const {
    const std::int64_t block = context_.cuts.block;
    return {positions.begin / kLeaf * block, (positions.end + kLeaf - 1) / kLeaf * block};
  }
  Box BoxOf(const Range& positions) const { return {sample_, positions}; }
  Range RowsOf(const Range& positions) const { return BoxOf(positions).RowsOf(positions_); }

  Range OperandColumns(std::size_t port) const {
    return ColumnsOf(context_.graph, node_id_, false, port, part_, PartsOf(Segment()));
  }
  Range ResultColumns(std::size_t port) const {
    return ColumnsOf(context_.graph, node_id_, true, port, part_, PartsOf(Segment()));
  }
  Range Heads() const {
    const std::int64_t width = Operand(0).columns / op_.heads;
    const Range q = OperandColumns(0);
    return {q.begin / width, q.end / width};
  }
  View In(TaskBuilder& task, std::size_t port, const Range& positions) const {
    return task.All(Gather(task, port, BoxOf(positions), OperandColumns(port)));
  }
  View Lengths(TaskBuilder& task) const {
    constexpr std::size_t kPort = 3;
    if (node_.operands.size() <= kPort || node_.operands[kPort] < 0) return {};
    return task.All(Gather(task, kPort, {sample_, {}}, {0, 1}));
  }
  // Whether anybody reads the result. Of a gradient, some results may not be needed.
  bool IsRead(std::size_t port) const {
    return context_.grid.Crosses(context_.Value(node_.results[port]).root);
  }
  // Puts the part's columns of a result, which begin at `column` of the buffer.
  void PutPart(TaskBuilder& task, std::size_t port, const Range& positions, int buffer,
               std::int64_t column) const {
    if (!IsRead(port)) return;
    const LoweredValue& v = context_.Value(node_.results[port]);
    const Range columns = ResultColumns(port);
    PutCells(context_, task, v.root, BoxOf(positions),
             {v.first_column + columns.begin, v.first_column + columns.end}, buffer,
             v.first_column + columns.begin - column);
  }

  TaskBuilder NewAttentionTask() const {
    return {is_gradient_ ? TaskKind::kBackward : TaskKind::kForward, context_.training};
  }
  Range NumberOf(Kind kind) const {
    const std::int64_t number = 2 * std::int64_t{part_} + static_cast<std::int64_t>(kind);
    return {number, number + 1};
  }
  // `place` is in the tree over the positions that are added.
  tuplespace::Key PartKeyOf(Kind kind, const Range& positions, const Range& place) const {
    return context_.keys.Box(is_gradient_ ? StepTuple::kBackwardPart : StepTuple::kForwardPart,
                             node_id_, RowsOf(positions), place, NumberOf(kind));
  }
  tuplespace::Key TaskKeyOf(TaskName name, Kind kind, const Range& positions,
                            const Range& place) const {
    return context_.keys.Task(name, context_.training.precision, segment_, RowsOf(positions), place,
                              NumberOf(kind));
  }
  void AddSquare(TaskBuilder&& task, const Range& queries, const Range& keys) {
    const TaskName name = is_gradient_ ? TaskName::kBackward : TaskName::kForward;
    tasks_.push_back(std::move(task).Finish(
        TaskKeyOf(name, Kind::kOfQueries, queries, PlaceOf(keys)), Priority(), segment_));
  }
  void AddWhole(TaskBuilder&& task, Kind kind, const Range& positions) {
    const TaskName name = is_gradient_ ? TaskName::kActivationGradient : TaskName::kActivation;
    tasks_.push_back(
        std::move(task).Finish(TaskKeyOf(name, kind, positions, {0, 0}), Priority() + 1, segment_));
  }
  KernelScalars ScalarsOf(const Range& queries, const Range& keys) const {
    return AttentionScalars(context_, op_, positions_, {sample_, queries, keys, Heads()});
  }

  // ---- forward: a triple is a matrix [queries, columns of o, then of the statistics] ------------

  std::int64_t TripleColumns() const { return ResultColumns(0).size() + ResultColumns(1).size(); }
  View OutputOf(TaskBuilder& task, int triple) const {
    return task.Part(triple, 0, 0, task.All(triple).rows, ResultColumns(0).size());
  }
  View StatisticsOf(TaskBuilder& task, int triple) const {
    return task.Part(triple, 0, ResultColumns(0).size(), task.All(triple).rows,
                     ResultColumns(1).size());
  }

  void BuildForward(const Range& queries, const Range& keys) {
    TaskBuilder task = NewAttentionTask();
    const View q = In(task, 0, queries), k = In(task, 1, keys), v = In(task, 2, keys);
    const View lengths = Lengths(task);
    KernelScalars scalars = ScalarsOf(queries, keys);
    constexpr std::size_t kFinish = 13;
    if (IsWhole(queries)) {
      scalars.i[kFinish] = 1;
      const int o = task.NewBuffer(queries.size(), ResultColumns(0).size());
      const int statistics = task.NewBuffer(queries.size(), ResultColumns(1).size());
      task.Launch(Kernel::kAttention, {task.All(o), task.All(statistics), q, k, v, lengths},
                  scalars);
      PutPart(task, 0, queries, o, 0);
      PutPart(task, 1, queries, statistics, 0);
    } else {
      const int triple = task.NewBuffer(queries.size(), TripleColumns());
      task.Launch(Kernel::kAttention,
                  {OutputOf(task, triple), StatisticsOf(task, triple), q, k, v, lengths}, scalars);
      task.Put(PartKeyOf(Kind::kOfQueries, queries, PlaceOf(keys)), task.All(triple));
    }
    AddSquare(std::move(task), queries, keys);
  }

  int Join(TaskBuilder& task, const std::vector<SumPart>& parts, std::int64_t rows) const {
    std::vector<int> at;
    std::vector<Range> places;
    for (const SumPart& part : parts) {
      at.push_back(task.Input(part.key, rows, TripleColumns()));
      places.push_back(part.range);
    }
    KernelScalars heads;
    heads.i[0] = Heads().size();
    int spare = -1;
    for (const Combine& combine : CombineOrder(places, context_.cuts.block)) {
      const int left = at[combine.left], right = at[combine.right];
      int out = task.IsInput(left) ? right : left;
      if (task.IsInput(out)) {
        out = spare >= 0 ? std::exchange(spare, -1) : task.Writable(left);
      } else if (out == left && !task.IsInput(right)) {
        spare = right;
      }
      task.Launch(Kernel::kAttentionJoin,
                  {OutputOf(task, out), StatisticsOf(task, out), OutputOf(task, left),
                   StatisticsOf(task, left), OutputOf(task, right), StatisticsOf(task, right)},
                  heads);
      at[combine.left] = out;
    }
    return at.front();
  }

  void JoinKeys(const Range& queries) {
    std::vector<SumPart> parts;
    for (const Range& keys : KeysOf(queries)) {
      parts.push_back({PlaceOf(keys), PartKeyOf(Kind::kOfQueries, queries, PlaceOf(keys))});
    }
    const auto join = [&](TaskBuilder& task, const std::vector<SumPart>& of) {
      return Join(task, of, queries.size());
    };
    parts = Reduce(Kind::kOfQueries, queries, std::move(parts), TripleColumns(), join);
    TaskBuilder task = NewAttentionTask();
    const int triple = Join(task, parts, queries.size());
    const int o = task.NewBuffer(queries.size(), ResultColumns(0).size());
    KernelScalars heads;
    heads.i[0] = Heads().size();
    task.Launch(Kernel::kAttentionFinish,
                {task.All(o), OutputOf(task, triple), StatisticsOf(task, triple)}, heads);
    PutPart(task, 0, queries, o, 0);
    PutPart(task, 1, queries, triple, ResultColumns(0).size());
    AddWhole(std::move(task), Kind::kOfQueries, queries);
  }

  // ---- gradient: parts of dk and dv lie side by side -------------------------------------------

  void BuildGradient(const Range& queries, const Range& keys) {
    TaskBuilder task = NewAttentionTask();
    const View q = In(task, 0, queries), k = In(task, 1, keys), v = In(task, 2, keys);
    const View lengths = Lengths(task), statistics = In(task, 4, queries);
    const View o = In(task, 5, queries), d_o = In(task, 6, queries);
    const std::int64_t width = ResultColumns(1).size();
    const int dq = task.NewBuffer(queries.size(), ResultColumns(0).size());
    const int of_keys = task.NewBuffer(keys.size(), 2 * width);
    task.Launch(
        Kernel::kAttentionGradient,
        {task.All(dq), task.Part(of_keys, 0, 0, keys.size(), width),
         task.Part(of_keys, 0, width, keys.size(), width), q, k, v, lengths, statistics, o, d_o},
        ScalarsOf(queries, keys));
    if (IsWhole(queries)) {
      PutPart(task, 0, queries, dq, 0);
    } else if (NeedsQueries()) {
      task.Put(PartKeyOf(Kind::kOfQueries, queries, PlaceOf(keys)), task.All(dq));
    }
    if (IsWholeOfKeys(keys)) {
      PutKeys(task, keys, of_keys);
    } else if (NeedsKeys()) {
      task.Put(PartKeyOf(Kind::kOfKeys, keys, PlaceOf(queries)), task.All(of_keys));
    }
    AddSquare(std::move(task), queries, keys);
  }

  bool NeedsQueries() const { return IsRead(0); }
  bool NeedsKeys() const { return IsRead(1) || IsRead(2); }
  void PutKeys(TaskBuilder& task, const Range& keys, int of_keys) const {
    PutPart(task, 1, keys, of_keys, 0);
    PutPart(task, 2, keys, of_keys, ResultColumns(1).size());
  }

  void SumQueries(const Range& queries) {
    if (!NeedsQueries()) return;
    std::vector<SumPart> parts;
    for (const Range& keys : KeysOf(queries)) {
      parts.push_back({PlaceOf(keys), PartKeyOf(Kind::kOfQueries, queries, PlaceOf(keys))});
    }
    const std::int64_t columns = ResultColumns(0).size();
    parts = Reduce(Kind::kOfQueries, queries, std::move(parts), columns, {});
    TaskBuilder task = NewAttentionTask();
    PutPart(task, 0, queries, SumOfParts(task, parts, queries.size(), columns), 0);
    AddWhole(std::move(task), Kind::kOfQueries, queries);
  }

  void SumKeys(const Range& keys) {
    if (!NeedsKeys()) return;
    std::vector<SumPart> parts;
    for (const Range& queries : queries_) {
      const Range place = PlaceOf(queries);
      parts.push_back(Sees(queries, keys) ? SumPart{place, PartKeyOf(Kind::kOfKeys, keys, place)}
                                          : SumPart{place, {}, true});
    }
    const std::int64_t columns = 2 * ResultColumns(1).size();
    parts = Reduce(Kind::kOfKeys, keys, std::move(parts), columns, {});
    TaskBuilder task = NewAttentionTask();
    PutKeys(task, keys, SumOfParts(task, parts, keys.size(), columns));
    AddWhole(std::move(task), Kind::kOfKeys, keys);
  }

  std::vector<SumPart> Reduce(Kind kind, const Range& positions, std::vector<SumPart> parts,
                              std::int64_t columns,
                              std::function<int(TaskBuilder&, const std::vector<SumPart>&)> add) {
    SumNames names;
    names.key = [&](const Range& place) { return PartKeyOf(kind, positions, place); };
    names.task_key = [&](const Range& place) {
      return TaskKeyOf(is_gradient_ ? TaskName::kBackwardSum : TaskName::kForwardSum, kind,
                       positions, place);
    };
    names.priority = Priority() + 1;
    names.segment = segment_;
    names.beside = MatricesBesideSums(context_.training);
    names.add = std::move(add);
    return ReduceParts(context_, std::move(parts), positions.size(), columns, names, &tasks_);
  }

  const model::Attention& op_;
  const bool is_gradient_;
  const bool sampled_;
  const std::int64_t positions_;
  const std::vector<Range> queries_;
  const std::vector<Range> keys_;
  std::vector<std::int64_t> counts_;  // by task in tasks_
  // Of the current tasks.
  Range sample_;
  int part_ = 0;
};

}  // namespace

bool IsAttentionInPhases(const PassContext& context, int segment) {
  return context.segments[static_cast<std::size_t>(segment)].key_span > 0;
}

std::vector<PlannedTask> PhasedAttentionTasks(const PassContext& context, int segment,
                                              const std::vector<Box>& samples) {
  PhasedAttention phases(context, segment, false);
  for (const Box& box : samples) {
    const int parts = context.segments[static_cast<std::size_t>(segment)].column_parts;
    for (int part = 0; part < parts; ++part) phases.Build(box.samples, part, 1);
  }
  return std::move(phases).Take();
}

std::vector<TaskSample> SamplePhasedAttention(
    const PassContext& context, int segment, const Box& sample,
    const std::vector<std::pair<int, std::int64_t>>& parts) {
  PhasedAttention phases(context, segment, true);
  for (const auto& [part, count] : parts) phases.Build(sample.samples, part, count);
  return std::move(phases).TakeSamples();
}

}  // namespace acan
