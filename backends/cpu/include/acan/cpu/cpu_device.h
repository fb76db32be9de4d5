// The CPU as a Device. Exact products and kernels run in AVX-512, AVX2 or portable code, chosen at
// run time; all three give the same bits. Fast products use OpenBLAS, or oneDNN for bf16. If
// OpenBLAS cannot be used, fast products in fp32 are the exact ones; the first one says so on
// stderr.
//
// Memory. Buffers are charged to the budget by exactly their size. Packing scratch
// (CpuScratchBytes) is charged once, at construction. So used_bytes() of a new device equals its
// scratch, and a handler may offer limit_bytes - used_bytes. The budget does not include: the stack
// (under 128 KiB a thread) and, where the limit leaves no room for scratch, panels of 16 KiB a
// thread, which do not grow with the problem; payloads that Download makes as copies; what OpenBLAS
// and oneDNN allocate in fast precision (for bf16, 2 bytes for each element of both operands). The
// bits do not depend on the scratch.
//
// Threads. A device runs its work on `threads` threads, including the calling one; the others sleep
// between calls. Buffers and payloads may outlive the device and be released on any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "acan/core/device.h"

namespace acan {

enum class CpuIsa : std::uint8_t { kPortable, kAvx2, kAvx512 };

// "avx512", "avx2" or "portable".
std::string_view CpuIsaName(CpuIsa isa);
std::optional<CpuIsa> ParseCpuIsa(std::string_view name);

// Whether this build has the instruction set's code and this CPU can run it.
bool CpuIsaAvailable(CpuIsa isa);
// The best instruction set that is available.
CpuIsa DetectCpuIsa();
// The best instruction set of this CPU, if this build has no code for it (ACAN_CPU_ISAS).
std::optional<CpuIsa> CpuIsaNotBuilt();

struct CpuDeviceOptions {
  int threads = 1;  // 1 .. kMaxCpuThreads
  std::uint64_t memory_limit_bytes = 0;
  std::optional<CpuIsa> isa;  // unset: the best available
  // kBf16 selects oneDNN's bf16 products if CpuBf16Problem() is empty. Otherwise, and for the other
  // values, fast products use OpenBLAS in fp32.
  FastMath fast_math = FastMath::kFp32;
};

// Why fast products cannot round to bf16 on this machine, as a sentence; empty if they can.
std::string CpuBf16Problem();

inline constexpr int kMaxCpuThreads = 1024;

// The bytes of packing scratch that a device with `threads` threads charges to a budget with this
// limit: at most 1/16 of the limit.
std::uint64_t CpuScratchBytes(int threads, std::uint64_t memory_limit_bytes);

// A call returns when its work is done, so Synchronize does nothing. Launch, Gemm, CopyIn and
// Download throw std::invalid_argument for operands that break the contract, or that would write to
// a buffer made by Upload. MakeCpuDevice throws acan::Error (usage) for options out of range and
// for an `isa` that is not available.
std::unique_ptr<Device> MakeCpuDevice(const CpuDeviceOptions& options);

}  // namespace acan
