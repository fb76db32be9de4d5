// SpentResults: which results of a unit nobody needs any more while the unit goes on, such as
// activations and partial sums: all tasks of the unit that read them are done. What no task of the
// unit reads is for others (tiles of the next version, losses) and never spent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "acan/manager/pass_tasks.h"

namespace acan {

class SpentResults {
 public:
  // Looks at results of `least_bytes` and more.
  SpentResults(const std::vector<PlannedTask>& tasks, std::uint64_t least_bytes);

  bool empty() const { return results_.empty(); }
  // REQUIRES: called once for each task, by its place in `tasks`, when it is known to be done.
  // Adds what is spent now; a result only after the task that makes it is known to be done, too, as
  // that is found out by asking for the result.
  void Done(std::size_t task, std::vector<tuplespace::Key>* spent);

 private:
  struct Result {
    tuplespace::Key key;
    std::size_t waits_for = 0;  // tasks
  };
  std::vector<Result> results_;
  std::vector<std::vector<std::size_t>> of_task_;  // into results_, what each makes or reads
};

}  // namespace acan
