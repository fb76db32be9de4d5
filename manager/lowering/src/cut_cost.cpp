#include "cut_cost.h"

#include <algorithm>
#include <cmath>

#include "segment_tasks.h"
#include "update_tasks.h"

namespace acan {
namespace {

// Until they are known: a CPU core, and a broker on the same machine.
constexpr double kAssumedGflops = 100;
constexpr double kAssumedOverheadUs = 80;
// What a worker reads or writes: a core's share of memory, or of the bus of a device.
constexpr double kBytesPerUs = 5000;
// Half of what a task costs is hidden: the next one's messages travel while it is computed.
constexpr double kOverheadSeen = 0.5;

double OverheadUs(const CutRequest& request) {
  return kOverheadSeen * (request.overhead_us > 0 ? request.overhead_us : kAssumedOverheadUs);
}

double FlopsPerUs(const CutRequest& request) {
  return 1e3 * (request.gflops > 0 ? request.gflops : kAssumedGflops);
}

// Tasks that need nothing of each other, given to whoever is free.
double StageUs(const CutRequest& request, double all_us, double largest_us, double tasks) {
  const double overhead = OverheadUs(request);
  const double workers = request.workers;
  const double rounds = std::ceil(tasks / workers);
  const double even = (all_us + tasks * overhead) / workers;
  const double whole = rounds * (largest_us + overhead);
  // Of unequal handlers the slowest one ends last.
  const double slowest_us = largest_us * request.slowest_share / workers;
  return std::max(even, std::min(whole, even + largest_us)) + slowest_us;
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
  cost.need_bytes = NeedBytes(task);
  cost.fits_space = planned.inputs.size() <= request.task_inputs;
  Task by_work;  // other calls take as long as their operands need to be read and written
  for (const Call& call : task.calls) {
    if (call.gemm || call.kernel == Kernel::kAttention ||
        call.kernel == Kernel::kAttentionGradient) {
      by_work.calls.push_back(call);
      continue;
    }
    for (const View& view : call.views) {
      if (view.buffer >= 0) cost.us += static_cast<double>(view.bytes()) / kBytesPerUs;
    }
  }
  cost.us += static_cast<double>(Flops(by_work)) / FlopsPerUs(request);
  for (const Piece& piece : task.pieces) {
    const std::uint64_t bytes = BufferSpec{piece.rows, piece.cols}.bytes();
    cost.moved_bytes += bytes;
    cost.fits_space = cost.fits_space && bytes <= request.tuple_bytes;
  }
  for (const Output& output : task.outputs) {
    cost.moved_bytes += output.view.bytes();
    cost.fits_space = cost.fits_space && output.view.bytes() <= request.tuple_bytes;
  }
  cost.us += static_cast<double>(cost.moved_bytes) / kBytesPerUs;
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
