#include "cut_cost.h"

#include <algorithm>

#include "acan/manager/task_cost.h"
#include "segment_tasks.h"
#include "update_tasks.h"

namespace acan {
namespace {

WorkerSpeed SpeedOf(const CutRequest& request) {
  return {request.workers, request.slowest_share, request.gflops, request.overhead_us};
}

double StageUs(const CutRequest& request, double all_us, double largest_us, double tasks) {
  return StageUs(SpeedOf(request), all_us, largest_us, tasks);
}

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
  cost.us = TaskUs(SpeedOf(request), task);
  cost.need_bytes = NeedBytes(task);
  cost.moved_bytes = MovedBytes(task);
  const auto fits = [&](std::uint64_t bytes) { return bytes <= request.tuple_bytes; };
  cost.fits_space = planned.inputs.size() <= request.task_inputs &&
                    std::all_of(task.pieces.begin(), task.pieces.end(),
                                [&](const Piece& piece) {
                                  return fits(BufferSpec{piece.rows, piece.cols}.bytes());
                                }) &&
                    std::all_of(task.outputs.begin(), task.outputs.end(),
                                [&](const Output& output) { return fits(output.view.bytes()); });
  return cost;
}

SegmentCost CostOfSegment(const CutRequest& request, const PassContext& context, int segment) {
  SegmentCost cost;
  double all_us = 0, largest_us = 0;
  for (const BoxSample& boxes : SampleBoxes(context, segment)) {
    for (const TaskSample& tasks : SampleTasks(context, segment, boxes.box)) {
      const TaskCost one = CostOfTask(request, tasks.task);
      const std::int64_t count = boxes.count * tasks.count;
      all_us += static_cast<double>(count) * one.us;
      largest_us = std::max(largest_us, one.us);
      cost.need_bytes = std::max(cost.need_bytes, one.need_bytes);
      cost.moved_bytes += static_cast<std::uint64_t>(count) * one.moved_bytes;
      cost.fits_space = cost.fits_space && one.fits_space;
      cost.tasks += count;
    }
  }
  cost.us = StageUs(request, all_us, largest_us, static_cast<double>(cost.tasks));
  return cost;
}

TaskCost NeedOfSegment(const CutRequest& request, const PassContext& context, int segment) {
  TaskCost need;
  const std::vector<BoxSample> boxes = SampleBoxes(context, segment);
  for (const TaskSample& tasks : SampleTasks(context, segment, boxes.front().box)) {
    const TaskCost one = CostOfTask(request, tasks.task);
    need.need_bytes = std::max(need.need_bytes, one.need_bytes);
    need.fits_space = need.fits_space && one.fits_space;
  }
  return need;
}

std::uint64_t NeedOfEvaluation(const CutRequest& request, const GraphCuts& cuts) {
  const Pass pass = FullPass(request, false);
  const ValueGrid grid(request.model.evaluation, cuts, cuts.evaluation);
  const PassContext context{request.model.evaluation,
                            cuts,
                            cuts.evaluation,
                            grid,
                            request.training,
                            pass,
                            PassKeys(pass.job, pass.step, pass.batch_id)};
  std::uint64_t bytes = 0;
  for (int s = 0; s < static_cast<int>(cuts.evaluation.size()); ++s) {
    bytes = std::max(bytes, NeedOfSegment(request, context, s).need_bytes);
  }
  return bytes;
}

CutCost CostOf(const CutRequest& request, const GraphCuts& cuts) {
  CutCost cost;
  const Pass pass = FullPass(request, true);
  const ValueGrid grid(request.model.training, cuts, cuts.training);
  const PassContext context{request.model.training,
                            cuts,
                            cuts.training,
                            grid,
                            request.training,
                            pass,
                            PassKeys(pass.job, pass.step, pass.batch_id)};
  for (int s = 0; s < static_cast<int>(cuts.training.size()); ++s) {
    const SegmentCost segment = CostOfSegment(request, context, s);
    cost.step_us += segment.us;
    cost.tasks += segment.tasks;
    cost.moved_bytes += segment.moved_bytes;
    cost.largest_need_bytes = std::max(cost.largest_need_bytes, segment.need_bytes);
  }
  double all_us = 0, largest_us = 0;
  std::int64_t updates = 0;
  for (const TaskSample& tasks : SampleUpdates(context)) {
    const TaskCost one = CostOfTask(request, tasks.task);
    all_us += static_cast<double>(tasks.count) * one.us;
    largest_us = std::max(largest_us, one.us);
    cost.moved_bytes += static_cast<std::uint64_t>(tasks.count) * one.moved_bytes;
    cost.largest_need_bytes = std::max(cost.largest_need_bytes, one.need_bytes);
    updates += tasks.count;
  }
  cost.tasks += updates;
  cost.step_us += StageUs(request, all_us, largest_us, static_cast<double>(updates));
  return cost;
}

}  // namespace acan
