#include "fast_gemm.h"

#if defined(ACAN_CLBLAST)

#include <clblast.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace acan::opencl {

bool RunFastGemm(Session& session, const Product& p, MemoryBudget& budget) {
  using clblast::Transpose;
  const auto size = [](std::int64_t v) { return static_cast<std::size_t>(v); };
  const bool a_k_first = p.a.k_stride != 1;
  const bool b_k_first = p.b.k_stride != 1;
  const auto a_transpose = a_k_first ? Transpose::kYes : Transpose::kNo;
  const auto b_transpose = b_k_first ? Transpose::kNo : Transpose::kYes;
  // For a single row the stride is meaningless, but CLBlast requires that it is at least the width.
  const std::size_t a_stride =
      size(a_k_first ? std::max(p.a.k_stride, p.m) : std::max(p.a.row_stride, p.k));
  const std::size_t b_stride =
      size(b_k_first ? std::max(p.b.k_stride, p.n) : std::max(p.b.row_stride, p.k));
  const std::size_t c_stride = size(std::max(p.c_stride, p.n));
  cl_command_queue queue = session.commands().get();
  const auto check = [&](clblast::StatusCode status, const char* call) {
    if (status == clblast::StatusCode::kSuccess) return;
    const int code = static_cast<int>(status);
    if (code >= CL_INVALID_GLOBAL_WORK_SIZE) session.health().Check(code, call);
    throw std::runtime_error(
        fmt::format("{} on {}: CLBlast status {}", call, session.name(), code));
  };
  std::size_t bytes = 0;
  check(clblast::GemmTempBufferSize<float>(clblast::Layout::kRowMajor, a_transpose, b_transpose,
                                           size(p.m), size(p.n), size(p.k), size(p.a.offset),
                                           a_stride, size(p.b.offset), b_stride, size(p.c_offset),
                                           c_stride, &queue, bytes),
        "GemmTempBufferSize");
  Memory scratch;
  if (bytes != 0) {
    if (bytes > budget.limit_bytes() - budget.used_bytes()) return false;
    budget.Charge(bytes);
  }
  try {
    if (bytes != 0) scratch = session.NewMemory(CL_MEM_READ_WRITE, bytes);
  } catch (const OutOfMemory&) {
    // The operands fit. CLBlast packs all three into one buffer, which may be larger than the
    // device's largest, or than what the driver has left.
    budget.Release(bytes);
    return false;
  } catch (...) {
    budget.Release(bytes);
    throw;
  }
  try {
    // The event is that of the last of several kernels. It fails if one before it does, because
    // CLBlast lets each wait for the events of those before it.
    session.commands().Add("Gemm", [&](cl_command_queue, cl_event* event) {
      check(clblast::Gemm<float>(clblast::Layout::kRowMajor, a_transpose, b_transpose, size(p.m),
                                 size(p.n), size(p.k), 1.0f, p.a.memory, size(p.a.offset), a_stride,
                                 p.b.memory, size(p.b.offset), b_stride, 0.0f, p.c,
                                 size(p.c_offset), c_stride, &queue, event, scratch.get()),
            "Gemm");
      return CL_SUCCESS;
    });
    // The scratch stays charged until the product has finished with it.
    if (bytes != 0) session.Finish();
  } catch (...) {
    budget.Release(bytes);
    throw;
  }
  budget.Release(bytes);
  return true;
}

}  // namespace acan::opencl

#else

namespace acan::opencl {

bool RunFastGemm(Session&, const Product&, MemoryBudget&) {
  return false;
}

}  // namespace acan::opencl

#endif
