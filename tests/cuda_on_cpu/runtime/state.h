// The state of all fake GPUs, guarded by one mutex.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fake_gpu.h"
#include "stream_face.h"

namespace cuda_on_cpu {

class FakeStream;

// One record of an event. Waits refer to the record that was the latest when they were requested.
struct Marker {
  bool done = false;
  FakeStream* stream = nullptr;  // that contains it until it is done
};
using MarkerPtr = std::shared_ptr<Marker>;

struct Operation {
  std::string what;
  std::function<void()> run;  // may be empty
  MarkerPtr wait;             // must be done before
  MarkerPtr mark;             // gets done after this operation
};

class FakeStream final : public StreamFace {
 public:
  FakeStream(int device, std::uint64_t number) : device_(device), number_(number) {}
  int device() const { return device_; }
  std::uint64_t number() const { return number_; }  // in the order of creation
  bool ready() const {
    return !operations.empty() && (!operations.front().wait || operations.front().wait->done);
  }
  void Enqueue(const char* what, std::function<void(Toucher&)> work) override;

  std::deque<Operation> operations;
  bool destroyed = false;  // its remaining work still runs

 private:
  int device_;
  std::uint64_t number_;
};

struct FakeEvent {
  int device = 0;
  MarkerPtr latest;
};

struct Gpu {
  GpuModel model;
  cudaError_t lost = cudaSuccess;
  std::uint64_t device_bytes = 0;
  std::uint64_t slab_used = 0;  // of the open slab for small pieces
  int slab = -1;
  std::uint64_t local_bytes_a_thread = 0;
  std::uint64_t local_resizes = 0;
  std::uint64_t operations = 0;
  std::uint64_t launches = 0;
  bool has_context = false;
  std::map<const void*, std::uint64_t> dynamic_shared_bytes;  // requested by kernels
  std::set<const void*> loaded;                               // kernels whose code is on the device
  std::uint64_t LocalBytes() const {
    return local_bytes_a_thread * static_cast<std::uint64_t>(model.multiprocessors) *
           static_cast<std::uint64_t>(model.threads);
  }
  std::uint64_t CodeBytes() const {
    constexpr std::uint64_t kBytesOfAKernel = 32 << 10;
    return kBytesOfAKernel * loaded.size();
  }
  std::uint64_t TakenBytes() const { return device_bytes + LocalBytes() + CodeBytes(); }
};

struct Injection {
  std::string call;
  std::uint64_t after = 0;
  cudaError_t error = cudaSuccess;
};

struct State {
  std::recursive_mutex mutex;
  Options options;
  std::mt19937_64 random{1};
  std::vector<Gpu> gpus;      // including those of earlier options, which may still have streams
  std::size_t gpu_count = 0;  // number of these options' GPUs
  std::set<FakeStream*> streams;
  std::uint64_t streams_made = 0;
  std::set<FakeEvent*> events;
  std::vector<Injection> injections;
  std::set<std::string> kernels_that_ran;
  int collectors = 0;
  std::vector<std::string> findings;

  std::uint64_t Draw(std::uint64_t below) { return random() % below; }
};
State& TheState();

// Adds a finding, or ends the program if nobody collects findings.
void Find(const std::string& text);
bool IsSticky(cudaError_t error);
// Returns the injected error that is due for this call, or cudaSuccess.
cudaError_t InjectedFor(std::string_view call);

// ---- scheduling --------------------------------------------------------------------------------

void Push(FakeStream& stream, Operation operation);
void RunUntil(const MarkerPtr& marker);
void Drain(FakeStream& stream);
void DrainDevice(int device);
void RunSome();  // runs work that nobody waits for, according to the order
void Lose(int device, cudaError_t error);

}  // namespace cuda_on_cpu
