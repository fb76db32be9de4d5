// The CPU as a Device: exact products and kernels in AVX-512, AVX2 or portable code, chosen at run
// time, with the same bits from each; fast products by OpenBLAS, or in bf16 by oneDNN.
//
// Memory. Buffers are charged to the budget by exactly their size. Packing scratch is charged once,
// at construction (CpuScratchBytes): used_bytes() of a new device is that, so what a handler may
// offer is limit_bytes - used_bytes. Not charged, and bounded whatever the problem: stack (under
// 128 KiB a thread) and, where the limit leaves no scratch, panels of 16 KiB a thread; payloads
// made by Download as copies; what OpenBLAS and oneDNN take in fast precision
// (for bf16 2 bytes for each element of both operands). The bits do not
// depend on the scratch.
//
// Threads. A device runs its work on `threads` threads, the calling one included; the others sleep
// between calls. Buffers and payloads may outlive the device and be released on any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "acan/core/device.h"

namespace acan {

enum class CpuIsa : std::uint8_t { kPortable, kAvx2, kAvx512 };

// "avx512", "avx2" or "portable".
std::string_view CpuIsaName(CpuIsa isa);
std::optional<CpuIsa> ParseCpuIsa(std::string_view name);

// Whether this build has the instruction set's code and this CPU can run it.
bool CpuIsaAvailable(CpuIsa isa);
// The best that is available.
CpuIsa DetectCpuIsa();
// The best of this CPU, if this build has no code for it (ACAN_CPU_ISAS).
std::optional<CpuIsa> CpuIsaNotBuilt();

struct CpuDeviceOptions {
  int threads = 1;  // 1 .. kMaxCpuThreads
  std::uint64_t memory_limit_bytes = 0;
  std::optional<CpuIsa> isa;  // nothing: the best available
  // kBf16 takes oneDNN's bf16 products where CpuBf16Problem() is empty; else, and for the others,
  // fast products are OpenBLAS' in fp32.
  FastMath fast_math = FastMath::kFp32;
};

// Why fast products cannot round to bf16 here, in a sentence; empty: they can.
std::string CpuBf16Problem();

inline constexpr int kMaxCpuThreads = 1024;

// Packing scratch that a device of so many threads charges to such a limit: at most 1/16 of it.
std::uint64_t CpuScratchBytes(int threads, std::uint64_t memory_limit_bytes);

// Work is done when a call returns, so Synchronize does nothing. Launch, Gemm, CopyIn and Download
// throw std::invalid_argument for operands that break the contract, or that would write a buffer
// made by Upload. Throws acan::Error (usage) for options out of range or an `isa` that is not
// there.
std::unique_ptr<Device> MakeCpuDevice(const CpuDeviceOptions& options);

}  // namespace acan
