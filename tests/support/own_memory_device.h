// A CPU device that claims to have its own memory like a GPU: results may stay there, and Download
// returns copies.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "acan/cpu/cpu_device.h"
#include "forwarding_device.h"

namespace acan::test {

class OwnMemoryDevice final : public ForwardingDevice {
 public:
  // When `lost` (may be null) becomes true, downloads and launches throw DeviceLost.
  explicit OwnMemoryDevice(std::unique_ptr<Device> inner, const std::atomic<bool>* lost = nullptr)
      : ForwardingDevice(std::move(inner)), lost_(lost) {
    info_.own_memory = true;
  }
  tuplespace::Payload Download(const BufferPtr& buffer, const Matrix& from) override {
    CheckLost();
    const tuplespace::Payload bytes = inner_->Download(buffer, from);
    return tuplespace::Payload::Copy(bytes.data(), bytes.size());
  }
  void Launch(Kernel kernel, const KernelArgs& args) override {
    CheckLost();
    inner_->Launch(kernel, args);
  }

 private:
  void CheckLost() const {
    if (lost_ != nullptr && *lost_) throw DeviceLost("the device is lost (by the test)");
  }

  const std::atomic<bool>* const lost_;
};

inline std::unique_ptr<Device> MakeOwnMemoryDevice(const CpuDeviceOptions& options,
                                                   const std::atomic<bool>* lost = nullptr) {
  return std::make_unique<OwnMemoryDevice>(MakeCpuDevice(options), lost);
}

}  // namespace acan::test
