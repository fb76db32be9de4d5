// Fake GPUs for tests, implemented on the CPU. A program that links this library instead of CUDA's
// runtime runs the CUDA backend's own sources under adversarial conditions: work runs as late as
// CUDA allows, in an order that a seed draws, and behaviour that CUDA leaves undefined is a
// finding.
//
// Thread-safe. Everything runs under one lock, including kernels, which run on the thread that
// waits for them.
#pragma once

#include <driver_types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cuda_on_cpu {

struct GpuModel {
  std::string_view name;  // "sm_90"
  int major = 0;          // compute capability
  int minor = 0;
  int multiprocessors = 0;
  int threads = 0;  // that fit on a multiprocessor
  std::uint64_t memory_bytes = 0;
  std::uint64_t block_shared_bytes = 0;  // maximum of shared memory
  std::uint64_t shared_bytes = 0;        // of a multiprocessor
};

// The available models: sm_70 (too old for acan), sm_75, sm_80, sm_86, sm_90, "tight" and "small".
// "tight" is an sm_75 with 320 MiB, four fifths of which its threads may need as local memory.
// "small" is an sm_90 with 48 MiB.
const GpuModel& ModelNamed(std::string_view name);  // aborts if there is none

enum class Order : std::uint8_t {
  kLate,   // only work that a call waits for, and rarely some other
  kDrawn,  // also some work that nobody waits for yet
  kEager,  // everything as soon as possible
};

struct Options {
  std::vector<std::string> gpus;  // names of models; cuda:0 is the first
  std::uint64_t seed = 1;
  Order order = Order::kDrawn;
  // Whether cudaFree waits for the device. Drivers do that, but CUDA does not promise it.
  bool free_waits = false;
};

// The options at the start of a program, from the variables ACAN_FAKE_GPUS ("sm_90,sm_75"; without
// it there is no GPU), ACAN_FAKE_GPU_SEED, ACAN_FAKE_GPU_ORDER (late, drawn or eager) and
// ACAN_FAKE_GPU_FAULT ("CALL:AFTER:ERROR", see Inject).
Options FromEnvironment();

// Starts anew, without injected faults and lost devices. Existing memory and streams remain.
void Configure(const Options& options);

// Makes a call of this name ("cudaMalloc") fail with `error`, after `after` further calls of it.
// "operation" is work of a stream, which fails when it runs; then those who wait for it get the
// error. An error that CUDA calls sticky loses the device: everything on it fails from then on.
void Inject(std::string_view call, std::uint64_t after, cudaError_t error);

// Runs all remaining work, including that of destroyed streams.
void RunAll();

// ---- findings ----------------------------------------------------------------------------------

// Collects findings: uses of CUDA that are undefined, or whose errors CUDA would report too late. A
// finding that nobody collects is printed and ends the program.
class Findings {
 public:
  Findings();
  ~Findings();
  Findings(const Findings&) = delete;
  Findings& operator=(const Findings&) = delete;
  std::vector<std::string> Take();  // since the last call
};

// ---- counts -------------------------------------------------------------------------------------

struct Counts {
  std::uint64_t device_bytes = 0;     // taken by the driver for cudaMalloc, with its rounding
  std::uint64_t local_bytes = 0;      // for the threads' local memory
  std::uint64_t local_resizes = 0;    // each one waits for the device
  std::uint64_t requested_bytes = 0;  // of the device, not freed
  std::uint64_t allocations = 0;      // number of pieces of these bytes
  std::uint64_t pinned = 0;           // pieces of pinned memory, not freed
  std::uint64_t pinned_made = 0;      // calls of cudaHostAlloc
  std::uint64_t operations = 0;       // operations that ran
  std::uint64_t launches = 0;         // of kernels, from their calls on
  bool has_context = false;           // since Configure, a thread has chosen or used the device
};
Counts CountsOf(int device);  // pinned memory is counted for all devices together

// The kernels that ran since Configure, by their registered names.
std::vector<std::string> KernelsThatRan();

}  // namespace cuda_on_cpu
