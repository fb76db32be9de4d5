#include "acan/manager/planned_task.h"

namespace acan {

tuplespace::Tuple ToTuple(const PlannedTask& planned, std::int64_t lease_us) {
  tuplespace::Tuple tuple;
  tuple.key = planned.key;
  tuple.payload = EncodeTask(planned.task);
  tuple.task = tuplespace::TaskSpec{planned.inputs,
                                    NeedBytes(planned.task),
                                    planned.priority,
                                    lease_us,
                                    planned.affinity,
                                    planned.not_by,
                                    {},
                                    {},
                                    planned.prefers,
                                    planned.prefer_us};
  for (const Output& output : planned.task.outputs) {
    if (!output.may_be_resident) {
      tuple.task->due.push_back(static_cast<std::uint32_t>(tuple.task->results.size()));
    }
    tuple.task->results.push_back(output.key);
    tuple.task->most_result_bytes += output.view.bytes();
  }
  return tuple;
}

}  // namespace acan
