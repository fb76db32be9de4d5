#include "acan/manager/planned_task.h"

#include <iterator>
#include <utility>

namespace acan {

void AppendTo(std::vector<PlannedTask>* tasks, std::vector<PlannedTask> more) {
  tasks->insert(tasks->end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
}

tuplespace::Tuple ToTuple(PlannedTask&& planned, std::int64_t lease_us) {
  tuplespace::Tuple tuple;
  tuple.payload =
      planned.encoder ? planned.encoder->Encode(planned.task) : EncodeTask(planned.task);
  tuplespace::TaskSpec& spec = tuple.task.emplace();
  spec.need_bytes = NeedBytes(planned.task);
  spec.priority = planned.priority;
  spec.lease_us = lease_us;
  spec.affinity = planned.affinity;
  spec.prefer_us = planned.prefer_us;
  tuple.key = std::move(planned.key);
  spec.inputs = std::move(planned.inputs);
  spec.not_by = std::move(planned.not_by);
  spec.prefers = std::move(planned.prefers);
  spec.results.reserve(planned.task.outputs.size());
  for (Output& output : planned.task.outputs) {
    if (!output.may_be_resident) {
      spec.due.push_back(static_cast<std::uint32_t>(spec.results.size()));
    }
    spec.most_result_bytes += output.view.bytes();
    spec.results.push_back(std::move(output.key));
  }
  return tuple;
}

}  // namespace acan
