// Runs kernels: blocks one after the other, the threads of a block as fibers between its barriers.
// REQUIRES: the state's mutex is held.
#pragma once

#include <vector_types.h>

#include <cstdint>
#include <memory>
#include <string>

namespace cuda_on_cpu {

// A kernel's parameters, and how a thread calls it with them.
struct Parameters {
  void* copies = nullptr;  // of NewCopies
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

// Memory for a kernel's parameters, and its end.
void* NewCopies(std::size_t bytes);
void DeleteCopies(void* copies);

// A thread that uses what it must not is a finding; the launch ends there and the device is lost,
// as a real one is.
void RunGrid(const Launch& launch);

// ---- called by threads of kernels --------------------------------------------------------------

// `bytes` at `address` are read or written. Does not return if that is a finding.
void Touch(std::uintptr_t address, unsigned bytes, bool write);
// Four words at once.
void TouchVector(const void* address, bool write);

}  // namespace cuda_on_cpu
