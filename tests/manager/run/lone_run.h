// For tests of a run's parts that talk to nobody.
#pragma once

#include "acan/manager/run_context.h"

namespace acan {

// The context of a small job without a broker.
struct LoneRun {
  static Job SmallJob() {
    Job job;
    job.model = Perceptron{{2, 2}};
    return job;
  }

  RunSettings settings = {};
  Job job = SmallJob();
  Data data = {};
  RunContext context{settings,
                     {.endpoint = "ipc:///nobody-is-there", .name = "test", .id = {}},
                     job,
                     BuildModel(job),
                     data};
};

}  // namespace acan
