#include "cut_cost.h"

#include <algorithm>
#include <array>

#include "acan/manager/task_cost.h"
#include "segment_tasks.h"
#include "update_tasks.h"

namespace acan {
namespace {

// The tasks of a segment, or of the updates, by stage. The tasks of a stage wait for the stage
// before.
class Stages {
 public:
  void Add(const TaskSample& sample, const TaskCost& cost, std::int64_t boxes = 1) {
    Stage& stage = stages_.at(static_cast<std::size_t>(StageOf(sample.task.priority)));
    const std::int64_t count = boxes * sample.count;
    for (std::int64_t i = 0; i < sample.repeats; ++i) {
      stage.all_us += static_cast<double>(count) * cost.us;
    }
    stage.largest_us = std::max(stage.largest_us, cost.us);
    stage.tasks += count * sample.repeats;
  }
  double Us(const CutRequest& request) const {
    double us = 0;
    for (const Stage& stage : stages_) {
      if (stage.tasks == 0) continue;
      us +=
          StageUs(request.speed, stage.all_us, stage.largest_us, static_cast<double>(stage.tasks));
    }
    return us;
  }

 private:
  struct Stage {
    double all_us = 0, largest_us = 0;
    std::int64_t tasks = 0;
  };
  std::array<Stage, kStagesOfSegment> stages_;
};

}  // namespace

Pass FullPass(const CutRequest& request, bool train) {
  Pass pass;
  pass.job = "plan";
  pass.rows = request.training.batch;
  pass.train = train;
  pass.batch_id = train ? 0 : 1;
  return pass;
}

TaskCost CostOfTask(const CutRequest& request, const PlannedTask& planned) {
  const Task& task = planned.task;
  TaskCost cost;
  const TaskWork work = TaskWorkOf(task);
  cost.us = TaskUs(request.speed, work);
  cost.flops = work.flops;
  cost.need_bytes = NeedBytes(task);
  cost.moved_bytes = MovedBytes(task);
  const auto fits = [&](std::uint64_t bytes) { return bytes <= request.tuple_bytes; };
  cost.fits_limits = planned.inputs.size() <= request.task_inputs && IsWithinLimits(task) &&
                     std::all_of(task.pieces.begin(), task.pieces.end(),
                                 [&](const Piece& piece) {
                                   return fits(BufferSpec{piece.rows, piece.cols}.bytes());
                                 }) &&
                     std::all_of(task.outputs.begin(), task.outputs.end(),
                                 [&](const Output& output) { return fits(output.view.bytes()); });
  return cost;
}

SegmentCost CostOfSegment(const CutRequest& request, const PassContext& context, int segment,
                          std::optional<std::uint64_t> limit_bytes) {
  SegmentCost cost;
  Stages stages;
  for (const BoxSample& boxes : SampleBoxes(context, segment)) {
    for (const TaskSample& tasks : SampleTasks(context, segment, boxes.box)) {
      const TaskCost one = CostOfTask(request, tasks.task);
      if (limit_bytes && boxes.needs_most && (one.need_bytes > *limit_bytes || !one.fits_limits)) {
        cost.fits = false;
        return cost;
      }
      const std::int64_t count = boxes.count * tasks.count * tasks.repeats;
      stages.Add(tasks, one, boxes.count);
      cost.need_bytes = std::max(cost.need_bytes, one.need_bytes);
      cost.moved_bytes += static_cast<std::uint64_t>(count) * one.moved_bytes;
      cost.flops += static_cast<double>(count) * one.flops;
      cost.fits_limits = cost.fits_limits && one.fits_limits;
      cost.tasks += count;
    }
  }
  cost.us = stages.Us(request);
  return cost;
}

TaskCost NeedOfSegment(const CutRequest& request, const PassContext& context, int segment) {
  TaskCost need;
  for (const BoxSample& boxes : SampleBoxes(context, segment)) {
    if (!boxes.needs_most) continue;
    for (const TaskSample& tasks : SampleTasks(context, segment, boxes.box)) {
      const TaskCost one = CostOfTask(request, tasks.task);
      need.need_bytes = std::max(need.need_bytes, one.need_bytes);
      need.fits_limits = need.fits_limits && one.fits_limits;
    }
  }
  return need;
}

namespace {

PassContext ContextOf(const CutRequest& request, const GraphCuts& cuts, const ValueGrid& grid,
                      const Pass& pass) {
  return {request.model.TrainingOf(cuts.recompute),
          cuts,
          cuts.training,
          grid,
          request.training,
          pass,
          PassKeys(pass.job, pass.step, pass.batch_id)};
}

CutCost CostOf(const CutRequest& request, const PassContext& context,
               const std::vector<SegmentCost>& segments) {
  CutCost cost;
  for (const SegmentCost& segment : segments) {
    cost.step_us += segment.us;
    cost.tasks += segment.tasks;
    cost.moved_bytes += segment.moved_bytes;
    cost.flops += segment.flops;
    cost.largest_need_bytes = std::max(cost.largest_need_bytes, segment.need_bytes);
    cost.fits_limits = cost.fits_limits && segment.fits_limits;
  }
  Stages stages;
  for (const TaskSample& tasks : SampleUpdates(context)) {
    const TaskCost one = CostOfTask(request, tasks.task);
    stages.Add(tasks, one);
    cost.moved_bytes += static_cast<std::uint64_t>(tasks.count) * one.moved_bytes;
    cost.flops += static_cast<double>(tasks.count) * one.flops;
    cost.largest_need_bytes = std::max(cost.largest_need_bytes, one.need_bytes);
    cost.fits_limits = cost.fits_limits && one.fits_limits;
    cost.tasks += tasks.count;
  }
  cost.step_us += stages.Us(request);
  return cost;
}

}  // namespace

CutCost CostOf(const CutRequest& request, const GraphCuts& cuts,
               const std::vector<SegmentCost>& segments) {
  const Pass pass = FullPass(request, true);
  const ValueGrid grid(request.model.TrainingOf(cuts.recompute), cuts, cuts.training);
  return CostOf(request, ContextOf(request, cuts, grid, pass), segments);
}

CutCost CostOf(const CutRequest& request, const GraphCuts& cuts) {
  const Pass pass = FullPass(request, true);
  const ValueGrid grid(request.model.TrainingOf(cuts.recompute), cuts, cuts.training);
  const PassContext context = ContextOf(request, cuts, grid, pass);
  std::vector<SegmentCost> segments;
  for (int s = 0; s < static_cast<int>(cuts.training.size()); ++s) {
    segments.push_back(CostOfSegment(request, context, s));
  }
  return CostOf(request, context, segments);
}

}  // namespace acan
