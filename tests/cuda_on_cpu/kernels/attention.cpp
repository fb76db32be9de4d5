#include "device_words.h"

#include "attention.cu"

namespace acan::cuda {
namespace {

template <int kBlocks>
bool RegisterAttention(const char* name) {
  return cuda_on_cpu::RegisterKernel(&AttentionKernel<kBlocks>, name, kAttentionThreads,
                                     sizeof(Nodes<kBlocks>) * kLevels);
}
[[maybe_unused]] const bool registered[] = {RegisterAttention<1>("attention_64"),
                                            RegisterAttention<2>("attention_128")};

}  // namespace
}  // namespace acan::cuda
