// Device: the seam between acan and what computes. A backend (CPU, OpenCL, CUDA) implements the
// methods below; everything that is not a matrix product is one of the kernels of operators.inc,
// written once and compiled by every backend.
//
// A device is called by one thread at a time, not always the same, except where a method says
// otherwise. Work may be asynchronous: calls are executed in order; Download and Synchronize wait
// for what was called before. Errors of the driver and memory limits are exceptions
// (std::runtime_error, OutOfMemory); the handler turns them into a failed task with the device's
// words. DeviceLost says that the device will not compute again in this process: the handler ends.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "acan/core/memory_budget.h"
#include "acan/core/operators/kernels.h"
#include "tuplespace/payload.h"

namespace tuplespace {
class SharedPool;
}

namespace acan {

class DeviceLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Precision : std::uint8_t {
  kExact,  // fp32 with fma in the canonical order: the same bits on every device
  kFast,   // the vendor's library: the same up to rounding
};

// What fast products may round their operands to where that is faster; sums stay fp32. A device
// that has no such units computes in fp32.
enum class FastMath : std::uint8_t { kFp32, kTf32, kBf16 };

struct DeviceInfo {
  std::string name;                // "cpu:2": what --device takes
  std::string description;         // "AMD EPYC, 2 threads, AVX-512"
  std::string backend;             // "cpu", "opencl", "cuda"
  std::string vector_isa;          // CPU: "avx512", "avx2", "portable"; empty elsewhere
  std::uint64_t memory_bytes = 0;  // of the device as a whole
  int threads = 1;                 // CPU threads or compute units
  bool exact = true;  // claims what exact precision needs; the conformance run proves it
  bool fast = true;
  bool own_memory = false;  // its buffers are not the host's memory: bytes travel to and fro
};

// Device memory. Released (and given back to the budget) with the last reference, on any thread.
class Buffer {
 public:
  virtual ~Buffer() = default;
  std::uint64_t size_bytes() const { return size_bytes_; }

 protected:
  explicit Buffer(std::uint64_t size_bytes) : size_bytes_(size_bytes) {}

 private:
  std::uint64_t size_bytes_;
};
using BufferPtr = std::shared_ptr<Buffer>;

// A row-major view of 32-bit words in a buffer: element (r, c) is word offset + r * stride + c.
struct Matrix {
  Buffer* buffer = nullptr;  // null: operand absent (where the operation allows it)
  std::int64_t offset = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;
};

struct KernelArgs {
  std::array<Matrix, kMaxKernelMatrices> m{};
  KernelScalars scalars;
};

// The bytes of a download that may still be on their way. What they are read from is kept until
// then.
class PendingDownload {
 public:
  virtual ~PendingDownload() = default;
  virtual bool ready() const = 0;
  // Waits for them; once, on any thread. Throws as Download.
  virtual tuplespace::Payload Wait() = 0;
};

// One that was over at once.
class ReadyDownload final : public PendingDownload {
 public:
  explicit ReadyDownload(tuplespace::Payload payload) : payload_(std::move(payload)) {}
  bool ready() const override { return true; }
  tuplespace::Payload Wait() override { return std::move(payload_); }

 private:
  tuplespace::Payload payload_;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;
  virtual const MemoryBudget& budget() const = 0;

  // Uninitialised memory. Throws OutOfMemory beyond the budget.
  virtual BufferPtr Allocate(std::uint64_t bytes) = 0;
  // As Allocate, for what will be downloaded whole: a device whose memory is the host's may take it
  // from the pool given by UseResultPool, so that its bytes leave the process without a copy.
  virtual BufferPtr AllocateResult(std::uint64_t bytes) { return Allocate(bytes); }
  // REQUIRES: before the first AllocateResult. A device that has no use for it ignores it.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): who overrides it keeps it
  virtual void UseResultPool(std::shared_ptr<tuplespace::SharedPool> /*pool*/) {}
  // A read-only buffer with these bytes. A device whose memory is the host's keeps the payload
  // itself (no copy; charged to the budget all the same). The result must never be written.
  // Any thread may call it, also while another one runs tasks: inputs are prefetched.
  virtual BufferPtr Upload(const tuplespace::Payload& payload) = 0;
  // Copies a row-major host matrix of [to.rows, to.cols] words into `to`.
  virtual void CopyIn(const tuplespace::Payload& payload, const Matrix& to) = 0;
  // The bytes of `from`, rows packed. If it covers its buffer and the device's memory is the
  // host's, the payload shares the buffer, which must not be written any more.
  virtual tuplespace::Payload Download(const BufferPtr& buffer, const Matrix& from) = 0;
  // Copies `from`, a view of `buffer`, to a matrix of the same shape in another buffer.
  virtual void Copy(const BufferPtr& buffer, const Matrix& from, const Matrix& to) {
    CopyIn(Download(buffer, from), to);
  }
  // Where the bytes of a view lie in the host's memory, rows packed, once what was called before is
  // done; null where they do not, or where that is not sure to be the case when a call returns.
  virtual const std::byte* HostBytes(const Matrix& /*view*/) const { return nullptr; }
  // A download behind what was called before, beside what is called next. A device that computes on
  // the calling thread has nothing to wait for: its bytes are ready.
  virtual std::unique_ptr<PendingDownload> StartDownload(const BufferPtr& buffer,
                                                         const Matrix& from) {
    return std::make_unique<ReadyDownload>(Download(buffer, from));
  }

  // No bytes, ready when what was called before is done: for results that stay on the device.
  virtual std::unique_ptr<PendingDownload> StartMark() {
    Synchronize();
    return std::make_unique<ReadyDownload>(tuplespace::Payload());
  }

  // The bytes of a whole buffer behind whose last change a mark was waited for. Any thread may call
  // it, also while another one runs tasks, which it does not wait for where the device can do both.
  virtual tuplespace::Payload Fetch(const BufferPtr& buffer) {
    const auto words = static_cast<std::int64_t>(buffer->size_bytes() / 4);
    return Download(buffer, {buffer.get(), 0, 1, words, words});
  }

  // c = op(a) * op(b), as operators.inc says for each form. Exact: every element is the canonical
  // tree over k from 0 with leaves of `block` (k is a node of the model's tree, so this is the
  // model's own sum). REQUIRES: shapes agree; block a power of two >= 16; c overlaps neither a nor
  // b.
  virtual void Gemm(GemmForm form, Precision precision, std::int64_t block, const Matrix& a,
                    const Matrix& b, const Matrix& c) = 0;

  // In how many ways it may compute exact products. Which one it takes depends on the product, so a
  // conformance run proves each.
  virtual int ExactWays() const { return 1; }
  // Takes only this one from now on, in [0, ExactWays()), where the product allows it; -1: the one
  // that suits the product, as at first.
  virtual void UseExactWay(int /*way*/) {}

  // Gemm, then Launch(kernel, args), to the same bits. A device may run an element kernel on each
  // part of c while that is still near the core: then c does not go to memory and come back. For
  // that c should be an operand of the kernel.
  virtual void GemmThen(GemmForm form, Precision precision, std::int64_t block, const Matrix& a,
                        const Matrix& b, const Matrix& c, Kernel kernel, const KernelArgs& args) {
    Gemm(form, precision, block, a, b, c);
    Launch(kernel, args);
  }

  // c = transpose(a) * b over groups of `group_rows` rows of both, of which the last may have
  // fewer: the sum of each group as Gemm computes it, added by the aligned tree over the groups.
  // False where the device has no way to do this at once: nothing was done. REQUIRES: as Gemm.
  virtual bool GemmGroups(Precision /*precision*/, std::int64_t /*block*/,
                          std::int64_t /*group_rows*/, const Matrix& /*a*/, const Matrix& /*b*/,
                          const Matrix& /*c*/) {
    return false;
  }

  // A kernel's launch behind a product.
  struct Following {
    Kernel kernel;
    KernelArgs args;
  };

  // Launch(kUnfold, unfold), then c = unfold.m[0] * weight^T, then `then` if it is not null, to the
  // same bits in all but unfold.m[0]: what that has then is undefined, so that a device may do
  // without the unfolded image. REQUIRES: unfold.m[0] overlaps no other operand.
  virtual void Convolve(Precision precision, std::int64_t block, const KernelArgs& unfold,
                        const Matrix& weight, const Matrix& c, const Following* then) {
    Launch(Kernel::kUnfold, unfold);
    if (then == nullptr) {
      Gemm(GemmForm::kForward, precision, block, unfold.m[0], weight, c);
    } else {
      GemmThen(GemmForm::kForward, precision, block, unfold.m[0], weight, c, then->kernel,
               then->args);
    }
  }

  // fold.m[1] = dy * weight, then Launch(kFold, fold), to the same bits in all but fold.m[1]: what
  // that has then is undefined. REQUIRES: fold.m[1] overlaps no other operand.
  virtual void ConvolveBack(Precision precision, std::int64_t block, const Matrix& dy,
                            const Matrix& weight, const KernelArgs& fold) {
    GemmThen(GemmForm::kBackward, precision, block, dy, weight, fold.m[1], Kernel::kFold, fold);
  }

  // Launch(kUnfold, unfold), then c = the sum over the groups of group_rows rows, of which the last
  // may have fewer, of Gemm(kGradient) of the group's rows of dy and of unfold.m[0], by the aligned
  // tree; to the same bits in all but unfold.m[0]: what that has then is undefined. False: the
  // device has no way of its own for this, and what c has then is undefined. REQUIRES: unfold.m[0]
  // overlaps no other operand, nor c any.
  virtual bool ConvolveWeights(Precision /*precision*/, std::int64_t /*block*/,
                               std::int64_t /*group_rows*/, const KernelArgs& /*unfold*/,
                               const Matrix& /*dy*/, const Matrix& /*c*/) {
    return false;
  }

  // Runs one kernel of the table. REQUIRES: `args` as the table says for `kernel`.
  virtual void Launch(Kernel kernel, const KernelArgs& args) = 0;

  virtual void Synchronize() = 0;
};

}  // namespace acan
