// Host memory that the device reads and writes by itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "handles.h"

namespace acan::cuda {

// What downloads are written to. Making such memory is slow, so it is kept and used again. Thread
// safe; the memory may outlive the pool and be released on any thread.
class PinnedPool {
 public:
  explicit PinnedPool(std::string device) : device_(std::move(device)) {}

  // Uninitialised. Throws OutOfMemory.
  std::shared_ptr<void> Take(std::size_t bytes);

 private:
  struct Piece {
    PinnedBytes memory;
    std::size_t bytes = 0;
  };
  struct Cache {
    std::mutex mutex;
    std::list<Piece> pieces;  // the coldest first
    std::size_t bytes = 0;
  };

  std::string device_;
  std::shared_ptr<Cache> cache_ = std::make_shared<Cache>();
};

// Copies rows from host memory to the device through two pieces of pinned memory: one is filled by
// the thread while the device reads the other. Used by one thread at a time.
class Staging {
 public:
  explicit Staging(std::string device) : device_(std::move(device)) {}
  // Waits for its copies, which read its memory.
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Returns when `from` has been read; the rest goes on in `stream`.
  void Copy(const std::byte* from, std::byte* to, std::size_t row_bytes, std::size_t rows,
            std::size_t to_pitch, cudaStream_t stream);

 private:
  struct Slot {
    PinnedBytes memory;
    Event free;
  };
  Slot& NextSlot();

  std::string device_;
  std::array<Slot, 2> slots_;
  std::size_t next_ = 0;
};

}  // namespace acan::cuda
