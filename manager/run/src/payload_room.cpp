#include "payload_room.h"

#include <algorithm>
#include <cstdint>

#include "acan/manager/kept_metrics.h"
#include "acan/manager/pass_tasks.h"
#include "acan/manager/task_cost.h"
#include "fmt/format.h"

namespace acan {
namespace {

constexpr std::uint64_t kStepsInSpace = 4;  // three that are not finished, and a safe version
constexpr std::uint64_t kMiB = 1 << 20;

}  // namespace

std::string PayloadsText(const RunContext& context, const Plan& plan) {
  Pass pass;
  pass.rows = std::min(context.job.training.batch, context.data.train_samples());
  const PassTasks tasks(context.planned, context.job.training, plan);
  std::uint64_t of_step = 0;
  for (const PlannedTask& task : tasks.Tasks(pass)) of_step += MovedBytes(task.task);
  const std::uint64_t bytes = kStepsInSpace * of_step + KeptMetrics::BytesOf(context.Steps());
  return fmt::format(
      "the broker may not hold enough payloads for this job: {0}MiB is enough (acan broker "
      "--payloads {0}MiB, or ACAN_PAYLOADS={0}MiB for acan train)",
      (bytes + kMiB - 1) / kMiB);
}

}  // namespace acan
