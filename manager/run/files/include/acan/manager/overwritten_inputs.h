// RequireOtherInputs: no run overwrites what its job reads.
#pragma once

#include <string>

#include "acan/manager/job.h"

namespace acan {

// Throws Error (usage) if a file that the job reads is, under whatever name, one that a run writes
// or removes in `out_dir`: its initial weights, its graph file, its data. Each Manager looks; who
// calls it before says so before data are loaded and processes started.
void RequireOtherInputs(const Job& job, const std::string& out_dir);

}  // namespace acan
