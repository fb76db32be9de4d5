// The probes of kernels.
#pragma once

#include <memory>

#include "backends_probes.h"

namespace acan::bench {

// Every kernel whose usual matrices are weights (`of_weights`) or a batch's activations, at
// `shape`. `library`, which may be null, is as for MakeGroups.
Group KernelGroup(const std::shared_ptr<WorkArea>& area, const std::shared_ptr<WorkArea>& library,
                  bool of_weights, MatrixShape shape);

}  // namespace acan::bench
