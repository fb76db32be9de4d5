// A device that forwards everything to another one, for tests that change some of its behavior.
#pragma once

#include <memory>
#include <utility>

#include "acan/core/device.h"

namespace acan::test {

class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(std::unique_ptr<Device> inner)
      : inner_(std::move(inner)), info_(inner_->info()) {}
  const DeviceInfo& info() const override { return info_; }
  const MemoryBudget& budget() const override { return inner_->budget(); }
  BufferPtr Allocate(std::uint64_t bytes) override { return inner_->Allocate(bytes); }
  BufferPtr Upload(const tuplespace::Payload& payload) override { return inner_->Upload(payload); }
  void CopyIn(const tuplespace::Payload& payload, const Matrix& to) override {
    inner_->CopyIn(payload, to);
  }
  tuplespace::Payload Download(const BufferPtr& buffer, const Matrix& from) override {
    return inner_->Download(buffer, from);
  }
  void Gemm(GemmForm form, Precision precision, std::int64_t block, const Matrix& a,
            const Matrix& b, const Matrix& c) override {
    inner_->Gemm(form, precision, block, a, b, c);
  }
  void Launch(Kernel kernel, const KernelArgs& args) override { inner_->Launch(kernel, args); }
  void Synchronize() override { inner_->Synchronize(); }

 protected:
  const std::unique_ptr<Device> inner_;
  DeviceInfo info_;
};

}  // namespace acan::test
