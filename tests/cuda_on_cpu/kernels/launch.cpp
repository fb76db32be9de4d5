#include "device_words.h"

#include "launch.cu"

namespace acan::cuda {
namespace {

[[maybe_unused]] const bool registered[] = {
#define ACAN_OPERATOR(number, enumerator, ...) \
  cuda_on_cpu::RegisterKernel(&Run_##enumerator, #enumerator, MostThreads(Kernel::enumerator), 0),
#include "acan/core/operators/operators.inc"
};

}  // namespace
}  // namespace acan::cuda
