// Device: the interface between acan and the hardware that computes. A backend (CPU, OpenCL, CUDA)
// implements the methods below. Every operation that is not a matrix product is one of the kernels
// of operators.inc, which are written once and compiled by every backend.
//
// One thread at a time calls a device, not always the same one, except where a method says
// otherwise. Work may be asynchronous: the device executes calls in order, and Download and
// Synchronize wait for earlier calls. Errors of the driver and exceeded memory limits are
// exceptions (std::runtime_error, OutOfMemory); the handler turns them into a failed task with the
// device's message. DeviceLost means that the device will not compute again in this process: the
// handler ends.
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

// The type to which fast products may round their operands if that is faster; sums stay fp32. A
// device without units for the type computes in fp32.
enum class FastMath : std::uint8_t { kFp32, kTf32, kBf16 };

struct DeviceInfo {
  std::string name;                // the name for --device, such as "cpu:2"
  std::string description;         // "AMD EPYC, 2 threads, AVX-512"
  std::string backend;             // "cpu", "opencl", "cuda"
  std::string vector_isa;          // CPU: "avx512", "avx2", "portable"; empty elsewhere
  std::uint64_t memory_bytes = 0;  // of the device as a whole
  int threads = 1;                 // CPU threads or compute units
  bool exact = true;  // the device claims exact precision; the conformance run proves it
  bool fast = true;
  bool own_memory =
      false;  // its buffers are not host memory, so bytes must be copied to and from it
};

// Device memory. The last reference releases it and returns it to the budget, on any thread.
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
  Buffer* buffer = nullptr;  // null: the operand is absent (where the operation allows it)
  std::int64_t offset = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;
};

struct KernelArgs {
  std::array<Matrix, kMaxKernelMatrices> m{};
  KernelScalars scalars;
};

// The bytes of a download that may still be in progress. It keeps the source memory alive until the
// download is done.
class PendingDownload {
 public:
  virtual ~PendingDownload() = default;
  virtual bool ready() const = 0;
  // Waits for the bytes. Call it once, on any thread. Throws as Download.
  virtual tuplespace::Payload Wait() = 0;
};

// A download that is already complete.
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

  // Uninitialised memory. Throws OutOfMemory if it exceeds the budget.
  virtual BufferPtr Allocate(std::uint64_t bytes) = 0;
  // As Allocate, for a buffer that will be downloaded whole. A device whose memory is the host's
  // may allocate it from the pool given by UseResultPool, so that its bytes leave the process
  // without a copy.
  virtual BufferPtr AllocateResult(std::uint64_t bytes) { return Allocate(bytes); }
  // REQUIRES: called before the first AllocateResult. A device that cannot use a pool ignores it.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): who overrides it keeps it
  virtual void UseResultPool(std::shared_ptr<tuplespace::SharedPool> /*pool*/) {}
  // A read-only buffer with these bytes. A device whose memory is the host's keeps the payload
  // itself: no copy, but the budget is charged all the same. The buffer must never be written. Any
  // thread may call this, also while another one runs tasks, because inputs are prefetched.
  virtual BufferPtr Upload(const tuplespace::Payload& payload) = 0;
  // Copies a row-major host matrix of [to.rows, to.cols] words into `to`.
  virtual void CopyIn(const tuplespace::Payload& payload, const Matrix& to) = 0;
  // The bytes of `from`, rows packed. If `from` covers its buffer and the device's memory is the
  // host's, the payload shares the buffer, which must then not be written any more.
  virtual tuplespace::Payload Download(const BufferPtr& buffer, const Matrix& from) = 0;
  // Copies `from`, a view of `buffer`, to a matrix of the same shape in another buffer.
  virtual void Copy(const BufferPtr& buffer, const Matrix& from, const Matrix& to) {
    CopyIn(Download(buffer, from), to);
  }
  // Where the bytes of a view are in host memory, rows packed, once earlier calls are done. Null if
  // they are not in host memory, or if earlier calls may still run when this returns.
  virtual const std::byte* HostBytes(const Matrix& /*view*/) const { return nullptr; }
  // Starts a download after earlier calls; later calls may run beside it. A device that computes on
  // the calling thread has nothing to wait for: its bytes are ready.
  virtual std::unique_ptr<PendingDownload> StartDownload(const BufferPtr& buffer,
                                                         const Matrix& from) {
    return std::make_unique<ReadyDownload>(Download(buffer, from));
  }

  // No bytes; it is ready when earlier calls are done. For results that stay on the device.
  virtual std::unique_ptr<PendingDownload> StartMark() {
    Synchronize();
    return std::make_unique<ReadyDownload>(tuplespace::Payload());
  }

  // The bytes of a whole buffer. REQUIRES: a mark (StartMark) after its last change was waited for.
  // Any thread may call this, also while another one runs tasks; it does not wait for them if the
  // device can do both at once.
  virtual tuplespace::Payload Fetch(const BufferPtr& buffer) {
    const auto words = static_cast<std::int64_t>(buffer->size_bytes() / 4);
    return Download(buffer, {buffer.get(), 0, 1, words, words});
  }

  // c = op(a) * op(b), as operators.inc says for each form. Exact: every element is the canonical
  // tree over k from 0 with leaves of `block`. As k is a node of the model's tree, this is the
  // model's own sum. REQUIRES: shapes agree; block a power of two >= 16; c overlaps neither a nor
  // b.
  virtual void Gemm(GemmForm form, Precision precision, std::int64_t block, const Matrix& a,
                    const Matrix& b, const Matrix& c) = 0;

  // The number of implementations of exact products. The choice depends on the product, so a
  // conformance run checks each.
  virtual int ExactWays() const { return 1; }
  // From now on uses only the implementation `way`, in [0, ExactWays()), where the product allows
  // it. -1 is the initial state: the device chooses one that suits the product.
  virtual void UseExactWay(int /*way*/) {}

  // Gemm, then Launch(kernel, args), with the same bits. A device may run an element kernel on each
  // part of c while that part is in a cache, so that c need not go to memory and come back. This
  // pays if c is an operand of the kernel.
  virtual void GemmThen(GemmForm form, Precision precision, std::int64_t block, const Matrix& a,
                        const Matrix& b, const Matrix& c, Kernel kernel, const KernelArgs& args) {
    Gemm(form, precision, block, a, b, c);
    Launch(kernel, args);
  }

  // c = transpose(a) * b over groups of `group_rows` rows of both; the last group may have fewer.
  // The sum of each group is as Gemm computes it, and the aligned tree adds the groups' sums.
  // False: the device has no implementation for this call and did nothing. REQUIRES: as Gemm.
  virtual bool GemmGroups(Precision /*precision*/, std::int64_t /*block*/,
                          std::int64_t /*group_rows*/, const Matrix& /*a*/, const Matrix& /*b*/,
                          const Matrix& /*c*/) {
    return false;
  }

  // A kernel launch that follows a product.
  struct Following {
    Kernel kernel;
    KernelArgs args;
  };

  // Launch(kUnfold, unfold), then c = unfold.m[0] * weight^T, then `then` if it is not null. The
  // results have the same bits except for unfold.m[0], whose content is undefined afterwards, so
  // that a device need not make the unfolded image. REQUIRES: unfold.m[0] overlaps no other
  // operand.
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

  // fold.m[1] = dy * weight, then Launch(kFold, fold), with the same bits except for fold.m[1],
  // whose content is undefined afterwards. REQUIRES: fold.m[1] overlaps no other operand.
  virtual void ConvolveBack(Precision precision, std::int64_t block, const Matrix& dy,
                            const Matrix& weight, const KernelArgs& fold) {
    GemmThen(GemmForm::kBackward, precision, block, dy, weight, fold.m[1], Kernel::kFold, fold);
  }

  // Launch(kUnfold, unfold), then c = the sum over groups of group_rows rows (the last may have
  // fewer) of Gemm(kGradient) of the group's rows of dy and of unfold.m[0], added by the aligned
  // tree. The results have the same bits except for unfold.m[0], whose content is undefined
  // afterwards. False: the device has no implementation of its own for this, and the content of c
  // is undefined. REQUIRES: unfold.m[0] overlaps no other operand, nor does c.
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
