// Host memory that the device reads and writes directly.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "handles.h"

namespace acan::cuda {

// The memory that downloads are written to. Pinning memory is slow, so it is kept and reused.
// Thread safe; the memory may outlive the pool and be released on any thread.
class PinnedPool {
 public:
  PinnedPool(std::string device, int ordinal)
      : device_(std::move(device)), cache_(std::make_shared<Cache>(ordinal)) {}

  // Uninitialised. Throws OutOfMemory.
  std::shared_ptr<void> Take(std::size_t bytes);

 private:
  struct Piece {
    PinnedBytes memory;
    std::size_t bytes = 0;
  };
  struct Cache {
    explicit Cache(int of_device) : ordinal(of_device) {}
    // On any thread, so a thread that is new would free the pieces on the first device, which may
    // not be this one and would get a context of half a gigabyte.
    ~Cache() { cudaSetDevice(ordinal); }
    Cache(const Cache&) = delete;
    Cache& operator=(const Cache&) = delete;

    const int ordinal;
    std::mutex mutex;
    std::list<Piece> pieces;  // the coldest first
    std::size_t bytes = 0;
  };

  std::string device_;
  std::shared_ptr<Cache> cache_;
};

// Copies rows from host memory to the device through pieces of pinned memory: the thread fills one
// piece while the device reads others. If the device has read none of them yet, because kernels are
// before them in the stream, the thread adds a piece, up to `most_slots`. Used by one thread at a
// time.
class Staging {
 public:
  Staging(std::string device, std::size_t most_slots)
      : device_(std::move(device)), most_slots_(most_slots) {}
  // Waits for its copies, which read its memory.
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Returns when `from` has been read; the copies to the device continue in `stream`.
  void Copy(const std::byte* from, std::byte* to, std::size_t row_bytes, std::size_t rows,
            std::size_t to_pitch, cudaStream_t stream);

 private:
  struct Slot {
    PinnedBytes memory;
    Event free;
  };
  Slot& NextSlot();

  void AddSlot();

  std::string device_;
  std::size_t most_slots_;
  std::vector<Slot> slots_;  // in a ring
  std::size_t next_ = 0;     // the slot that was used longest ago
};

// Copies bytes from host memory to the device. Large copies use several threads, each with its own
// pieces of pinned memory, because one thread copies only a fraction of the bus' bandwidth. Used by
// one thread at a time.
class ParallelStaging {
 public:
  // `threads`: that copy together, including the caller; at least 1.
  ParallelStaging(std::string device, int ordinal, std::size_t threads);

  // Returns when `from` has been read; the copies to the device continue in `stream`. If it throws,
  // copies may still be running, but nothing reads `from` any more.
  void Copy(const std::byte* from, std::byte* to, std::size_t bytes, cudaStream_t stream);

 private:
  std::string device_;
  int ordinal_;
  std::list<Staging> lanes_;  // one for each thread
};

// Copies from the device to ordinary memory through two pieces of pinned memory. They are made at
// construction, because a thread that serves others must not wait for the driver to pin memory.
// Thread safe; one copy at a time.
class FetchStaging {
 public:
  // `stream`: runs the copies and must outlive this. `most_bytes`: of one copy; pieces are no
  // larger.
  FetchStaging(std::string device, std::size_t most_bytes, cudaStream_t stream);
  // Waits for copies that failed midway.
  ~FetchStaging();
  FetchStaging(const FetchStaging&) = delete;
  FetchStaging& operator=(const FetchStaging&) = delete;

  // Returns when all bytes have arrived.
  void Copy(const std::byte* from, std::byte* to, std::size_t bytes);

 private:
  struct Slot {
    PinnedBytes memory;
    Event arrived;
  };

  std::string device_;
  std::size_t slot_bytes_;
  cudaStream_t stream_;
  std::mutex mutex_;
  std::array<Slot, 2> slots_;
};

}  // namespace acan::cuda
