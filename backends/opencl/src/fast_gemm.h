// Fast products by CLBlast, if the module was built with it.
#pragma once

#include "acan/core/memory_budget.h"
#include "gemm.h"

namespace acan::opencl {

// Enqueues the product, with sums in the library's order. Returns false, having done nothing,
// without the library, or if there is no room for its scratch in the budget or on the device.
bool RunFastGemm(Session& session, const Product& product, MemoryBudget& budget);

}  // namespace acan::opencl
