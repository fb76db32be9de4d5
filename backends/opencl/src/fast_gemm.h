// Fast products by CLBlast, where the module was built with it.
#pragma once

#include "acan/core/memory_budget.h"
#include "gemm.h"

namespace acan::opencl {

// Enqueues the product, in whatever order the library likes. False, and nothing done, without the
// library, or if its scratch would pass the budget.
bool RunFastGemm(const Session& session, const Product& product, MemoryBudget& budget);

}  // namespace acan::opencl
