// HeldBytes: the maximum of bytes held for a device at once: what its budget counts, and payloads
// that wait to be copied to it. Thread safe. Owned by a DeviceThread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "acan/core/memory_budget.h"

namespace acan {

class HeldBytes {
 public:
  // `budget` is the device's. REQUIRES: it outlives this.
  explicit HeldBytes(const MemoryBudget& budget) : budget_(budget) {}

  void AddWaiting(std::uint64_t bytes) {
    waiting_.fetch_add(bytes, std::memory_order_relaxed);
    Look();
  }
  void RemoveWaiting(std::uint64_t bytes) { waiting_.fetch_sub(bytes, std::memory_order_relaxed); }
  // Call this after allocations, before waiting payloads are removed.
  void Look() {
    const std::uint64_t held = budget_.used_bytes() + waiting_.load(std::memory_order_relaxed);
    std::uint64_t peak = peak_.load(std::memory_order_relaxed);
    while (peak < held && !peak_.compare_exchange_weak(peak, held)) {
    }
  }
  std::uint64_t peak() const {
    return std::max(peak_.load(std::memory_order_relaxed), budget_.peak_bytes());
  }

 private:
  const MemoryBudget& budget_;
  std::atomic<std::uint64_t> waiting_{0};
  std::atomic<std::uint64_t> peak_{0};
};

}  // namespace acan
