#include "acan/cpu/cpu_device.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "acan/core/error.h"
#include "acan/kernels/launch_check.h"
#include "device/cpu_buffer.h"
#include "device/host_memory.h"
#include "device/partition.h"
#include "device/thread_pool.h"
#include "device/wide_rows.h"
#include "isa/isa.h"
#include "products/onednn.h"
#include "products/openblas.h"

namespace acan {
namespace {

constexpr std::size_t kAlignmentBytes = HostMemory::kAlignmentBytes;
constexpr std::uint64_t kScratchPerThreadBytes = 12u << 20;
constexpr std::uint64_t kMinScratchBytes = cpu::kFixedScratchFloats * 4;

float* Address(const Matrix& matrix) {
  return matrix.buffer == nullptr ? nullptr
                                  : static_cast<CpuBuffer*>(matrix.buffer)->data() + matrix.offset;
}

void CheckWritable(std::string_view what, const Matrix& matrix) {
  if (matrix.buffer != nullptr && !static_cast<CpuBuffer*>(matrix.buffer)->writable()) {
    throw std::invalid_argument(
        fmt::format("{} is an uploaded or downloaded buffer, which is read-only", what));
  }
}

std::string ReadCpuModelName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

const std::string& CpuModelName() {
  static const std::string kName = ReadCpuModelName();
  return kName;
}

cpu::LaunchArgs LaunchArgsOf(Kernel kernel, const KernelArgs& args) {
  cpu::LaunchArgs launch{};
  for (std::size_t i = 0; i < args.m.size(); ++i) {
    const Matrix& m = args.m[i];
    if (IsWritten(kernel, i)) CheckWritable(RowOf(kernel).name, m);
    launch.m[i] = {Address(m), m.rows, m.cols, m.stride};
  }
  std::copy(args.scalars.f.begin(), args.scalars.f.end(), launch.f);
  std::copy(args.scalars.i.begin(), args.scalars.i.end(), launch.i);
  return launch;
}

cpu::GemmProblem ProblemOf(const GemmShape& shape, std::int64_t block, const Matrix& a,
                           const Matrix& b, const Matrix& c) {
  const auto operand = [](const Matrix& m, bool k_first) {
    return cpu::Operand{Address(m), k_first ? 1 : m.stride, k_first ? m.stride : 1};
  };
  return {operand(a, shape.a_k_first),
          operand(b, shape.b_k_first),
          Address(c),
          c.stride,
          shape.m,
          shape.n,
          shape.k,
          block,
          nullptr,
          0,
          0};
}

cpu::View ViewOf(const Matrix& m) {
  return {Address(m), m.rows, m.cols, m.stride};
}

// From the scalars of kUnfold.
std::int64_t OutputWidth(const KernelScalars& window) {
  return (window.i[1] + 2 * window.i[7] - window.i[3]) / window.i[5] + 1;
}

bool SameView(const Matrix& x, const Matrix& y) {
  return x.buffer == y.buffer && x.offset == y.offset && x.rows == y.rows && x.cols == y.cols &&
         x.stride == y.stride;
}

// Whether `kernel` may run on a part of c while the product still computes others: it works element
// by element over c's shape, writes nothing that the product reads, and of c's own buffer reads and
// writes only the element at which it is. Shapes alone do not tell: kTranspose of a square c reads
// elements that are not computed yet, which have what the buffer's memory had before.
bool RunsByParts(Kernel kernel, const KernelArgs& args, const Matrix& a, const Matrix& b,
                 const Matrix& c) {
  const KernelRegion region = CheckLaunch(kernel, args);
  if (region.space != KernelSpace::kElement || region.rows != c.rows || region.cols != c.cols) {
    return false;
  }
  const auto& operands = RowOf(kernel).operands;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Matrix& m = args.m[i];
    if (m.buffer == nullptr) continue;
    if (m.buffer == c.buffer && !(operands[i].at_element && SameView(m, c))) return false;
    const bool read_by_product = m.buffer == a.buffer || m.buffer == b.buffer;
    if (read_by_product && IsWritten(kernel, i)) return false;
  }
  return true;
}

const cpu::IsaTable& TableOf(CpuIsa isa) {
#if defined(ACAN_CPU_AVX512)
  if (isa == CpuIsa::kAvx512) return cpu::kAvx512Table;
#endif
#if defined(ACAN_CPU_AVX2)
  if (isa == CpuIsa::kAvx2) return cpu::kAvx2Table;
#endif
  (void)isa;
  return cpu::kPortableTable;
}

class CpuDevice final : public Device {
 public:
  CpuDevice(const CpuDeviceOptions& options, CpuIsa isa)
      : CpuDevice(options.threads, options.memory_limit_bytes, isa) {
    bf16_ = options.fast_math == FastMath::kBf16 && CpuBf16Problem().empty();
    if (bf16_) info_.description += ", fast products in bf16";
  }
  CpuDevice(int threads, std::uint64_t limit_bytes, CpuIsa isa)
      : memory_(std::make_shared<HostMemory>(limit_bytes)), table_(TableOf(isa)), pool_(threads) {
    info_.name = fmt::format("cpu:{}", threads);
    info_.description = fmt::format("{}, {} thread{}, {}", CpuModelName(), threads,
                                    threads == 1 ? "" : "s", CpuIsaName(isa));
    if (const auto better = CpuIsaNotBuilt()) {
      info_.description += fmt::format(" (this program was built without {})", CpuIsaName(*better));
    }
    info_.backend = "cpu";
    info_.vector_isa = CpuIsaName(isa);
    info_.memory_bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                         static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
    info_.threads = threads;
    const std::uint64_t scratch_bytes = CpuScratchBytes(threads, limit_bytes);
    if (scratch_bytes != 0) {
      scratch_ = std::make_unique<CpuBuffer>(memory_, scratch_bytes);
      scratch_floats_ = static_cast<std::int64_t>(scratch_bytes) / threads / 4;
    }
  }

  const DeviceInfo& info() const override { return info_; }
  const MemoryBudget& budget() const override { return memory_->budget(); }

  BufferPtr Allocate(std::uint64_t bytes) override {
    return std::make_shared<CpuBuffer>(memory_, bytes);
  }
  BufferPtr AllocateResult(std::uint64_t bytes) override {
    return std::make_shared<CpuBuffer>(memory_, bytes, CpuBuffer::Use::kResult);
  }
  void UseResultPool(std::shared_ptr<tuplespace::SharedPool> pool) override {
    memory_->UsePool(std::move(pool));
  }

  BufferPtr Upload(const tuplespace::Payload& payload) override {
    if (reinterpret_cast<std::uintptr_t>(payload.data()) % alignof(float) == 0) {
      return std::make_shared<CpuBuffer>(memory_, payload);
    }
    auto copy = std::make_shared<CpuBuffer>(memory_, payload.size());
    std::memcpy(copy->data(), payload.data(), payload.size());
    return copy;
  }

  void CopyIn(const tuplespace::Payload& payload, const Matrix& to) override {
    CheckCopyIn(payload.size(), to);
    CheckWritable("destination of a copy", to);
    const std::size_t row_bytes = static_cast<std::size_t>(to.cols) * 4;
    float* out = Address(to);
    for (std::int64_t r = 0; r < to.rows; ++r) {
      std::memcpy(out + r * to.stride, payload.data() + static_cast<std::size_t>(r) * row_bytes,
                  row_bytes);
    }
  }

  const std::byte* HostBytes(const Matrix& view) const override {
    const bool packed = view.rows == 1 || view.stride == view.cols;
    return packed ? reinterpret_cast<const std::byte*>(Address(view)) : nullptr;
  }

  tuplespace::Payload Download(const BufferPtr& buffer, const Matrix& from) override {
    CheckDownload(*buffer, from);
    const std::size_t row_bytes = static_cast<std::size_t>(from.cols) * 4;
    const std::size_t bytes = row_bytes * static_cast<std::size_t>(from.rows);
    const float* in = Address(from);
    const bool packed = from.rows == 1 || from.stride == from.cols;
    if (packed && bytes == buffer->size_bytes()) {
      auto& whole = static_cast<CpuBuffer&>(*buffer);
      if (whole.region() != nullptr) whole.Publish();
      return {buffer, in, bytes, whole.region()};
    }
    const auto pack_to = [&](std::byte* to) {
      for (std::int64_t r = 0; r < from.rows; ++r, to += row_bytes) {
        std::memcpy(to, in + r * from.stride, row_bytes);
      }
    };
    if (tuplespace::SharedPool::Block block = memory_->TakeResult(bytes)) {
      pack_to(block->data);
      const tuplespace::SharedRegion* region = block.get();
      return {std::move(block), region->data, bytes, region};
    }
    auto copy = std::make_shared_for_overwrite<std::byte[]>(bytes);
    pack_to(copy.get());
    const std::byte* data = copy.get();
    return {std::move(copy), data, bytes};
  }

  void Gemm(GemmForm form, Precision precision, std::int64_t block, const Matrix& a,
            const Matrix& b, const Matrix& c) override;
  void GemmThen(GemmForm form, Precision precision, std::int64_t block, const Matrix& a,
                const Matrix& b, const Matrix& c, Kernel kernel, const KernelArgs& args) override;
  bool GemmGroups(Precision precision, std::int64_t block, std::int64_t group_rows, const Matrix& a,
                  const Matrix& b, const Matrix& c) override;
  void Convolve(Precision precision, std::int64_t block, const KernelArgs& unfold,
                const Matrix& weight, const Matrix& c, const Following* then) override;
  void ConvolveBack(Precision precision, std::int64_t block, const Matrix& dy, const Matrix& weight,
                    const KernelArgs& fold) override;
  bool ConvolveWeights(Precision precision, std::int64_t block, std::int64_t group_rows,
                       const KernelArgs& unfold, const Matrix& dy, const Matrix& c) override;
  void Launch(Kernel kernel, const KernelArgs& args) override;
  void Synchronize() override {}

 private:
  void LaunchRegion(Kernel kernel, const cpu::LaunchArgs& args, const KernelRegion& region);
  // Not inlined: each launch would pay for its kilobytes of stack.
  [[gnu::noinline]] void LaunchWide(Kernel kernel, const cpu::LaunchArgs& args,
                                    const KernelRegion& region);
  void GemmExact(const cpu::GemmProblem& problem);
  using ConvolveFunction = decltype(cpu::IsaTable::convolve);
  bool ConvolveLines(ConvolveFunction convolve, cpu::ConvolutionProblem problem,
                     std::int64_t lines);
  void GemmFast(const GemmShape& shape, std::int64_t block, const Matrix& a, const Matrix& b,
                const Matrix& c);

  std::shared_ptr<HostMemory> memory_;
  const cpu::IsaTable& table_;
  DeviceInfo info_;
  cpu::ThreadPool pool_;
  std::unique_ptr<CpuBuffer> scratch_;  // packing panels of all threads; null: the fixed ones
  std::int64_t scratch_floats_ = 0;     // of one thread
  bool bf16_ = false;                   // fast products
};

void CpuDevice::Gemm(GemmForm form, Precision precision, std::int64_t block, const Matrix& a,
                     const Matrix& b, const Matrix& c) {
  const GemmShape shape = CheckGemm(form, block, a, b, c);
  CheckWritable("gemm result", c);
  if (precision == Precision::kFast) {
    GemmFast(shape, block, a, b, c);
  } else {
    GemmExact(ProblemOf(shape, block, a, b, c));
  }
}

// An exact product is valid as a fast one.
void CpuDevice::GemmFast(const GemmShape& shape, std::int64_t block, const Matrix& a,
                         const Matrix& b, const Matrix& c) {
  if (bf16_) {
    cpu::OneDnnMultiplyBf16({shape.m, shape.n, shape.k, Address(a), a.stride, shape.a_k_first,
                             Address(b), b.stride, !shape.b_k_first, Address(c), c.stride},
                            info_.threads);
    return;
  }
  const cpu::OpenBlasLibrary* openblas = cpu::OpenBlasOrNull();
  if (openblas == nullptr) return GemmExact(ProblemOf(shape, block, a, b, c));
  const auto narrow = [](std::int64_t v) { return static_cast<int>(v); };
  openblas->set_num_threads(info_.threads);
  openblas->sgemm(CblasRowMajor, shape.a_k_first ? CblasTrans : CblasNoTrans,
                  shape.b_k_first ? CblasNoTrans : CblasTrans, narrow(shape.m), narrow(shape.n),
                  narrow(shape.k), 1.0f, Address(a), narrow(a.stride), Address(b), narrow(b.stride),
                  0.0f, Address(c), narrow(c.stride));
}

void CpuDevice::GemmThen(GemmForm form, Precision precision, std::int64_t block, const Matrix& a,
                         const Matrix& b, const Matrix& c, Kernel kernel, const KernelArgs& args) {
  const GemmShape shape = CheckGemm(form, block, a, b, c);
  CheckWritable("gemm result", c);
  if (precision == Precision::kFast || !RunsByParts(kernel, args, a, b, c)) {
    Gemm(form, precision, block, a, b, c);
    Launch(kernel, args);
    return;
  }
  const cpu::Epilogue epilogue{static_cast<int>(kernel), LaunchArgsOf(kernel, args)};
  cpu::GemmProblem problem = ProblemOf(shape, block, a, b, c);
  problem.epilogue = &epilogue;
  GemmExact(problem);
}

// A group that is a single leaf is a leaf of another length, so the tree over groups is the tree
// over leaves.
bool CpuDevice::GemmGroups(Precision precision, std::int64_t block, std::int64_t group_rows,
                           const Matrix& a, const Matrix& b, const Matrix& c) {
  const bool is_leaf =
      group_rows <= block && group_rows >= cpu::kMinShortBlock && group_rows <= cpu::kMaxShortBlock;
  if (precision != Precision::kExact || !is_leaf) return false;
  const GemmShape shape = CheckGemm(GemmForm::kGradient, block, a, b, c);
  CheckWritable("gemm result", c);
  GemmExact(ProblemOf(shape, group_rows, a, b, c));
  return true;
}

void CpuDevice::GemmExact(const cpu::GemmProblem& problem) {
  const cpu::Grid grid = cpu::CutProduct(problem, pool_.threads());
  pool_.Run(grid.rows * grid.cols, [&](int part, int thread) {
    const cpu::GemmProblem mine = cpu::PartOf(problem, grid, part);
    if (scratch_floats_ != 0) {
      table_.gemm(mine, scratch_->data() + thread * scratch_floats_, scratch_floats_);
    } else {
      alignas(kAlignmentBytes) float fixed[cpu::kFixedScratchFloats];
      table_.gemm(mine, fixed, cpu::kFixedScratchFloats);
    }
  });
}

// Divides all lines among the threads. Returns false if there is no driver for the problem.
bool CpuDevice::ConvolveLines(ConvolveFunction convolve, cpu::ConvolutionProblem problem,
                              std::int64_t lines) {
  if (scratch_floats_ == 0) return false;
  std::atomic<bool> done{true};
  const auto parts = static_cast<int>(std::min<std::int64_t>(pool_.threads(), lines));
  pool_.Run(parts, [&](int part, int thread) {
    cpu::ConvolutionProblem mine = problem;
    mine.line_begin = lines * part / parts;
    mine.line_end = lines * (part + 1) / parts;
    if (!convolve(mine, scratch_->data() + thread * scratch_floats_, scratch_floats_)) done = false;
  });
  return done;
}

void CpuDevice::Convolve(Precision precision, std::int64_t block, const KernelArgs& unfold,
                         const Matrix& weight, const Matrix& c, const Following* then) {
  const Matrix& x = unfold.m[1];
  CheckLaunch(Kernel::kUnfold, unfold);
  CheckGemm(GemmForm::kForward, block, unfold.m[0], weight, c);
  CheckWritable("gemm result", c);
  const bool by_parts = then != nullptr && RunsByParts(then->kernel, then->args, x, weight, c);
  if (precision == Precision::kExact && x.buffer != c.buffer && weight.buffer != c.buffer) {
    cpu::Epilogue following{};
    if (by_parts) {
      following = {static_cast<int>(then->kernel), LaunchArgsOf(then->kernel, then->args)};
    }
    const cpu::LaunchArgs window = LaunchArgsOf(Kernel::kUnfold, unfold);
    const std::int64_t lines = c.rows / OutputWidth(unfold.scalars);
    const cpu::ConvolutionProblem problem{
        ViewOf(x), ViewOf(weight), ViewOf(c), window, block, by_parts ? &following : nullptr, 0, 0};
    if (ConvolveLines(table_.convolve, problem, lines)) {
      if (then != nullptr && !by_parts) Launch(then->kernel, then->args);
      return;
    }
  }
  Device::Convolve(precision, block, unfold, weight, c, then);
}

void CpuDevice::ConvolveBack(Precision precision, std::int64_t block, const Matrix& dy,
                             const Matrix& weight, const KernelArgs& fold) {
  const Matrix& dx = fold.m[0];
  CheckLaunch(Kernel::kFold, fold);
  CheckGemm(GemmForm::kBackward, block, dy, weight, fold.m[1]);
  if (precision == Precision::kExact && dx.buffer != dy.buffer && dx.buffer != weight.buffer) {
    const cpu::LaunchArgs window = LaunchArgsOf(Kernel::kFold, fold);
    const std::int64_t lines = dx.rows / fold.scalars.i[1];
    const cpu::ConvolutionProblem problem{ViewOf(dx), ViewOf(weight), ViewOf(dy), window,
                                          block,      nullptr,        0,          0};
    if (ConvolveLines(table_.convolve_back, problem, lines)) return;
  }
  Device::ConvolveBack(precision, block, dy, weight, fold);
}

bool CpuDevice::ConvolveWeights(Precision precision, std::int64_t block, std::int64_t group_rows,
                                const KernelArgs& unfold, const Matrix& dy, const Matrix& c) {
  const Matrix& x = unfold.m[1];
  CheckLaunch(Kernel::kUnfold, unfold);
  CheckGemm(GemmForm::kGradient, block, dy, unfold.m[0], c);
  CheckWritable("gemm result", c);
  if (precision != Precision::kExact || scratch_floats_ == 0) return false;
  if (c.buffer == x.buffer || c.buffer == dy.buffer) return false;
  const cpu::LaunchArgs window = LaunchArgsOf(Kernel::kUnfold, unfold);
  const int parts = pool_.threads();
  std::atomic<bool> done{true};
  pool_.Run(parts, [&](int part, int thread) {
    const cpu::WeightsProblem mine{ViewOf(x), ViewOf(dy), ViewOf(c), window,
                                   block,     group_rows, part,      parts};
    if (!table_.convolve_weights(mine, scratch_->data() + thread * scratch_floats_,
                                 scratch_floats_)) {
      done = false;
    }
  });
  return done;
}

void CpuDevice::Launch(Kernel kernel, const KernelArgs& args) {
  const KernelRegion region = CheckLaunch(kernel, args);
  const cpu::LaunchArgs launch = LaunchArgsOf(kernel, args);
  if (cpu::WideRows::MayPay(kernel, region)) return LaunchWide(kernel, launch, region);
  LaunchRegion(kernel, launch, region);
}

void CpuDevice::LaunchWide(Kernel kernel, const cpu::LaunchArgs& args, const KernelRegion& region) {
  const cpu::WideRows wide(args, region);
  if (wide.rows() == 0) return LaunchRegion(kernel, args, region);
  LaunchRegion(kernel, wide.args(), wide.region());
  if (wide.rows() == region.rows) return;
  const cpu::LaunchArgs rest = cpu::RowsFrom(args, region, wide.rows());
  LaunchRegion(kernel, rest, {region.space, region.rows - wide.rows(), region.cols});
}

void CpuDevice::LaunchRegion(Kernel kernel, const cpu::LaunchArgs& args,
                             const KernelRegion& region) {
  const cpu::Grid grid = cpu::CutLaunch(region, pool_.threads());
  pool_.Run(grid.rows * grid.cols, [&](int part, int thread) {
    float* scratch = scratch_ ? scratch_->data() + thread * scratch_floats_ : nullptr;
    table_.launch(static_cast<int>(kernel), args, cpu::PartOf(region, grid, part), scratch,
                  scratch_floats_);
  });
}

}  // namespace

std::uint64_t CpuScratchBytes(int threads, std::uint64_t memory_limit_bytes) {
  const auto count = static_cast<std::uint64_t>(threads);
  const std::uint64_t share = memory_limit_bytes / 16 / count / kAlignmentBytes * kAlignmentBytes;
  return share < kMinScratchBytes ? 0 : count * std::min(share, kScratchPerThreadBytes);
}

std::string CpuBf16Problem() {
  if (std::string problem = cpu::OneDnnProblem(); !problem.empty()) return problem;
  if (cpu::OneDnnHasBf16()) return "";
  return fmt::format("oneDNN {} multiplies bf16 on CPUs with AVX512_BF16 or AMX, this one is {}",
                     cpu::OneDnnVersion(), cpu::OneDnnIsa());
}

std::unique_ptr<Device> MakeCpuDevice(const CpuDeviceOptions& options) {
  if (options.threads < 1 || options.threads > kMaxCpuThreads) {
    throw UsageError(fmt::format("a cpu device with {} threads: must be 1 to {}", options.threads,
                                 kMaxCpuThreads));
  }
  const CpuIsa isa = options.isa.value_or(DetectCpuIsa());
  if (!CpuIsaAvailable(isa)) {
    throw UsageError(fmt::format("instruction set {} is not available on this machine; {} is",
                                 CpuIsaName(isa), CpuIsaName(DetectCpuIsa())));
  }
  return std::make_unique<CpuDevice>(options, isa);
}

}  // namespace acan
