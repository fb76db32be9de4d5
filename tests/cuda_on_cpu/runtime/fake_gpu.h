// GPUs for tests, made of the CPU. A program that links this library in place of CUDA's runtime
// runs the CUDA backend's own sources, adversarially: work runs as late as CUDA allows, in an order
// that a seed draws, and what CUDA leaves undefined is a finding.
//
// Any thread. Everything happens under one lock, kernels too: they run on the thread that waits for
// them.
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
  int threads = 0;  // that a multiprocessor can hold
  std::uint64_t memory_bytes = 0;
  std::uint64_t block_shared_bytes = 0;  // of shared memory, at most
  std::uint64_t shared_bytes = 0;        // of a multiprocessor
};

// The models that there are: sm_70 (too old for acan), sm_75, sm_80, sm_86, sm_90, "tight", which
// is an sm_75 with 160 MiB, half of which its threads' local memory takes, and "small", which is an
// sm_90 with 48 MiB.
const GpuModel& ModelNamed(std::string_view name);  // aborts if there is none

enum class Order : std::uint8_t {
  kLate,   // nothing runs before somebody waits for it
  kDrawn,  // now and then something runs that nobody waits for yet
  kEager,  // everything runs as soon as it may
};

struct Options {
  std::vector<std::string> gpus;  // names of models; cuda:0 is the first
  std::uint64_t seed = 1;
  Order order = Order::kDrawn;
  // cudaFree waits for the device: drivers do, CUDA does not promise it.
  bool free_waits = false;
};

// What the program begins with: the variables ACAN_FAKE_GPUS ("sm_90,sm_75"; without it there is no
// GPU), ACAN_FAKE_GPU_SEED, ACAN_FAKE_GPU_ORDER (late, drawn or eager), ACAN_FAKE_GPU_FAULT
// ("CALL:AFTER:ERROR" as Inject).
Options FromEnvironment();

// Begins anew: no injected faults, no lost device. Memory and streams that are there stay.
void Configure(const Options& options);

// The call of this name ("cudaMalloc") that comes behind `after` others of it fails with `error`.
// "operation" is work of a stream: it fails when it runs, and whoever waits is told. An error that
// CUDA calls sticky loses the device: everything on it fails from then on.
void Inject(std::string_view call, std::uint64_t after, cudaError_t error);

// Runs all work that is left, also that of streams that were destroyed.
void RunAll();

// ---- findings ----------------------------------------------------------------------------------

// Use of CUDA that is undefined, or wrong in a way that it would report too late. A finding is
// printed and ends the program, unless somebody collects them.
class Findings {
 public:
  Findings();
  ~Findings();
  Findings(const Findings&) = delete;
  Findings& operator=(const Findings&) = delete;
  std::vector<std::string> Take();  // those since the last call
};

// ---- what there is -----------------------------------------------------------------------------

struct Counts {
  std::uint64_t device_bytes = 0;   // that the driver has taken for cudaMalloc, rounded as it does
  std::uint64_t local_bytes = 0;    // for the threads' local memory
  std::uint64_t local_resizes = 0;  // each of which waits for the device
  std::uint64_t requested_bytes = 0;  // of the device, that are not freed
  std::uint64_t allocations = 0;      // they are in so many pieces
  std::uint64_t pinned = 0;           // pieces of pinned memory that are not freed
  std::uint64_t pinned_made = 0;      // calls of cudaHostAlloc
  std::uint64_t operations = 0;       // that ran
};
Counts CountsOf(int device);  // pinned memory is that of all of them

// The kernels that ran since Configure, by the names under which they are registered.
std::vector<std::string> KernelsThatRan();

}  // namespace cuda_on_cpu
