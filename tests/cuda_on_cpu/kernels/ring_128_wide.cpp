#include "device_words.h"

#include "ring_128_wide.cu"
#include "ring_register.h"

namespace acan::cuda {
namespace {

template <bool kBKFirst>
bool RegisterAlongK(const char* name) {
  return cuda_on_cpu::RegisterKernel(&RingAlongKKernel<kBKFirst>, name, kThreads,
                                     std::size_t{ACAN_LOCAL_LEVELS} * kSums * 4);
}

[[maybe_unused]] const bool registered_along_k[] = {
    RegisterAlongK<false>("ring_128_along_k_quads_quads"),
    RegisterAlongK<true>("ring_128_along_k_quads_k")};

}  // namespace
}  // namespace acan::cuda
