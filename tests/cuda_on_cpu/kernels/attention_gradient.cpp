#include "device_words.h"

#include "attention_gradient.cu"

namespace acan::cuda {
namespace {

using cuda_on_cpu::RegisterKernel;

template <int kRows, int kBlocks>
bool RegisterGradients(const std::string& shape) {
  return RegisterKernel(&AttentionKeyGradientKernel<kRows, kBlocks>, "attention_keys_" + shape,
                        kAttentionThreads, 2 * sizeof(KeySums<kRows, kBlocks>)) &&
         RegisterKernel(&AttentionQueryGradientKernel<kRows, kBlocks>, "attention_queries_" + shape,
                        kAttentionThreads, sizeof(Level<kRows, kBlocks>) * kLevels<kRows>);
}
template <int kBlocks>
bool RegisterTerms(const char* name) {
  return RegisterKernel(&AttentionTermsKernel<kBlocks>, name, kAttentionThreads, 0);
}
[[maybe_unused]] const bool registered[] = {
    RegisterGradients<8, 1>("tall"), RegisterGradients<4, 1>("low"),
    RegisterGradients<4, 2>("wide"), RegisterTerms<1>("attention_terms_64"),
    RegisterTerms<2>("attention_terms_128")};

}  // namespace
}  // namespace acan::cuda
