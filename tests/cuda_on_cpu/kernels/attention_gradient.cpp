#include "device_words.h"

#include "attention_gradient.cu"

namespace acan::cuda {
namespace {

template <int kBlocks>
bool RegisterGradient(const char* name) {
  return cuda_on_cpu::RegisterKernel(&AttentionGradientKernel<kBlocks>, name, kAttentionThreads,
                                     2 * sizeof(Sums<kBlocks>) * kLevels);
}
[[maybe_unused]] const bool registered[] = {RegisterGradient<1>("attention_gradient_64"),
                                            RegisterGradient<2>("attention_gradient_128")};

}  // namespace
}  // namespace acan::cuda
