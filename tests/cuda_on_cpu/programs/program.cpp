#include "program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "acan/cuda/cuda_devices.h"
#include "fake_gpu.h"
#include "words.h"

namespace cuda_on_cpu {
namespace {

using acan::BufferPtr;
using acan::Device;
using acan::GemmForm;
using acan::Kernel;
using acan::KernelArgs;
using acan::Matrix;
using acan::PendingDownload;
using acan::Precision;
using tuplespace::Payload;

// A matrix on a device and its expected elements.
struct Value {
  BufferPtr buffer;
  Matrix view;
  Words want;  // packed, [rows, cols]
  bool uploaded = false;
};

struct Pending {
  std::unique_ptr<PendingDownload> download;
  BufferPtr source;  // not written before the download ends
  Words want;
};

struct Kept {
  Payload payload;
  Words want;
};

struct Machine {
  std::unique_ptr<Device> device;
  int gpu = 0;
  std::uint64_t limit_bytes = 0;
  std::uint64_t used_at_first = 0;
  std::vector<Value> values;
  std::vector<Pending> pending;
};

Payload PayloadOf(const Words& words) {
  return Payload::Copy(words.data(), words.size() * 4);
}

class Program {
 public:
  explicit Program(std::uint64_t seed) : random_(seed * 2654435761u + 1) {
    Options options;
    options.gpus = {"sm_90", "sm_75"};
    options.seed = seed;
    options.order = std::vector{Order::kLate, Order::kDrawn, Order::kDrawn, Order::kEager}[Draw(4)];
    options.free_waits = Draw(3) == 0;
    Configure(options);
    const std::size_t machines = 1 + Draw(2);
    for (std::size_t i = 0; i < machines; ++i) AddMachine();
  }

  std::string Run() {
    InjectFaults();
    const std::uint64_t steps = 20 + Draw(60);
    for (std::uint64_t i = 0; i < steps && wrong_.empty(); ++i) {
      Machine& machine = machines_[Draw(machines_.size())];
      try {
        Step(machine);
      } catch (const acan::OutOfMemory&) {
        Thin(machine);
      } catch (const acan::DeviceLost&) {
        if (!may_lose_) wrong_ = "a device was lost";
        lost_ = true;
      }
      CheckMemory(machine);
      if (lost_) break;
    }
    if (!lost_) CheckAll();
    return End();
  }

 private:
  std::uint64_t Draw(std::uint64_t below) { return random_() % below; }

  void AddMachine() {
    Machine machine;
    machine.gpu = static_cast<int>(Draw(2));
    if (!machines_.empty()) machine.gpu = 1 - machines_[0].gpu;
    machine.limit_bytes = std::vector<std::uint64_t>{64 << 10, 256 << 10, 20 << 20}[Draw(3)];
    acan::cuda::DeviceOptions options;
    options.index = machine.gpu;
    options.memory_limit_bytes = machine.limit_bytes;
    if (Draw(2) == 0) {
      const auto tile = acan::cuda::GemmTile(Draw(6));
      if (acan::cuda::HasTile(machine.gpu, tile)) options.tile = tile;
    }
    if (Draw(2) == 0) options.cut_k = Draw(4) != 0;
    machine.device = acan::cuda::MakeDevice(options);
    machine.used_at_first = machine.device->budget().used_bytes();
    machines_.push_back(std::move(machine));
  }

  void InjectFaults() {
    if (Draw(4) == 0) {
      // The second fault hits the retry after the cache has freed memory.
      const std::uint64_t after = Draw(12);
      for (int i = 0; i < 2; ++i) Inject("cudaMalloc", after, cudaErrorMemoryAllocation);
    }
    if (Draw(8) == 0) Inject("cudaHostAlloc", Draw(6), cudaErrorMemoryAllocation);
    may_lose_ = Draw(8) == 0;
    if (may_lose_) Inject("operation", Draw(80), cudaErrorIllegalAddress);
  }

  // Runs `call` on this thread or on a new one, whose current device is CUDA's first.
  template <typename Call>
  void Anywhere(Call call) {
    if (Draw(2) == 0) {
      call();
      return;
    }
    std::exception_ptr failed;
    std::thread([&] {
      try {
        call();
      } catch (...) {
        failed = std::current_exception();
      }
    }).join();
    if (failed) std::rethrow_exception(failed);
  }

  Words Drawn(std::int64_t rows, std::int64_t cols) {
    Words words(static_cast<std::size_t>(rows * cols));
    for (float& word : words) word = static_cast<float>(Draw(15)) - 7;
    return words;
  }
  // Only a few sizes, so that memory is reused.
  std::int64_t Size() { return std::vector<std::int64_t>{8, 16, 30, 32, 64, 67}[Draw(6)]; }

  static void Fault(std::string& wrong, const std::string& what) {
    if (wrong.empty()) wrong = what;
  }
  void Compare(const Payload& got, const Words& want, const char* what) {
    if (got.size() == want.size() * 4 && std::memcmp(got.data(), want.data(), got.size()) == 0) {
      return;
    }
    Fault(wrong_, fmt::format("{} of {} words has other bits", what, want.size()));
  }

  // An uninitialised matrix of these dimensions, sometimes with gaps between its rows.
  Value Space(Machine& machine, std::int64_t rows, std::int64_t cols) {
    Value value;
    const std::int64_t stride = cols + (Draw(3) == 0 ? static_cast<std::int64_t>(Draw(3)) : 0);
    value.buffer = machine.device->Allocate(static_cast<std::uint64_t>(rows * stride) * 4);
    value.view = {value.buffer.get(), 0, rows, cols, stride};
    return value;
  }

  Value* Any(Machine& machine) {
    return machine.values.empty() ? nullptr : &machine.values[Draw(machine.values.size())];
  }

  void Step(Machine& machine) {
    switch (Draw(14)) {
      case 0:
      case 1:
        return Upload(machine);
      case 2:
        return CopyIn(machine, Draw(8) == 0 ? 10 : 1);
      case 3:
      case 4:
        return Add(machine);
      case 5:
        return Copy(machine);
      case 6:
        return Multiply(machine);
      case 7:
        return StartDownload(machine);
      case 8:
        return EndDownload(machine);
      case 9:
        return Fetch(machine);
      case 10:
        return DropDownload(machine);
      case 11:
        return MultiplyGroups(machine);
      default:
        return Release(machine);
    }
  }

  Value Uploaded(Machine& machine, std::int64_t rows, std::int64_t cols) {
    Value value;
    value.want = Drawn(rows, cols);
    value.uploaded = true;
    Anywhere([&] { value.buffer = machine.device->Upload(PayloadOf(value.want)); });
    value.view = {value.buffer.get(), 0, rows, cols, cols};
    return value;
  }

  void Upload(Machine& machine) {
    const std::int64_t rows = Size();
    Value value = Uploaded(machine, rows, Size());
    if (Draw(3) != 0) machine.values.push_back(std::move(value));
  }

  void CopyIn(Machine& machine, int times) {
    for (int i = 0; i < times; ++i) {
      Value value = Space(machine, Size(), Size());
      value.want = Drawn(value.view.rows, value.view.cols);
      machine.device->CopyIn(PayloadOf(value.want), value.view);
      machine.values.push_back(std::move(value));
    }
  }

  static bool IsRead(const Machine& machine, const Value& value) {
    return std::any_of(machine.pending.begin(), machine.pending.end(),
                       [&](const Pending& each) { return each.source == value.buffer; });
  }

  // Adds into a new matrix, or in place onto the left one.
  void Add(Machine& machine) {
    const Value* const left = Any(machine);
    if (left == nullptr) return;
    const Value* const right = Any(machine);
    if (left->view.rows != right->view.rows || left->view.cols != right->view.cols) {
      return Fill(machine);
    }
    const bool in_place = Draw(3) == 0 && !left->uploaded && !IsRead(machine, *left);
    Value out = in_place ? *left : Space(machine, left->view.rows, left->view.cols);
    Words want(left->want.size());
    for (std::size_t i = 0; i < want.size(); ++i) want[i] = left->want[i] + right->want[i];
    KernelArgs args;
    args.m = {out.view, left->view, right->view};
    machine.device->Launch(Kernel::kAdd, args);
    out.want = want;
    if (in_place) {
      const_cast<Value*>(left)->want = want;
    } else {
      machine.values.push_back(std::move(out));
    }
  }

  void Fill(Machine& machine) {
    Value out = Space(machine, Size(), Size());
    const auto number = static_cast<float>(Draw(100));
    KernelArgs args;
    args.m[0] = out.view;
    args.scalars.f[0] = number;
    machine.device->Launch(Kernel::kFill, args);
    out.want.assign(static_cast<std::size_t>(out.view.rows * out.view.cols), number);
    machine.values.push_back(std::move(out));
  }

  void Copy(Machine& machine) {
    const Value* const from = Any(machine);
    if (from == nullptr) return;
    Value out = Space(machine, from->view.rows, from->view.cols);
    machine.device->Copy(from->buffer, from->view, out.view);
    out.want = from->want;
    machine.values.push_back(std::move(out));
  }

  // Another matrix for which `fits` holds, or null if none is found.
  template <typename Fits>
  Value* AnyThat(Machine& machine, Fits fits) {
    for (int i = 0; i < 8; ++i) {
      Value* const each = Any(machine);
      if (fits(*each)) return each;
    }
    return nullptr;
  }

  void Multiply(Machine& machine) {
    const Value* const a = Any(machine);
    if (a == nullptr) return;
    const Value* const b =
        AnyThat(machine, [&](const Value& each) { return each.view.cols == a->view.cols; });
    if (b == nullptr) return CopyIn(machine, 1);
    // Values too large to stay exact in bf16, or as integers, are not multiplied again.
    if (!MayBeMultiplied(a->want) || !MayBeMultiplied(b->want)) return;
    const std::int64_t k = a->view.cols;
    Value out = Space(machine, a->view.rows, b->view.rows);
    out.want = ProductOf(a->want, {k, 1}, b->want, {k, 1}, out.view.rows, out.view.cols, k);
    machine.device->Gemm(GemmForm::kForward, Draw(4) == 0 ? Precision::kFast : Precision::kExact,
                         Draw(2) == 0 ? 16 : 64, a->view, b->view, out.view);
    machine.values.push_back(std::move(out));
  }

  // A gradient over groups of rows, which may be many and short. Some devices lack this call.
  void MultiplyGroups(Machine& machine) {
    Value a, b;
    if (Draw(2) == 0) {
      const std::int64_t rows = 100 + static_cast<std::int64_t>(Draw(200));
      a = Uploaded(machine, rows, Size());
      b = Uploaded(machine, rows, Size());
    } else if (const Value* const first = Any(machine); first != nullptr) {
      const Value* const second =
          AnyThat(machine, [&](const Value& each) { return each.view.rows == first->view.rows; });
      if (second == nullptr) return;
      a = *first;
      b = *second;
    } else {
      return;
    }
    if (!MayBeMultiplied(a.want) || !MayBeMultiplied(b.want)) return;
    const std::int64_t m = a.view.cols, n = b.view.cols, k = a.view.rows;
    const std::uint64_t most = Draw(2) == 0 ? 3u : static_cast<std::uint64_t>(k);
    const auto group_rows = static_cast<std::int64_t>(1 + Draw(most));
    Value out = Space(machine, m, n);
    if (!machine.device->GemmGroups(Precision::kExact, Draw(2) == 0 ? 16 : 64, group_rows, a.view,
                                    b.view, out.view)) {
      return;
    }
    out.want = ProductOf(a.want, {1, m}, b.want, {1, n}, m, n, k);
    machine.values.push_back(std::move(out));
  }

  void StartDownload(Machine& machine) {
    const Value* const value = Any(machine);
    if (value == nullptr) return;
    machine.pending.push_back(
        {machine.device->StartDownload(value->buffer, value->view), value->buffer, value->want});
    // The source may be released while its bytes are being copied.
    if (Draw(3) == 0) {
      machine.pending.back().source = nullptr;
      machine.values.erase(machine.values.begin() + (value - machine.values.data()));
    }
  }

  void EndDownload(Machine& machine) {
    if (machine.pending.empty()) return;
    const std::size_t at = Draw(machine.pending.size());
    Pending pending = std::move(machine.pending[at]);
    machine.pending.erase(machine.pending.begin() + static_cast<std::ptrdiff_t>(at));
    Payload payload;
    Anywhere([&] {
      if (Draw(2) == 0) {
        while (!pending.download->ready()) continue;
      }
      payload = pending.download->Wait();
    });
    Compare(payload, pending.want, "a download");
    if (Draw(2) == 0) kept_.push_back({payload, pending.want});
  }

  // Fetches whole buffers. A computed one needs a mark after its computation.
  void Fetch(Machine& machine) {
    const Value* const value = Any(machine);
    if (value == nullptr || value->view.stride != value->view.cols) return;
    if (!value->uploaded) {
      const std::unique_ptr<PendingDownload> mark = machine.device->StartMark();
      Anywhere([&] { mark->Wait(); });
    }
    Payload payload;
    Anywhere([&] { payload = machine.device->Fetch(value->buffer); });
    Compare(payload, value->want, "what was fetched");
    if (Draw(2) == 0) kept_.push_back({payload, value->want});
  }

  // Abandons a download; another one then reuses its pinned memory.
  void DropDownload(Machine& machine) {
    const Value* const value = Any(machine);
    if (value == nullptr || value->view.stride != value->view.cols || !value->uploaded) return;
    const Words other(value->want.size(), -1.0f);
    const BufferPtr decoy = machine.device->Upload(PayloadOf(other));
    Matrix view = value->view;
    view.buffer = decoy.get();
    machine.device->StartDownload(decoy, view).reset();
    const Payload payload = machine.device->Fetch(value->buffer);
    Compare(payload, value->want, "what was fetched behind a dropped download");
    kept_.push_back({payload, value->want});
  }

  void Release(Machine& machine) {
    if (machine.values.empty()) return;
    const std::size_t at = Draw(machine.values.size());
    Value value = std::move(machine.values[at]);
    machine.values.erase(machine.values.begin() + static_cast<std::ptrdiff_t>(at));
    Anywhere([&] { value.buffer.reset(); });
  }

  void Thin(Machine& machine) {
    for (int i = 0; i < 3; ++i) Release(machine);
    if (Draw(2) == 0) machine.pending.clear();
    if (Draw(4) == 0) kept_.clear();
  }

  void CheckMemory(const Machine& machine) {
    const Counts counts = CountsOf(machine.gpu);
    // Each piece may be larger than requested by less than 256 bytes.
    const std::uint64_t most = machine.limit_bytes + counts.allocations * 256;
    if (counts.requested_bytes > most) {
      Fault(wrong_, fmt::format("{} bytes of cuda:{} are taken, but the limit is {}",
                                counts.requested_bytes, machine.gpu, machine.limit_bytes));
    }
  }

  void CheckAll() {
    try {
      for (Machine& machine : machines_) {
        while (!machine.pending.empty() && wrong_.empty()) EndDownload(machine);
        for (std::size_t i = 0; i < machine.values.size() && wrong_.empty(); ++i) {
          const Value& value = machine.values[i];
          Compare(machine.device->Download(value.buffer, value.view), value.want, "a matrix");
        }
      }
    } catch (const acan::OutOfMemory&) {  // from a leftover injected fault
    } catch (const acan::DeviceLost&) {
      if (!may_lose_) Fault(wrong_, "a device was lost");
      lost_ = true;
    }
  }

  // Releases everything in random order, then compares the payloads that were kept.
  std::string End() {
    for (Machine& machine : machines_) {
      machine.pending.clear();
      const bool device_first = Draw(2) == 0;
      if (Draw(2) == 0) TryUpload(machine);
      if (device_first) machine.device.reset();
      while (!machine.values.empty()) Release(machine);
      if (device_first) continue;
      const std::uint64_t used = machine.device->budget().used_bytes();
      if (used != machine.used_at_first) {
        Fault(wrong_, fmt::format("{} bytes are in use at the end, {} were at first", used,
                                  machine.used_at_first));
      }
      machine.device.reset();
    }
    RunAll();
    for (const Kept& kept : kept_) Compare(kept.payload, kept.want, "a payload that was kept");
    for (const Machine& machine : machines_) {
      const Counts counts = CountsOf(machine.gpu);
      if (counts.allocations > 0 && !lost_) Fault(wrong_, "memory of the device is not freed");
    }
    return wrong_;
  }

  // The copy may still be in progress when the device is destroyed.
  void TryUpload(Machine& machine) {
    try {
      machine.device->Upload(PayloadOf(Drawn(16, 16)));
    } catch (const std::exception&) {  // out of memory, or the device is lost
    }
  }

  std::mt19937_64 random_;
  std::vector<Machine> machines_;
  std::vector<Kept> kept_;
  std::string wrong_;
  bool may_lose_ = false;
  bool lost_ = false;
};

}  // namespace

std::string RunProgram(std::uint64_t seed) {
  Findings findings;
  std::string wrong;
  try {
    wrong = Program(seed).Run();
  } catch (const std::exception& failed) {
    wrong = fmt::format("it threw: {}", failed.what());
  }
  for (const std::string& each : findings.Take()) {
    if (wrong.empty() || wrong.starts_with("it threw") || wrong == "a device was lost")
      wrong = each;
  }
  return wrong;
}

}  // namespace cuda_on_cpu
