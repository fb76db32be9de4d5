// A CPU device's buffer: memory of HostMemory, which is charged to the device's limit, or a
// payload. The device's thread writes it; any thread may free it. Constructors throw what
// HostMemory throws.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "acan/core/device.h"
#include "device/host_memory.h"
#include "tuplespace/payload.h"
#include "tuplespace/shared_pool.h"

namespace acan {

// Owns its memory, or keeps a payload alive. It shares the memory's source, since buffers outlive
// devices.
class CpuBuffer final : public Buffer {
 public:
  enum class Use : std::uint8_t { kPrivate, kResult };

  CpuBuffer(std::shared_ptr<HostMemory> memory, std::uint64_t bytes, Use use = Use::kPrivate)
      : Buffer(bytes), memory_(std::move(memory)) {
    memory_->Charge(bytes);
    try {
      if (use == Use::kResult) block_ = memory_->TakeResult(bytes);
      if (!block_) owned_ = memory_->Take(bytes);
    } catch (...) {
      memory_->Release(bytes);
      throw;
    }
    data_ = block_ ? reinterpret_cast<float*>(block_->data) : static_cast<float*>(owned_);
  }
  CpuBuffer(std::shared_ptr<HostMemory> memory, tuplespace::Payload payload)
      : Buffer(payload.size()), memory_(std::move(memory)), payload_(std::move(payload)) {
    memory_->Charge(size_bytes());
    // Read-only by contract and by writable(); there is no const variant of Matrix.
    data_ = reinterpret_cast<float*>(const_cast<std::byte*>(payload_.data()));
  }
  ~CpuBuffer() override {
    memory_->Release(size_bytes());
    if (owned_ != nullptr) memory_->Give(owned_, size_bytes());
  }
  CpuBuffer(const CpuBuffer&) = delete;
  CpuBuffer& operator=(const CpuBuffer&) = delete;

  float* data() const { return data_; }
  bool writable() const { return (owned_ != nullptr || block_) && !published_; }
  const tuplespace::SharedRegion* region() const { return block_.get(); }
  // From here on, others may read the buffer.
  void Publish() { published_ = true; }

 private:
  std::shared_ptr<HostMemory> memory_;
  tuplespace::SharedPool::Block block_;
  std::atomic<bool> published_{false};
  tuplespace::Payload payload_;
  void* owned_ = nullptr;
  float* data_ = nullptr;
};

}  // namespace acan
