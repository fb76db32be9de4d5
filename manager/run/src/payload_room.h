// How much room in the space a job needs for its payloads.
#pragma once

#include <string>

#include "acan/manager/plan.h"
#include "acan/manager/run_context.h"

namespace acan {

// Says how large the broker's limit of payloads has to be at most. Makes all tasks of a step.
std::string PayloadsText(const RunContext& context, const Plan& plan);

}  // namespace acan
