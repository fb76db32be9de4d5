#include "device_words.h"

#include "attention.cu"

namespace acan::cuda {
namespace {

template <int kRows, int kBlocks>
bool RegisterAttention(const char* name) {
  return cuda_on_cpu::RegisterKernel(&AttentionKernel<kRows, kBlocks>, name, kAttentionThreads,
                                     sizeof(OpenNodes<kRows, kBlocks>) * kLevels<kRows>);
}
[[maybe_unused]] const bool registered[] = {RegisterAttention<8, 1>("attention_tall"),
                                            RegisterAttention<4, 1>("attention_low"),
                                            RegisterAttention<4, 2>("attention_wide")};

}  // namespace
}  // namespace acan::cuda
