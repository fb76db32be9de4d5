// The plan of a model that is no perceptron.
#pragma once

#include <cstdint>
#include <optional>

#include "acan/manager/plan.h"

namespace acan {

// As MakePlan. REQUIRES: request.graphs.
std::optional<Plan> MakeGraphPlan(const PlanRequest& request, std::uint64_t* smallest_need_bytes);

}  // namespace acan
