// A module "opencl" whose one device is the CPU with faults. ACAN_TEST_FAULT says which: "memory:N"
// or "lost:N": the products after the N-th that a task asked for find no memory, or no device.
// The products of the proof at the start do not count.
#include <cstdlib>
#include <string>

#include "acan/core/error.h"
#include "acan/cpu/cpu_device.h"
#include "acan/module/module.h"

namespace acan {
namespace {

struct Fault {
  bool lost = false;
  std::int64_t after = 0;
};

Fault FaultOfEnvironment() {
  const char* variable = std::getenv("ACAN_TEST_FAULT");
  const std::string text = variable == nullptr ? "" : variable;
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) throw UsageError("ACAN_TEST_FAULT: write memory:N or lost:N");
  return {text.substr(0, colon) == "lost", std::stoll(text.substr(colon + 1))};
}

class FaultyDevice final : public Device {
 public:
  FaultyDevice(std::uint64_t limit_bytes, Fault fault)
      : inner_(MakeCpuDevice({1, limit_bytes, std::nullopt})),
        info_(inner_->info()),
        fault_(fault) {
    info_.name = "opencl:0";
    info_.backend = "opencl";
  }
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
    // The battery's blocks and the measured squares are not what jobs of tests have.
    const bool of_task = block == 64 && c.rows != c.cols;
    if (of_task && c.rows > 16 && --fault_.after < 0) {
      if (fault_.lost) throw DeviceLost("clFinish on opencl:0: CL_DEVICE_NOT_AVAILABLE (injected)");
      throw OutOfMemory("clCreateBuffer on opencl:0: CL_OUT_OF_RESOURCES (injected)");
    }
    inner_->Gemm(form, precision, block, a, b, c);
  }
  void Launch(Kernel kernel, const KernelArgs& args) override { inner_->Launch(kernel, args); }
  void Synchronize() override { inner_->Synchronize(); }

 private:
  std::unique_ptr<Device> inner_;
  DeviceInfo info_;
  Fault fault_;
};

class FaultyModule final : public DeviceModule {
 public:
  DeviceList List() override {
    DeviceList list;
    DeviceListing& listing = list.devices.emplace_back();
    listing.info.name = "opencl:0";
    listing.info.backend = "opencl";
    listing.info.memory_bytes = std::uint64_t{1} << 30;
    return list;
  }
  std::unique_ptr<Device> Make(const DeviceChoice& choice) override {
    return std::make_unique<FaultyDevice>(choice.memory_limit_bytes, FaultOfEnvironment());
  }
};

}  // namespace
}  // namespace acan

ACAN_DEVICE_MODULE(acan::FaultyModule)
