// A CPU device that says that its memory is its own, as that of a GPU: results may stay there, and
// every byte that leaves is a copy.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "acan/core/device.h"
#include "acan/cpu/cpu_device.h"

namespace acan::test {

class OwnMemoryDevice final : public Device {
 public:
  // Once `lost` (may be null) is true it computes no more.
  explicit OwnMemoryDevice(std::unique_ptr<Device> inner, const std::atomic<bool>* lost = nullptr)
      : inner_(std::move(inner)), info_(inner_->info()), lost_(lost) {
    info_.own_memory = true;
  }
  const DeviceInfo& info() const override { return info_; }
  const MemoryBudget& budget() const override { return inner_->budget(); }
  BufferPtr Allocate(std::uint64_t bytes) override { return inner_->Allocate(bytes); }
  BufferPtr Upload(const tuplespace::Payload& payload) override { return inner_->Upload(payload); }
  void CopyIn(const tuplespace::Payload& payload, const Matrix& to) override {
    inner_->CopyIn(payload, to);
  }
  tuplespace::Payload Download(const BufferPtr& buffer, const Matrix& from) override {
    CheckLost();
    const tuplespace::Payload bytes = inner_->Download(buffer, from);
    return tuplespace::Payload::Copy(bytes.data(), bytes.size());
  }
  void Gemm(GemmForm form, Precision precision, std::int64_t block, const Matrix& a,
            const Matrix& b, const Matrix& c) override {
    inner_->Gemm(form, precision, block, a, b, c);
  }
  void Launch(Kernel kernel, const KernelArgs& args) override {
    CheckLost();
    inner_->Launch(kernel, args);
  }
  void Synchronize() override { inner_->Synchronize(); }

 private:
  void CheckLost() const {
    if (lost_ != nullptr && *lost_) throw DeviceLost("the device is lost (by the test)");
  }

  std::unique_ptr<Device> inner_;
  DeviceInfo info_;
  const std::atomic<bool>* const lost_;
};

inline std::unique_ptr<Device> MakeOwnMemoryDevice(const CpuDeviceOptions& options,
                                                   const std::atomic<bool>* lost = nullptr) {
  return std::make_unique<OwnMemoryDevice>(MakeCpuDevice(options), lost);
}

}  // namespace acan::test
