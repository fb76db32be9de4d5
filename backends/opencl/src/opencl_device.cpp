#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/error.h"
#include "acan/kernels/launch_check.h"
#include "acan/opencl/opencl_devices.h"
#include "attention.h"
#include "driver/session.h"
#include "fast_gemm.h"
#include "gemm.h"
#include "launch_args.h"
#include "sources.h"
#include "work_items.h"

namespace acan::opencl {
namespace {

// Charged to the budget, which it keeps alive beyond the device.
class ClBuffer final : public Buffer {
 public:
  ClBuffer(const Session& session, std::shared_ptr<MemoryBudget> budget, std::uint64_t bytes,
           bool writable)
      : Buffer(bytes), budget_(std::move(budget)), writable_(writable) {
    budget_->Charge(bytes);
    try {
      memory_ = session.NewMemory(CL_MEM_READ_WRITE, bytes);
    } catch (...) {
      budget_->Release(bytes);
      throw;
    }
  }
  ~ClBuffer() override {
    memory_ = {};
    budget_->Release(size_bytes());
  }
  ClBuffer(const ClBuffer&) = delete;
  ClBuffer& operator=(const ClBuffer&) = delete;

  cl_mem memory() const { return memory_.get(); }
  bool writable() const { return writable_; }

 private:
  std::shared_ptr<MemoryBudget> budget_;
  Memory memory_;
  bool writable_;
};

cl_mem MemoryOf(const Matrix& matrix) {
  return matrix.buffer == nullptr ? nullptr : static_cast<ClBuffer*>(matrix.buffer)->memory();
}

void CheckWritable(std::string_view what, const Matrix& matrix) {
  if (matrix.buffer != nullptr && !static_cast<ClBuffer*>(matrix.buffer)->writable()) {
    throw std::invalid_argument(fmt::format("{} is an uploaded buffer, which is read-only", what));
  }
}

// The position of a matrix in its buffer and on the host, for rectangular copies.
struct Rectangle {
  std::array<std::size_t, 3> device_origin, host_origin, size;
  std::size_t device_pitch, host_pitch;
  explicit Rectangle(const Matrix& m)
      // The offset is a column of one long row, because drivers need not accept origins beyond the
      // pitch.
      : device_origin{static_cast<std::size_t>(m.offset) * 4, 0, 0},
        host_origin{0, 0, 0},
        size{static_cast<std::size_t>(m.cols) * 4, static_cast<std::size_t>(m.rows), 1},
        device_pitch(static_cast<std::size_t>(m.rows == 1 ? m.offset + m.cols : m.stride) * 4),
        host_pitch(static_cast<std::size_t>(m.cols) * 4) {
    device_origin[1] = device_origin[0] / device_pitch;
    device_origin[0] %= device_pitch;
  }
};

// Says of each kernel whether all work-items of a group must run it, then has all kernels.
std::string SourceOfKernels(bool cpu) {
  std::string text;
  for (std::size_t i = 0; i < std::size(kKernelRows); ++i) {
    const auto kernel = static_cast<Kernel>(i);
    const bool whole = !cpu && (HasSharedRows(kernel) || HasSharedColumns(kernel));
    text += fmt::format("#define ACAN_WHOLE_{} {}\n", kKernelRows[i]->name, whole ? 1 : 0);
  }
  for (const char* part : {kElementwiseText,
                           kSharedWordsText,
                           kLanesText,
                           kReductionsText,
                           kPlacesText,
                           kRowGroupsText,
                           kGlobalPoolingText,
                           kNormsText,
                           kGroupLanesText,
                           kGroupNormText,
                           kGroupNormGradientText,
                           kTablesText,
                           kClassesText,
                           kDropoutText,
                           kNormalText,
                           kImagesText,
                           kDepthwiseText,
                           kAttentionText,
                           kAttentionGradientText,
                           kLaunchText,
                           kOperatorsText}) {
    text += part;
  }
  if (!cpu) text += kWordsText;
  return text;
}

class OpenClDevice final : public Device {
 public:
  OpenClDevice(Candidate candidate, const DeviceOptions& options)
      : budget_(std::make_shared<MemoryBudget>(options.memory_limit_bytes)),
        session_(std::move(candidate), options),
        attention_(session_) {
    const Candidate& device = session_.candidate();
    info_ = device.listing.info;
    info_.name = session_.name();
    info_.threads = session_.compute_units();
    info_.own_memory = true;
    program_ =
        session_.Build(SourceOfKernels(device.cpu),
                       fmt::format(" -DACAN_COLUMN_LANES={} -DACAN_ELEMENT_RUN={}{}", ColumnLanes(),
                                   ElementRun(), device.cpu ? "" : " -DACAN_GPU"));
    for (std::size_t i = 0; i < std::size(kKernelRows); ++i) {
      const auto kernel = static_cast<Kernel>(i);
      const bool words = !device.cpu && kernel == Kernel::kEmbeddingGradient;
      kernels_.push_back(session_.KernelOf(
          program_, words ? "acan_run_words" : fmt::format("acan_run_{}", kKernelRows[i]->name)));
      group_sizes_.push_back(GroupSizeOf(kernel, kernels_.back()));
    }
    gemm_kind_ = options.gemm.value_or(device.cpu ? GemmKind::kVector : GemmKind::kTile);
    gemm_ = MakeGemm(session_, gemm_kind_, *budget_, options.tile_shape);
  }

  // Nothing may run on memory that is about to be released.
  ~OpenClDevice() override { clFinish(session_.commands().get()); }

  const DeviceInfo& info() const override { return info_; }
  const MemoryBudget& budget() const override { return *budget_; }

  BufferPtr Allocate(std::uint64_t bytes) override {
    return std::make_shared<ClBuffer>(session_, budget_, bytes, true);
  }

  BufferPtr Upload(const tuplespace::Payload& payload) override {
    auto buffer = std::make_shared<ClBuffer>(session_, budget_, payload.size(), false);
    if (payload.empty()) return buffer;
    cl_event event = nullptr;
    const cl_int error = clEnqueueWriteBuffer(session_.uploads(), buffer->memory(), CL_TRUE, 0,
                                              payload.size(), payload.data(), 0, nullptr, &event);
    CheckBlocking(error, Event(event), "clEnqueueWriteBuffer", session_.health());
    return buffer;
  }

  void CopyIn(const tuplespace::Payload& payload, const Matrix& to) override {
    CheckCopyIn(payload.size(), to);
    CheckWritable("destination of a copy", to);
    const Rectangle r(to);
    const auto write = [&](cl_command_queue queue, cl_event* event) {
      return clEnqueueWriteBufferRect(queue, MemoryOf(to), CL_TRUE, r.device_origin.data(),
                                      r.host_origin.data(), r.size.data(), r.device_pitch, 0,
                                      r.host_pitch, 0, payload.data(), 0, nullptr, event);
    };
    session_.commands().AddBlocking("clEnqueueWriteBufferRect", write);
  }

  tuplespace::Payload Download(const BufferPtr& buffer, const Matrix& from) override {
    CheckDownload(*buffer, from);
    const Rectangle r(from);
    const std::size_t bytes = r.size[0] * r.size[1];
    // Not a vector, which would initialise every byte before the device writes it.
    const std::shared_ptr<float[]> copy(new float[bytes / 4]);
    if (from.rows == 1 || from.stride == from.cols) {
      const auto read = [&](cl_command_queue queue, cl_event* event) {
        return clEnqueueReadBuffer(queue, MemoryOf(from), CL_TRUE,
                                   static_cast<std::size_t>(from.offset) * 4, bytes, copy.get(), 0,
                                   nullptr, event);
      };
      session_.commands().AddBlocking("clEnqueueReadBuffer", read);
    } else {
      const auto read = [&](cl_command_queue queue, cl_event* event) {
        return clEnqueueReadBufferRect(queue, MemoryOf(from), CL_TRUE, r.device_origin.data(),
                                       r.host_origin.data(), r.size.data(), r.device_pitch, 0,
                                       r.host_pitch, 0, copy.get(), 0, nullptr, event);
      };
      session_.commands().AddBlocking("clEnqueueReadBufferRect", read);
    }
    return {copy, copy.get(), bytes};
  }

  void Copy(const BufferPtr& buffer, const Matrix& from, const Matrix& to) override {
    CheckCopy(*buffer, from, to);
    CheckWritable("destination of a copy", to);
    const Rectangle source(from), target(to);
    session_.commands().Add(
        "clEnqueueCopyBufferRect", [&](cl_command_queue queue, cl_event* event) {
          return clEnqueueCopyBufferRect(queue, MemoryOf(from), MemoryOf(to),
                                         source.device_origin.data(), target.device_origin.data(),
                                         source.size.data(), source.device_pitch, 0,
                                         target.device_pitch, 0, 0, nullptr, event);
        });
  }

  tuplespace::Payload Fetch(const BufferPtr& buffer) override {
    const std::uint64_t bytes = buffer->size_bytes();
    const std::shared_ptr<std::byte[]> copy(new std::byte[bytes]);
    cl_event event = nullptr;
    const cl_int error =
        clEnqueueReadBuffer(session_.uploads(), static_cast<ClBuffer&>(*buffer).memory(), CL_TRUE,
                            0, bytes, copy.get(), 0, nullptr, &event);
    CheckBlocking(error, Event(event), "clEnqueueReadBuffer", session_.health());
    return {copy, copy.get(), bytes};
  }

  void Gemm(GemmForm form, Precision precision, std::int64_t block, const Matrix& a,
            const Matrix& b, const Matrix& c) override {
    const GemmShape shape = CheckGemm(form, block, a, b, c);
    CheckWritable("gemm result", c);
    const auto operand = [](const Matrix& m, bool k_first) {
      return Operand{MemoryOf(m), m.offset, k_first ? 1 : m.stride, k_first ? m.stride : 1};
    };
    const Product product{operand(a, shape.a_k_first),
                          operand(b, shape.b_k_first),
                          MemoryOf(c),
                          c.offset,
                          c.stride,
                          shape.m,
                          shape.n,
                          shape.k,
                          block};
    // An exact product is valid as a fast one. CLBlast suits only GPUs, and may be missing or have
    // no room.
    const bool library = precision == Precision::kFast && gemm_kind_ == GemmKind::kTile;
    if (library && RunFastGemm(session_, product, *budget_)) return;
    gemm_->Run(product);
  }

  int ExactWays() const override { return gemm_->Ways(); }
  void UseExactWay(int way) override { gemm_->UseWay(way); }

  void Launch(Kernel kernel, const KernelArgs& args) override {
    const KernelRegion region = CheckLaunch(kernel, args);
    const OperatorRow& row = RowOf(kernel);
    LaunchArgs launch;
    LaunchScalars& scalars = launch.scalars;
    for (std::size_t i = 0; i < args.m.size(); ++i) {
      const Matrix& m = args.m[i];
      if (IsWritten(kernel, i)) CheckWritable(row.name, m);
      launch.memory[i] = MemoryOf(m);
      scalars.offset[i] = m.offset;
      scalars.rows[i] = m.rows;
      scalars.cols[i] = m.cols;
      scalars.stride[i] = m.stride;
    }
    std::copy(args.scalars.i.begin(), args.scalars.i.end(), scalars.i.begin());
    std::copy(args.scalars.f.begin(), args.scalars.f.end(), scalars.f.begin());
    scalars.region_rows = region.rows;
    scalars.region_cols = region.cols;
    if (attention_.Run(kernel, launch, region.rows)) return;
    const ClKernel& run = kernels_[static_cast<std::size_t>(kernel)];
    const WorkItems items = ItemsOf(kernel, region, args.scalars);
    SetArgs(session_, run, launch, LocalBytes(kernel, items.local.first * items.local.second));
    session_.Run(run, row.name, items.global, items.local);
  }

  void Synchronize() override { session_.Finish(); }

 private:
  int ColumnLanes() const { return session_.candidate().cpu ? 16 : 1; }
  int ElementRun() const { return session_.candidate().cpu ? 512 : 1; }

  WorkItems ItemsOf(Kernel kernel, const KernelRegion& region, const KernelScalars& scalars) const {
    const bool cpu = session_.candidate().cpu;
    const auto rows = static_cast<std::size_t>(region.rows);
    const auto cols = static_cast<std::size_t>(region.cols);
    const auto lanes = static_cast<std::size_t>(ColumnLanes());
    const auto elements = static_cast<std::size_t>(ElementRun());
    const std::size_t group = group_sizes_[static_cast<std::size_t>(kernel)];
    switch (region.space) {
      case KernelSpace::kElement:
        return {{(cols + elements - 1) / elements, rows}, {group, 1}};
      case KernelSpace::kRow:
        return cpu ? WorkItems{{rows, 1}, {group, 1}}
                   : ItemsOfRows(kernel, region, group, session_.candidate().row_items);
      case KernelSpace::kColumn:
        return cpu ? WorkItems{{(cols + lanes - 1) / lanes, 1}, {group, 1}}
                   : ItemsOfColumns(kernel, region, scalars, group);
      case KernelSpace::kTile:
        break;
    }
    return {{cols * ACAN_TILE_LANES, rows}, {group, 1}};
  }

  // The most work-items of a group for a kernel of the table.
  std::size_t GroupSizeOf(Kernel kernel, const ClKernel& compiled) const {
    static_assert(kLeastItems == ACAN_TILE_LANES);
    const Candidate& device = session_.candidate();
    if (device.cpu) return 1;
    const OperatorRow& row = RowOf(kernel);
    const bool together =
        row.space == KernelSpace::kTile || HasSharedRows(kernel) || HasSharedColumns(kernel);
    const std::size_t most = session_.MostGroupSize(compiled);
    if (together && most < kLeastItems) {
      throw FailureError(fmt::format("{}: groups of {} may have {} work-items, not {}",
                                     session_.name(), row.name, most, kLeastItems));
    }
    return MostItems(kernel, most, device.local_bytes);
  }

  std::shared_ptr<MemoryBudget> budget_;
  Session session_;
  AttentionTiles attention_;
  DeviceInfo info_;
  Program program_;
  std::vector<ClKernel> kernels_;
  std::vector<std::size_t> group_sizes_;  // the most work-items, for each of kernels_
  GemmKind gemm_kind_ = GemmKind::kTile;
  std::unique_ptr<opencl::Gemm> gemm_;
};

void CheckChoice(const Candidate& device, const DeviceOptions& options) {
  const DeviceListing& listing = device.listing;
  const std::string& name = listing.info.name;
  if (!listing.unusable.empty()) {
    throw FailureError(fmt::format("{} ({}) cannot be used: {}", name, listing.info.description,
                                   listing.unusable));
  }
  if (options.part && *options.part >= listing.parts) {
    throw UsageError(
        listing.parts == 0
            ? fmt::format("{} ({}) has no parts; use {}", name, listing.info.description, name)
            : fmt::format("{} has no part {}; its parts are {}/0 to {}/{}, each {}", name,
                          *options.part, name, name, listing.parts - 1, listing.parted_by));
  }
  if (options.memory_limit_bytes > listing.info.memory_bytes) {
    throw UsageError(fmt::format("{} has {} bytes of memory; a handler on it cannot hold {}", name,
                                 listing.info.memory_bytes, options.memory_limit_bytes));
  }
}

}  // namespace

DeviceList ListDevices() {
  DeviceList list;
  for (Candidate& each : FindDevices(list.problem)) list.devices.push_back(std::move(each.listing));
  return list;
}

std::unique_ptr<Device> MakeDevice(const DeviceOptions& options) {
  std::string problem;
  std::vector<Candidate> found = FindDevices(problem);
  if (found.empty()) throw FailureError("there is no OpenCL device: " + problem);
  if (options.index < 0 || static_cast<std::size_t>(options.index) >= found.size()) {
    throw UsageError(fmt::format("opencl:{} does not exist; there {}", options.index,
                                 found.size() == 1
                                     ? "is opencl:0 only"
                                     : fmt::format("are opencl:0 to opencl:{}", found.size() - 1)));
  }
  Candidate& candidate = found[static_cast<std::size_t>(options.index)];
  CheckChoice(candidate, options);
  candidate.cpu = candidate.cpu && !options.as_gpu;
  candidate.most_group_size =
      std::min(candidate.most_group_size, options.most_group_size.value_or(SIZE_MAX));
  candidate.local_bytes =
      std::min(candidate.local_bytes, options.most_local_bytes.value_or(UINT64_MAX));
  candidate.row_items = options.row_items;
  candidate.most_kernel_group_size = options.most_kernel_group_size.value_or(SIZE_MAX);
  candidate.most_allocation_bytes =
      std::min(candidate.most_allocation_bytes, options.most_allocation_bytes.value_or(UINT64_MAX));
  return std::make_unique<OpenClDevice>(std::move(candidate), options);
}

}  // namespace acan::opencl
