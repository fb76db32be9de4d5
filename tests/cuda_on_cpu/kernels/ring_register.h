// Included after a ring_*.cu: registers its kernels.
#pragma once

namespace acan::cuda {
namespace {

constexpr const char* kWide = kTileM == 128 && kSums == 128 ? "_wide" : "";

template <bool kVector, bool kAKFirst, bool kBKFirst>
bool RegisterRing(const char* layout) {
  return cuda_on_cpu::RegisterKernel(&RingKernel<kVector, kAKFirst, kBKFirst>,
                                     "ring_" + std::to_string(kTileM) + kWide + "_" + layout,
                                     kThreads, std::size_t{ACAN_LOCAL_LEVELS} * kSums * 4);
}

[[maybe_unused]] const bool registered[] = {
    RegisterRing<true, false, false>("row_row"), RegisterRing<true, false, true>("row_k"),
    RegisterRing<true, true, true>("k_k"), RegisterRing<false, false, false>("any")};

}  // namespace
}  // namespace acan::cuda
