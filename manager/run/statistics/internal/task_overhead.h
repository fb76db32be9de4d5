// What a task costs beside its computing.
#pragma once

#include "acan/manager/leadership.h"
#include "acan/manager/run_context.h"

namespace acan {

// In microseconds, estimated from some round trips to the broker; takes some 20 ms.
double MeasureTaskOverheadUs(RunContext& context, Leadership& leadership);

}  // namespace acan
