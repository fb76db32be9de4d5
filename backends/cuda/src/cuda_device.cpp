#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "acan/core/error.h"
#include "acan/cuda/cuda_devices.h"
#include "acan/cuda/planted.h"
#include "acan/kernels/launch_check.h"
#include "attention_tiles.h"
#include "cublas.h"
#include "gpu.h"
#include "kernel_args.h"
#include "launch_grid.h"
#include "listing.h"
#include "memory/local_memory.h"
#include "products/exact_products.h"

namespace acan::cuda {
namespace {

constexpr std::size_t kCopySlots = 8;  // the kernels of earlier tasks are before them in the stream

// Four threads saturate the bus, and each handler of a machine has only a part of its cores.
std::size_t UploadThreads() {
  return std::clamp<std::size_t>(std::thread::hardware_concurrency() / 4, 1, 4);
}

class CudaBuffer final : public Buffer {
 public:
  CudaBuffer(std::shared_ptr<Gpu> gpu, std::uint64_t bytes, Lane lane)
      : Buffer(bytes),
        gpu_(std::move(gpu)),
        block_(gpu_->Take(bytes, lane)),
        writable_(lane == Lane::kCompute),
        uploading_(lane == Lane::kUpload && bytes > 0) {}
  ~CudaBuffer() override {
    const bool uploading = uploading_ && !IsPlanted(CudaBug::kUnusedUploadIsComputed);
    block_.busy_on = uploading ? Lane::kUpload : Lane::kCompute;
    gpu_->Give(std::move(block_), size_bytes());
  }
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;

  std::byte* bytes() const { return static_cast<std::byte*>(block_.memory.get()); }
  float* data() const { return static_cast<float*>(block_.memory.get()); }
  bool writable() const { return writable_; }

  // Records that the buffer contains what has been uploaded so far.
  void EndUpload() {
    if (IsPlanted(CudaBug::kUploadEndIsNotRecorded)) return;
    Check(cudaEventRecord(block_.event.get(), gpu_->uploads()), "cudaEventRecord", gpu_->name());
  }
  // Makes later computations wait for the upload, if there was one.
  void AwaitUpload() {
    if (!uploading_ || IsPlanted(CudaBug::kUploadIsNotAwaited)) return;
    AwaitUploadOn(gpu_->compute());
    uploading_ = false;
  }
  // The same for any stream. Buffers that were not uploaded need no wait.
  void AwaitUploadOn(cudaStream_t stream) const {
    if (writable_ || size_bytes() == 0) return;
    Check(cudaStreamWaitEvent(stream, block_.event.get(), 0), "cudaStreamWaitEvent", gpu_->name());
  }

 private:
  std::shared_ptr<Gpu> gpu_;
  Block block_;
  bool writable_;
  std::atomic<bool> uploading_;  // no work on the compute stream has waited for the upload yet
};

CudaBuffer* BufferOf(const Matrix& matrix) {
  return static_cast<CudaBuffer*>(matrix.buffer);
}

float* DataOf(const Matrix& matrix) {
  return matrix.buffer == nullptr ? nullptr : BufferOf(matrix)->data() + matrix.offset;
}

void AwaitUpload(const Matrix& matrix) {
  if (matrix.buffer != nullptr) BufferOf(matrix)->AwaitUpload();
}

void CheckWritable(std::string_view what, const Matrix& matrix) {
  if (matrix.buffer != nullptr && !BufferOf(matrix)->writable()) {
    throw std::invalid_argument(fmt::format("{} is an uploaded buffer, which is read-only", what));
  }
}

std::size_t RowBytes(const Matrix& matrix) {
  return static_cast<std::size_t>(matrix.cols) * 4;
}
// The bytes from one row to the next. For a single row the stride is meaningless.
std::size_t PitchOf(const Matrix& matrix) {
  return static_cast<std::size_t>(matrix.rows == 1 ? matrix.cols : matrix.stride) * 4;
}

// Checks a product and returns it.
Product CheckedProduct(GemmForm form, std::int64_t block, const Matrix& a, const Matrix& b,
                       const Matrix& c) {
  const GemmShape shape = CheckGemm(form, block, a, b, c);
  CheckWritable("gemm result", c);
  const auto operand = [](const Matrix& m, bool k_first) {
    return Operand{DataOf(m), k_first ? 1 : m.stride, k_first ? m.stride : 1};
  };
  return {operand(a, shape.a_k_first), operand(b, shape.b_k_first), DataOf(c), c.stride, shape.m,
          shape.n, shape.k,
          // A leaf is not longer than the sum.
          std::min(block, std::int64_t{1} << 30)};
}

// The columns of a head of attention; 1 for other kernels.
std::int64_t HeadWidthOf(Kernel kernel, const KernelArgs& args) {
  const bool forward = kernel == Kernel::kAttention;
  if (!forward && kernel != Kernel::kAttentionGradient) return 1;
  const std::int64_t heads = args.scalars.i[3] * args.scalars.i[4];
  return args.m[forward ? 2 : 3].cols / heads;
}

// A copy of a buffer's rows into pinned memory.
class CudaDownload final : public PendingDownload {
 public:
  CudaDownload(std::shared_ptr<Gpu> gpu, BufferPtr buffer, const Matrix& from)
      : gpu_(std::move(gpu)),
        buffer_(std::move(buffer)),
        bytes_(RowBytes(from) * static_cast<std::size_t>(from.rows)),
        memory_(gpu_->pinned().Take(bytes_)) {}

  // REQUIRES: called once, before anything else. If it throws, the destructor still waits for the
  // copy.
  void Start(const Matrix& from) {
    // The event has two uses: first it marks the end of the computations, then the end of the copy.
    // The thread that waits for the latter sleeps, because others may need its core.
    cudaEvent_t event = nullptr;
    Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync),
          "cudaEventCreate", gpu_->name());
    event_ = Event(event);
    Check(cudaEventRecord(event, gpu_->compute()), "cudaEventRecord", gpu_->name());
    if (!IsPlanted(CudaBug::kDownloadForgetsKernels)) {
      Check(cudaStreamWaitEvent(gpu_->downloads(), event, 0), "cudaStreamWaitEvent", gpu_->name());
    }
    const std::size_t pitch = PitchOf(from);
    if (pitch == RowBytes(from)) {
      Check(cudaMemcpyAsync(memory_.get(), DataOf(from), bytes_, cudaMemcpyDeviceToHost,
                            gpu_->downloads()),
            "cudaMemcpyAsync from the device", gpu_->name());
    } else {
      Check(cudaMemcpy2DAsync(memory_.get(), RowBytes(from), DataOf(from), pitch, RowBytes(from),
                              static_cast<std::size_t>(from.rows), cudaMemcpyDeviceToHost,
                              gpu_->downloads()),
            "cudaMemcpy2DAsync from the device", gpu_->name());
    }
    copying_ = true;
    if (IsPlanted(CudaBug::kDownloadForgetsItsBuffer)) buffer_.reset();
    if (IsPlanted(CudaBug::kDownloadEndIsNotRecorded)) return;
    Check(cudaEventRecord(event, gpu_->downloads()), "cudaEventRecord", gpu_->name());
  }
  // Neither memory may be reused while the device copies.
  ~CudaDownload() override {
    const bool wait = copying_ && !IsPlanted(CudaBug::kDroppedDownloadDoesNotWait);
    if (wait && cudaSetDevice(gpu_->ordinal()) == cudaSuccess) {
      cudaStreamSynchronize(gpu_->downloads());
    }
  }
  CudaDownload(const CudaDownload&) = delete;
  CudaDownload& operator=(const CudaDownload&) = delete;

  bool ready() const override { return HasEnded(event_.get()); }

  tuplespace::Payload Wait() override {
    gpu_->Enter();
    Check(cudaEventSynchronize(event_.get()), "cudaEventSynchronize after a download",
          gpu_->name());
    copying_ = false;
    buffer_.reset();
    const void* const data = memory_.get();
    return {std::move(memory_), data, bytes_};
  }

 private:
  std::shared_ptr<Gpu> gpu_;
  BufferPtr buffer_;
  std::size_t bytes_;
  std::shared_ptr<void> memory_;
  Event event_;
  bool copying_ = false;
};

// Marks the end of the work submitted so far.
class CudaMark final : public PendingDownload {
 public:
  explicit CudaMark(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {
    cudaEvent_t event = nullptr;
    Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync),
          "cudaEventCreate", gpu_->name());
    event_ = Event(event);
    const bool elsewhere = IsPlanted(CudaBug::kMarkIsOfUploads);
    Check(cudaEventRecord(event, elsewhere ? gpu_->uploads() : gpu_->compute()), "cudaEventRecord",
          gpu_->name());
  }

  bool ready() const override { return HasEnded(event_.get()); }

  tuplespace::Payload Wait() override {
    gpu_->Enter();
    Check(cudaEventSynchronize(event_.get()), "cudaEventSynchronize", gpu_->name());
    return {};
  }

 private:
  std::shared_ptr<Gpu> gpu_;
  Event event_;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(DeviceInfo info, const DeviceOptions& options)
      : info_(std::move(info)),
        gpu_(std::make_shared<Gpu>(options.index, info_.name, options.memory_limit_bytes)),
        upload_staging_(info_.name, options.index,
                        options.upload_threads.value_or(UploadThreads())),
        copy_staging_(info_.name, kCopySlots),
        fetch_staging_(info_.name, options.memory_limit_bytes, gpu_->fetches()),
        attention_(options.index, info_.name),
        fast_math_(options.fast_math) {
    // The first use of the context and of its code; errors in them are reported here.
    GemmGpu gemm = GemmGpuOf(options.index, info_.threads, info_.name);
    if (options.tile && !MayHaveTile(gemm, *options.tile)) {
      throw FailureError(fmt::format("{} lacks what these tiles of products need", info_.name));
    }
    const std::uint64_t bytes = WorkspaceBytesOf(options.memory_limit_bytes);
    if (bytes > 0 && (gemm.has_ring || CublasProblem().empty())) {
      workspace_ = std::make_unique<CudaBuffer>(gpu_, bytes, Lane::kCompute);
      gemm.workspace_bytes = bytes;
    }
    const bool elsewhere = IsPlanted(CudaBug::kProductsRunElsewhere);
    exact_.emplace(info_.name, gemm, GemmWay{options.tile, options.cut_k},
                   elsewhere ? gpu_->downloads() : gpu_->compute(),
                   workspace_ ? workspace_->data() : nullptr);
    WithholdWhatIsNotThere();
  }

  // Nothing may run on memory that is about to be released.
  ~CudaDevice() override {
    if (cudaSetDevice(gpu_->ordinal()) == cudaSuccess) cudaStreamSynchronize(gpu_->compute());
  }

  const DeviceInfo& info() const override { return info_; }
  const MemoryBudget& budget() const override { return gpu_->budget(); }

  BufferPtr Allocate(std::uint64_t bytes) override {
    if (!IsPlanted(CudaBug::kAllocateDoesNotEnter)) gpu_->Enter();
    return std::make_shared<CudaBuffer>(gpu_, bytes, Lane::kCompute);
  }

  BufferPtr Upload(const tuplespace::Payload& payload) override {
    gpu_->Enter();
    auto buffer = std::make_shared<CudaBuffer>(gpu_, payload.size(), Lane::kUpload);
    if (payload.empty()) return buffer;
    const std::lock_guard lock(upload_mutex_);
    upload_staging_.Copy(payload.data(), buffer->bytes(), payload.size(), gpu_->uploads());
    buffer->EndUpload();
    return buffer;
  }

  void CopyIn(const tuplespace::Payload& payload, const Matrix& to) override {
    CheckCopyIn(payload.size(), to);
    CheckWritable("destination of a copy", to);
    gpu_->Enter();
    const bool elsewhere = IsPlanted(CudaBug::kCopyInIsAnUpload);
    copy_staging_.Copy(payload.data(), reinterpret_cast<std::byte*>(DataOf(to)), RowBytes(to),
                       static_cast<std::size_t>(to.rows), PitchOf(to),
                       elsewhere ? gpu_->uploads() : gpu_->compute());
  }

  void Copy(const BufferPtr& buffer, const Matrix& from, const Matrix& to) override {
    CheckCopy(*buffer, from, to);
    CheckWritable("destination of a copy", to);
    gpu_->Enter();
    if (!IsPlanted(CudaBug::kCopyForgetsItsUpload)) AwaitUpload(from);
    const auto rows = static_cast<std::size_t>(from.rows);
    if (PitchOf(to) == RowBytes(to) && PitchOf(from) == RowBytes(from)) {  // contiguous rows
      Check(cudaMemcpyAsync(DataOf(to), DataOf(from), RowBytes(from) * rows,
                            cudaMemcpyDeviceToDevice, gpu_->compute()),
            "cudaMemcpyAsync on the device", info_.name);
      return;
    }
    Check(cudaMemcpy2DAsync(DataOf(to), PitchOf(to), DataOf(from), PitchOf(from), RowBytes(from),
                            rows, cudaMemcpyDeviceToDevice, gpu_->compute()),
          "cudaMemcpy2DAsync on the device", info_.name);
  }

  tuplespace::Payload Fetch(const BufferPtr& buffer) override {
    gpu_->Enter();
    const auto& source = static_cast<CudaBuffer&>(*buffer);
    const std::uint64_t bytes = buffer->size_bytes();
    // Ordinary memory, because pinning memory would make this thread, which serves others, wait for
    // the driver.
    std::shared_ptr<void> memory(::operator new(bytes), [](void* at) { ::operator delete(at); });
    if (!IsPlanted(CudaBug::kFetchForgetsItsUpload)) source.AwaitUploadOn(gpu_->fetches());
    fetch_staging_.Copy(source.bytes(), static_cast<std::byte*>(memory.get()), bytes);
    const void* const data = memory.get();
    return {std::move(memory), data, bytes};
  }

  std::unique_ptr<PendingDownload> StartMark() override {
    gpu_->Enter();
    return std::make_unique<CudaMark>(gpu_);
  }

  tuplespace::Payload Download(const BufferPtr& buffer, const Matrix& from) override {
    return StartDownload(buffer, from)->Wait();
  }

  std::unique_ptr<PendingDownload> StartDownload(const BufferPtr& buffer,
                                                 const Matrix& from) override {
    CheckDownload(*buffer, from);
    gpu_->Enter();
    if (!IsPlanted(CudaBug::kDownloadForgetsItsUpload)) AwaitUpload(from);
    auto download = std::make_unique<CudaDownload>(gpu_, buffer, from);
    download->Start(from);
    return download;
  }

  void Gemm(GemmForm form, Precision precision, std::int64_t block, const Matrix& a,
            const Matrix& b, const Matrix& c) override {
    const Product product = CheckedProduct(form, block, a, b, c);
    gpu_->Enter();
    if (!IsPlanted(CudaBug::kGemmForgetsItsUploads)) {
      AwaitUpload(a);
      AwaitUpload(b);
    }
    if (IsOfCublas(precision)) {
      FastGemm(product);
    } else {
      exact_->Run(product);
    }
  }

  bool GemmGroups(Precision precision, std::int64_t block, std::int64_t group_rows, const Matrix& a,
                  const Matrix& b, const Matrix& c) override {
    if (group_rows <= 0) return false;
    const Product product = CheckedProduct(GemmForm::kGradient, block, a, b, c);
    std::optional<GroupsPlan> plan;  // none for cuBLAS: the order of a fast sum is free
    if (!IsOfCublas(precision)) {
      plan = exact_->PlanOfGroups(product, group_rows);
      if (!plan) return false;
    }
    gpu_->Enter();
    if (!IsPlanted(CudaBug::kGroupsForgetTheirUploads)) {
      AwaitUpload(a);
      AwaitUpload(b);
    }
    if (plan) {
      exact_->RunGroups(product, *plan);
    } else {
      FastGemm(product);
    }
    return true;
  }

  // The operands determine the layout, so the ways differ only in tiles and cuts.
  int ExactWays() const override { return std::max(1, exact_->Ways()); }
  void UseExactWay(int way) override { exact_->UseWay(way); }

  void Launch(Kernel kernel, const KernelArgs& args) override {
    const KernelRegion region = CheckLaunch(kernel, args);
    const OperatorRow& row = RowOf(kernel);
    if (!IsPlanted(CudaBug::kLaunchDoesNotEnter)) gpu_->Enter();
    LaunchArgs launch{};
    for (std::size_t i = 0; i < args.m.size(); ++i) {
      const Matrix& m = args.m[i];
      if (IsWritten(kernel, i)) CheckWritable(row.name, m);
      AwaitUpload(m);
      launch.m[i] = {DataOf(m), m.rows, m.cols, m.stride};
    }
    std::copy(args.scalars.f.begin(), args.scalars.f.end(), launch.f);
    std::copy(args.scalars.i.begin(), args.scalars.i.end(), launch.i);
    launch.region_rows = region.rows;
    launch.region_cols = region.cols;
    void* parameters[] = {&launch};
    const std::int64_t head_width = HeadWidthOf(kernel, args);
    const auto tiles = attention_.Find(kernel, region.rows, args.scalars, head_width);
    for (const TileLaunch& each : tiles) {
      Run(each.kernel.kernel, row.name, each.grid, parameters, each.kernel.shared_bytes);
    }
    if (tiles.empty()) {
      Run(TableKernel(kernel), row.name, GridOf(kernel, region, args.scalars, head_width),
          parameters);
    }
  }

  void Synchronize() override {
    gpu_->Enter();
    Check(cudaStreamSynchronize(gpu_->uploads()), "cudaStreamSynchronize", info_.name);
    Check(cudaStreamSynchronize(gpu_->compute()), "cudaStreamSynchronize", info_.name);
  }

 private:
  // Lowers the limit by what the device does not have left, so that buffers within the limit never
  // find the device full. Other processes use the device, too, and the driver takes the threads'
  // local memory beside the limit, perhaps only when a kernel is launched.
  void WithholdWhatIsNotThere() {
    std::vector<const void*> kernels = exact_->Kernels();
    const std::vector<const void*> tiles = AttentionTiles::Kernels();
    kernels.insert(kernels.end(), tiles.begin(), tiles.end());
    for (std::size_t i = 0; i < kKernels; ++i) {
      kernels.push_back(TableKernel(static_cast<Kernel>(i)));
    }
    // This comes first, because it may load the kernels' code onto the device.
    const std::uint64_t a_thread = MostLocalBytes(kernels, info_.name);
    std::size_t free = 0, total = 0;
    Check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo", info_.name);
    const std::uint64_t local = ReserveLocalMemory(a_thread, gpu_->ordinal(), info_.name);
    const std::uint64_t left = free > local ? free - local : 0;
    const std::uint64_t promised = gpu_->budget().limit_bytes() - gpu_->budget().used_bytes();
    if (promised > left) gpu_->budget().Withhold(promised - left);
  }

  // Without cuBLAS, fast products are the exact ones.
  bool IsOfCublas(Precision precision) const {
    return precision == Precision::kFast && workspace_ && CublasProblem().empty();
  }

  void FastGemm(const Product& product) {
    if (!cublas_) {
      cublas_ = std::make_unique<Cublas>(info_.name, gpu_->compute(), fast_math_,
                                         workspace_->data(), workspace_->size_bytes());
    }
    cublas_->Run(product);
  }

  void Run(const void* kernel, std::string_view what, const Grid& grid, void** parameters,
           std::size_t shared_bytes = 0) {
    const cudaError_t error = cudaLaunchKernel(kernel, grid.blocks, grid.threads, parameters,
                                               shared_bytes, gpu_->compute());
    if (error != cudaSuccess) Check(error, fmt::format("launching {}", what), info_.name);
  }

  DeviceInfo info_;
  std::shared_ptr<Gpu> gpu_;
  std::mutex upload_mutex_;
  ParallelStaging upload_staging_;  // guarded by upload_mutex_
  Staging copy_staging_;
  FetchStaging fetch_staging_;
  AttentionTiles attention_;
  FastMath fast_math_;
  std::unique_ptr<CudaBuffer> workspace_;
  std::optional<ExactProducts> exact_;  // after the workspace
  std::unique_ptr<Cublas> cublas_;      // after its workspace
};

}  // namespace

DeviceList ListDevices() {
  return FindDevices();
}

bool HasTile(int index, GemmTile tile) {
  const std::string name = fmt::format("cuda:{}", index);
  Check(cudaSetDevice(index), "cudaSetDevice", name);
  return MayHaveTile(GemmGpuOf(index, 1, name), tile);
}

std::unique_ptr<Device> MakeDevice(const DeviceOptions& options) {
  DeviceList list = FindDevices();
  if (list.devices.empty()) throw FailureError("there is no CUDA device: " + list.problem);
  if (options.index < 0 || static_cast<std::size_t>(options.index) >= list.devices.size()) {
    throw UsageError(fmt::format(
        "cuda:{} does not exist; there {}", options.index,
        list.devices.size() == 1 ? "is cuda:0 only"
                                 : fmt::format("are cuda:0 to cuda:{}", list.devices.size() - 1)));
  }
  DeviceListing& listing = list.devices[static_cast<std::size_t>(options.index)];
  const std::string& name = listing.info.name;
  if (!listing.unusable.empty()) {
    throw FailureError(fmt::format("{} ({}) cannot be used: {}", name, listing.info.description,
                                   listing.unusable));
  }
  if (options.memory_limit_bytes > listing.info.memory_bytes) {
    throw UsageError(fmt::format("{} has {} bytes of memory; a handler on it cannot hold {}", name,
                                 listing.info.memory_bytes, options.memory_limit_bytes));
  }
  if (options.fast_math != FastMath::kFp32 && !CublasProblem().empty()) {
    throw FailureError(
        fmt::format("{}: fast products in tf32 or bf16 need cuBLAS, which is not available: {}",
                    name, CublasProblem()));
  }
  return std::make_unique<CudaDevice>(std::move(listing.info), options);
}

}  // namespace acan::cuda
