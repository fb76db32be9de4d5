// What device code calls, as the host compiles it.
#pragma once

#include <vector_types.h>

namespace cuda_on_cpu {

uint3 ThreadIndex();
uint3 BlockIndex();
dim3 BlockSize();
dim3 GridSize();
void Barrier();

}  // namespace cuda_on_cpu
