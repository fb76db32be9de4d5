// MemoryBudget: counts the bytes that a handler may hold. Thread safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace acan {

// Thrown by allocations that would exceed the limit. The handler reserves memory before it takes a
// task, so the cause is a bug, or a device that lost memory to others. The task fails; the limit
// holds.
class OutOfMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class MemoryBudget {
 public:
  explicit MemoryBudget(std::uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  void Charge(std::uint64_t bytes) {
    // A refused charge is never added, not even briefly: otherwise another thread could be refused
    // although there is room for it.
    const std::uint64_t limit = limit_bytes();
    std::uint64_t used = used_bytes_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit || used > limit - bytes) {
        throw OutOfMemory("allocating " + std::to_string(bytes) +
                          " bytes would pass the limit of " + std::to_string(limit) + " bytes (" +
                          std::to_string(used) + " in use)");
      }
    } while (!used_bytes_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    used += bytes;
    std::uint64_t peak = peak_bytes_.load(std::memory_order_relaxed);
    while (peak < used &&
           !peak_bytes_.compare_exchange_weak(peak, used, std::memory_order_relaxed)) {
    }
  }
  void Release(std::uint64_t bytes) { used_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  // Lowers the limit by memory that the device does not have left.
  // REQUIRES: `bytes` are free, and no other thread charges memory yet.
  void Withhold(std::uint64_t bytes) { limit_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }

  std::uint64_t limit_bytes() const { return limit_bytes_.load(std::memory_order_relaxed); }
  std::uint64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  std::uint64_t peak_bytes() const { return peak_bytes_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> limit_bytes_;
  std::atomic<std::uint64_t> used_bytes_{0};
  std::atomic<std::uint64_t> peak_bytes_{0};
};

}  // namespace acan
