// Runs kernels: one block after the other; the threads of a block are fibers that switch at its
// barriers. REQUIRES: the state's mutex is held.
#pragma once

#include <vector_types.h>

#include <cstdint>
#include <memory>
#include <string>

namespace cuda_on_cpu {

// A copy of a kernel's parameters, and the function that calls the kernel with them.
struct Parameters {
  void* copies = nullptr;  // from NewCopies
  std::size_t bytes = 0;
  void (*call)(const void* function, const void* copies) = nullptr;
};

struct KernelInfo {
  const void* function = nullptr;
  std::string name;
  unsigned most_threads = 1024;  // of a block
  std::size_t local_bytes = 0;   // of one thread
  Parameters (*copy)(void** parameters) = nullptr;
};

struct Launch {
  const KernelInfo* kernel = nullptr;
  dim3 grid, block;
  Parameters parameters;
  std::size_t shared_bytes = 0;  // dynamic, of a block
  std::shared_ptr<void> owner;   // of the copies
  int device = 0;
};

// Allocates memory for a kernel's parameters.
void* NewCopies(std::size_t bytes);
void DeleteCopies(void* copies);

// Runs all blocks. A forbidden access of a thread is a finding; it ends the launch and loses the
// device, as on a real GPU.
void RunGrid(const Launch& launch);

// ---- called by threads of kernels --------------------------------------------------------------

// Reports an access to `bytes` bytes at `address`. Does not return if it is a finding.
void Touch(std::uintptr_t address, unsigned bytes, bool write);
// Reports an access to four words at once.
void TouchVector(const void* address, bool write);

}  // namespace cuda_on_cpu
