// SpentResults: finds the results of a unit that are no longer needed while the unit continues,
// such as activations and partial sums, because all tasks of the unit that read them are done.
// Results that no task of the unit reads are for others (tiles of the next version, losses) and
// never spent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "acan/manager/pass_tasks.h"

namespace acan {

class SpentResults {
 public:
  // Considers results of `least_bytes` or more; none if they have only few times as many together.
  SpentResults(const std::vector<PlannedTask>& tasks, std::uint64_t least_bytes);

  bool empty() const { return results_.empty(); }
  // Adds the results that are spent now to `spent`. A result is spent only after the task that
  // makes it is known to be done, too, because asking for the result is how the manager learns
  // that.
  // REQUIRES: called once for each task, by its index in `tasks`, when it is known to be done.
  void Done(std::size_t task, std::vector<tuplespace::Key>* spent);

 private:
  struct Result {
    tuplespace::Key key;
    std::size_t waits_for = 0;  // the number of tasks that are not done
  };
  std::vector<Result> results_;
  std::vector<std::vector<std::size_t>> of_task_;  // by task: what it makes or reads, in results_
};

}  // namespace acan
