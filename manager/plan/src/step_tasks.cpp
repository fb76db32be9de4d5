#include "acan/manager/step_tasks.h"

#include <cassert>
#include <cstddef>
#include <memory>

#include "acan/core/names.h"
#include "acan/core/optimizers.h"

namespace acan {
namespace {

// Calls, inputs and results of the tasks of a step, each of which takes some 200 bytes. Steps with
// more would take too much memory, and need more time anyway.
constexpr std::size_t kMostParts = 1 << 16;

void MoveTask(std::int64_t steps, PlannedTask* task) {
  MoveBySteps(steps, &task->key);
  for (tuplespace::Key& input : task->inputs) MoveBySteps(steps, &input);
  for (Output& output : task->task.outputs) MoveBySteps(steps, &output.key);
  task->priority += steps * kPrioritiesOfStep;
}

template <typename Visit>
void ForUpdates(Kernel optimizer, std::vector<PlannedTask>& tasks, Visit visit) {
  for (PlannedTask& planned : tasks) {
    if (planned.task.kind != TaskKind::kUpdate) continue;
    for (Call& call : planned.task.calls) {
      if (!call.gemm && call.kernel == optimizer) visit(call.scalars);
    }
  }
}

}  // namespace

std::vector<PlannedTask> StepTasks::Make(const PassTasks& tasks, const Pass& pass) {
  assert(pass.train && pass.batch_id == 0);
  if (!Fits(pass)) {
    std::vector<PlannedTask> made = tasks.Tasks(pass);
    Keep(tasks, pass, &made);
    return made;
  }
  std::vector<PlannedTask> made = kept_;
  for (PlannedTask& task : made) MoveTask(pass.step - pass_.step, &task);
  ForUpdates(RowOf(tasks.training().optimizer).kernel, made, [&](KernelScalars& scalars) {
    scalars = scalars == pass_.optimizer ? pass.optimizer : pass.optimizer_without_decay;
  });
  return made;
}

bool StepTasks::Fits(const Pass& pass) const {
  const auto is_one_rule = [](const Pass& of) {
    return of.optimizer == of.optimizer_without_decay;
  };
  return !kept_.empty() && pass.job == pass_.job && pass.rows == pass_.rows &&
         pass.counted_rows == pass_.counted_rows && pass.timed == pass_.timed &&
         is_one_rule(pass) == is_one_rule(pass_);
}

void StepTasks::Keep(const PassTasks& tasks, const Pass& pass, std::vector<PlannedTask>* made) {
  Forget();
  std::size_t parts = 0;
  for (const PlannedTask& planned : *made) {
    const Task& task = planned.task;
    parts += task.calls.size() + planned.inputs.size() + task.outputs.size();
  }
  if (parts > kMostParts || !tasks.RepeatsCalls()) return;
  bool is_known = true;  // NaN is not even equal to itself
  ForUpdates(RowOf(tasks.training().optimizer).kernel, *made, [&](const KernelScalars& scalars) {
    is_known = is_known && (scalars == pass.optimizer || scalars == pass.optimizer_without_decay);
  });
  if (!is_known) return;
  for (PlannedTask& task : *made) task.encoder = std::make_shared<TaskEncoder>();
  pass_ = pass;
  kept_ = *made;
}

}  // namespace acan
