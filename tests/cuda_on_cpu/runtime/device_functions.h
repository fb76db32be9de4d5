// What device code calls, as the host compiles it.
#pragma once

#include <vector_types.h>

namespace cuda_on_cpu {

uint3 ThreadIndex();
uint3 BlockIndex();
dim3 BlockSize();
dim3 GridSize();
void Barrier();

// Dynamic shared memory of the block, aligned to 16 bytes.
float* DynamicShared();

// cp.async: copies 4, 8 or 16 bytes of the device's memory into shared memory. The bytes arrive as
// late as may be: when the thread waits for their group. Who reads them before that, or ends before
// that, is found.
void CopyAsync(void* to, const void* from, unsigned bytes);
// Ends a group of the thread's copies.
void CommitCopies();
// Waits for all groups but the latest `prior` ones.
void AwaitCopies(unsigned prior);

}  // namespace cuda_on_cpu
