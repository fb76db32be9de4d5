// Included after a gemm_*.cu: registers its kernels.
#pragma once

namespace acan::cuda {
namespace {

constexpr std::size_t kGemmLocalBytes = ACAN_QUAD_LEVELS * ACAN_QUAD_SUMS * 4;

template <bool kVector, bool kAKFirst, bool kBKFirst>
bool RegisterGemm(const char* layout) {
  return cuda_on_cpu::RegisterKernel(&GemmKernel<kVector, kAKFirst, kBKFirst>,
                                     "gemm_" + std::to_string(ACAN_QUAD_EDGE) + "_" + layout,
                                     ACAN_QUAD_THREADS, kGemmLocalBytes);
}

[[maybe_unused]] const bool registered[] = {
    RegisterGemm<true, false, false>("row_row"), RegisterGemm<true, false, true>("row_k"),
    RegisterGemm<true, true, true>("k_k"), RegisterGemm<false, false, false>("any")};

}  // namespace
}  // namespace acan::cuda
