#include "state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "memory.h"

namespace cuda_on_cpu {
namespace {

constexpr std::uint64_t kKib = 1024;
constexpr std::uint64_t kGib = kKib * kKib * kKib;
constexpr GpuModel kModels[] = {
    {"sm_70", 7, 0, 80, 2048, 16 * kGib, 96 * kKib, 96 * kKib},
    {"sm_75", 7, 5, 40, 1024, 15 * kGib, 64 * kKib, 64 * kKib},
    {"sm_80", 8, 0, 108, 2048, 40 * kGib, 163 * kKib, 164 * kKib},
    {"sm_86", 8, 6, 84, 1536, 24 * kGib, 99 * kKib, 100 * kKib},
    {"sm_90", 9, 0, 132, 2048, 139 * kGib, 227 * kKib, 228 * kKib},
    {"tight", 7, 5, 40, 1024, 320 * kKib* kKib, 64 * kKib, 64 * kKib},
    {"small", 9, 0, 4, 64, 48 * kKib* kKib, 227 * kKib, 228 * kKib},
};

std::vector<std::string> Words(const std::string& text, char separator) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void Begin(State& state, const Options& options) {
  state.options = options;
  state.random.seed(options.seed);
  state.injections.clear();
  state.kernels_that_ran.clear();
  state.gpu_count = options.gpus.size();
  state.gpus.resize(std::max(state.gpus.size(), state.gpu_count));
  for (std::size_t i = 0; i < options.gpus.size(); ++i) {
    state.gpus[i].model = ModelNamed(options.gpus[i]);
    state.gpus[i].lost = cudaSuccess;
    state.gpus[i].local_bytes_a_thread = 0;
    state.gpus[i].local_resizes = 0;
    state.gpus[i].has_context = false;
    state.gpus[i].dynamic_shared_bytes.clear();
    state.gpus[i].loaded.clear();
  }
  const std::vector<std::string> fault = Words(Variable("ACAN_FAKE_GPU_FAULT"), ':');
  if (fault.size() == 3) {
    state.injections.push_back(
        {fault[0], std::stoull(fault[1]), static_cast<cudaError_t>(std::stoi(fault[2]))});
  }
}

// Runs the first operation of a stream. REQUIRES: it is ready.
void Step(FakeStream& stream) {
  const Operation operation = std::move(stream.operations.front());
  stream.operations.pop_front();
  Gpu& gpu = TheState().gpus[static_cast<std::size_t>(stream.device())];
  if (operation.run && gpu.lost == cudaSuccess) {
    ++gpu.operations;
    const cudaError_t failed = InjectedFor("operation");
    if (failed != cudaSuccess) {
      Lose(stream.device(), failed);
    } else {
      operation.run();
    }
  }
  if (operation.mark) operation.mark->done = true;
  if (stream.destroyed && stream.operations.empty()) {
    TheState().streams.erase(&stream);
    delete &stream;
  }
}

std::vector<FakeStream*> ReadyStreams() {
  std::vector<FakeStream*> ready;
  for (FakeStream* stream : TheState().streams) {
    if (stream->ready()) ready.push_back(stream);
  }
  // Sorted by number, not by address, so that a seed has the same history in every process.
  std::sort(ready.begin(), ready.end(),
            [](const FakeStream* a, const FakeStream* b) { return a->number() < b->number(); });
  return ready;
}

bool StepAny() {
  const std::vector<FakeStream*> ready = ReadyStreams();
  if (ready.empty()) return false;
  Step(*ready[TheState().Draw(ready.size())]);
  return true;
}

class DeviceToucher final : public Toucher {
 public:
  DeviceToucher(int device, const char* what) : device_(device), what_(what) {}
  bool Reads(const void* begin, std::size_t bytes) override {
    return CheckRange(begin, bytes, device_, what_);
  }
  bool Writes(void* begin, std::size_t bytes) override {
    return CheckRange(begin, bytes, device_, what_);
  }

 private:
  int device_;
  const char* what_;
};

}  // namespace

const GpuModel& ModelNamed(std::string_view name) {
  for (const GpuModel& model : kModels) {
    if (model.name == name) return model;
  }
  std::fprintf(stderr, "there is no fake GPU \"%.*s\"\n", static_cast<int>(name.size()),
               name.data());
  std::abort();
}

Options FromEnvironment() {
  Options options;
  options.gpus = Words(Variable("ACAN_FAKE_GPUS"), ',');
  const std::string seed = Variable("ACAN_FAKE_GPU_SEED");
  if (!seed.empty()) options.seed = std::stoull(seed);
  const std::string order = Variable("ACAN_FAKE_GPU_ORDER");
  if (order == "late") options.order = Order::kLate;
  if (order == "eager") options.order = Order::kEager;
  return options;
}

State& TheState() {
  static State& state = []() -> State& {
    auto& made = *new State;  // never destroyed: buffers may be released at any time
    Begin(made, FromEnvironment());
    return made;
  }();
  return state;
}

void Configure(const Options& options) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  Begin(state, options);
}

void Inject(std::string_view call, std::uint64_t after, cudaError_t error) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  state.injections.push_back({std::string(call), after, error});
}

cudaError_t InjectedFor(std::string_view call) {
  std::vector<Injection>& injections = TheState().injections;
  for (std::size_t i = 0; i < injections.size(); ++i) {
    if (injections[i].call != call) continue;
    if (injections[i].after-- > 0) continue;
    const cudaError_t error = injections[i].error;
    injections.erase(injections.begin() + static_cast<std::ptrdiff_t>(i));
    return error;
  }
  return cudaSuccess;
}

void Find(const std::string& text) {
  State& state = TheState();
  if (state.collectors > 0) {
    if (state.findings.size() < 20) state.findings.push_back(text);
    return;
  }
  std::fprintf(stderr, "FOUND by the fake GPU (seed %llu): %s\n",
               static_cast<unsigned long long>(state.options.seed), text.c_str());
  std::fflush(stderr);
  std::abort();
}

Findings::Findings() {
  const std::lock_guard lock(TheState().mutex);
  ++TheState().collectors;
}
Findings::~Findings() {
  const std::lock_guard lock(TheState().mutex);
  if (--TheState().collectors == 0) TheState().findings.clear();
}
std::vector<std::string> Findings::Take() {
  const std::lock_guard lock(TheState().mutex);
  return std::exchange(TheState().findings, {});
}

Counts CountsOf(int device) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  const Gpu& gpu = state.gpus[static_cast<std::size_t>(device)];
  const PieceCounts pieces = CountPieces(device);
  Counts counts;
  counts.device_bytes = gpu.device_bytes;
  counts.local_bytes = gpu.LocalBytes();
  counts.local_resizes = gpu.local_resizes;
  counts.requested_bytes = pieces.device_bytes;
  counts.allocations = pieces.device;
  counts.pinned = pieces.pinned;
  counts.pinned_made = pieces.pinned_made;
  counts.operations = gpu.operations;
  counts.launches = gpu.launches;
  counts.has_context = gpu.has_context;
  return counts;
}

void RunAll() {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  while (StepAny()) continue;
}

std::vector<std::string> KernelsThatRan() {
  const std::lock_guard lock(TheState().mutex);
  return {TheState().kernels_that_ran.begin(), TheState().kernels_that_ran.end()};
}

// ---- scheduling --------------------------------------------------------------------------------

void FakeStream::Enqueue(const char* what, std::function<void(Toucher&)> work) {
  const std::lock_guard lock(TheState().mutex);
  Push(*this, {what,
               [work = std::move(work), what, device = device_] {
                 DeviceToucher toucher(device, what);
                 work(toucher);
               },
               nullptr, nullptr});
}

void Push(FakeStream& stream, Operation operation) {
  if (operation.mark) operation.mark->stream = &stream;
  const bool lost = TheState().gpus[static_cast<std::size_t>(stream.device())].lost != cudaSuccess;
  if (lost) operation.run = nullptr;
  stream.operations.push_back(std::move(operation));
  RunSome();
}

// Runs the operations that the marker needs, and sometimes others.
void RunUntil(const MarkerPtr& marker) {
  State& state = TheState();
  while (marker && !marker->done) {
    if (state.options.order == Order::kDrawn && state.Draw(4) == 0 && StepAny()) continue;
    // Each wait is for an earlier record, so this ends.
    FakeStream* stream = marker->stream;
    while (!stream->ready()) stream = stream->operations.front().wait->stream;
    Step(*stream);
  }
}

void Drain(FakeStream& stream) {
  if (stream.operations.empty()) return;
  auto marker = std::make_shared<Marker>();
  marker->stream = &stream;
  stream.operations.push_back({"end", nullptr, nullptr, marker});
  RunUntil(marker);
}

void DrainDevice(int device) {
  std::vector<MarkerPtr> ends;
  for (FakeStream* stream : TheState().streams) {
    if (stream->device() != device || stream->operations.empty()) continue;
    ends.push_back(std::make_shared<Marker>());
    ends.back()->stream = stream;
    stream->operations.push_back({"end", nullptr, nullptr, ends.back()});
  }
  for (const MarkerPtr& end : ends) RunUntil(end);
}

void RunSome() {
  State& state = TheState();
  switch (state.options.order) {
    case Order::kLate:
      // Callers that only poll must see their work done at some time.
      if (state.Draw(64) == 0) StepAny();
      return;
    case Order::kDrawn:
      if (state.Draw(4) == 0) {
        for (std::uint64_t steps = state.Draw(4); steps > 0 && StepAny(); --steps) continue;
      }
      return;
    case Order::kEager:
      while (StepAny()) continue;
      return;
  }
}

void Lose(int device, cudaError_t error) {
  TheState().gpus[static_cast<std::size_t>(device)].lost = error;
  for (FakeStream* stream : TheState().streams) {
    if (stream->device() != device) continue;
    for (Operation& operation : stream->operations) operation.run = nullptr;
  }
}

}  // namespace cuda_on_cpu
