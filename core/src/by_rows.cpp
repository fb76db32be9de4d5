#include "acan/core/operators/by_rows.h"

namespace acan {

bool IsByRows(Kernel kernel) {
  switch (kernel) {
    case Kernel::kAdd:
    case Kernel::kBiasActivation:
    case Kernel::kActivationGradient:
    case Kernel::kSgd:
    case Kernel::kMomentum:
    case Kernel::kAdamW:
    case Kernel::kActivation:
    case Kernel::kMultiply:
    case Kernel::kScale:
    case Kernel::kScaleColumns:
    case Kernel::kSwiGlu:
    case Kernel::kSwiGluGradient:
    case Kernel::kColumnNorm:
    case Kernel::kColumnNormGradient:
    case Kernel::kBiasResidual:
      return true;
    default:
      return false;
  }
}

}  // namespace acan
