// Host memory that the device reads and writes by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "acan/cuda/planted.h"
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

// Copies rows from host memory to the device through pieces of pinned memory: one is filled by the
// thread while the device reads others. Where the device has not come to read any of them, because
// kernels are before them in the stream, there will be one more, up to `most_slots`. Used by one
// thread at a time.
class Staging {
 public:
  Staging(std::string device, std::size_t most_slots)
      : device_(std::move(device)), most_slots_(most_slots) {}
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

  void AddSlot();

  std::string device_;
  std::size_t most_slots_;
  std::vector<Slot> slots_;  // in a ring
  std::size_t next_ = 0;     // that was used longest ago
};

}  // namespace acan::cuda
