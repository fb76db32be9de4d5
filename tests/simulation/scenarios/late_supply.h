// A directed scenario: a history that seeds find once in 20,000, made on purpose.
#pragma once

#include <string>

namespace acan::simulation {

// A handler keeps a result on its device and is asked for its bytes. What it sends is stalled. The
// result and its task are retired meanwhile, the task is put again, and the handler makes the same
// result anew. Then the answer to the earlier supply comes, which says that nobody needs that
// result, before the answer to the new completion. The new result must stay. Returns what was
// violated; empty: nothing.
std::string RunLateSupply();

}  // namespace acan::simulation
