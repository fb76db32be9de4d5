// A directed scenario for a history that only one in 20,000 seeds has.
#pragma once

#include <string>

namespace acan::simulation {

// A handler keeps a result on its device and is asked for its bytes. Its message with them is
// stalled. Meanwhile the result and its task are retired, the task is put again, and the handler
// computes the same result anew. Then the answer to the earlier supply arrives before the answer to
// the new completion; it says that nobody needs that result. The new result must stay. Returns the
// violation; empty: none.
std::string RunLateSupply();

}  // namespace acan::simulation
