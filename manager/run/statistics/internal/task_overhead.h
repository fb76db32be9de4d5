// Measures what a task costs besides its computation.
#pragma once

#include "acan/manager/leadership.h"
#include "acan/manager/run_context.h"

namespace acan {

// In microseconds, estimated from some round trips to the broker; takes about 20 ms.
double MeasureTaskOverheadUs(RunContext& context, Leadership& leadership);

}  // namespace acan
