// The functions that device code calls, as the host compiles them.
#pragma once

#include <vector_types.h>

namespace cuda_on_cpu {

uint3 ThreadIndex();
uint3 BlockIndex();
dim3 BlockSize();
dim3 GridSize();
void Barrier();

// The block's dynamic shared memory, aligned to 16 bytes.
float* DynamicShared();

// cp.async: copies 4, 8 or 16 bytes from the device's memory into shared memory. The bytes arrive
// as late as possible, when the thread waits for their group. Reading them earlier, or ending the
// thread before that, is a finding.
void CopyAsync(void* to, const void* from, unsigned bytes);
// Closes the thread's current group of copies.
void CommitCopies();
// Waits for all groups except the latest `prior` ones.
void AwaitCopies(unsigned prior);

}  // namespace cuda_on_cpu
