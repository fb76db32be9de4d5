// The probes of kernels.
#pragma once

#include <memory>

#include "backends_probes.h"

namespace acan::bench {

// Every kernel whose usual matrices are weights, or a batch's activations (`of_weights`), at
// `shape`. `library`, which may be null: as for MakeGroups.
Group KernelGroup(const std::shared_ptr<WorkArea>& area, const std::shared_ptr<WorkArea>& library,
                  bool of_weights, MatrixShape shape);

}  // namespace acan::bench
