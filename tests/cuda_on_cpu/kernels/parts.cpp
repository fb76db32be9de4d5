#include "device_words.h"

#include "parts.cu"

namespace acan::cuda {
namespace {

[[maybe_unused]] const bool registered =
    cuda_on_cpu::RegisterKernel(&AddParts, "add_parts", kPartsThreads, 0);

}  // namespace
}  // namespace acan::cuda
