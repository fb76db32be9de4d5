// A module "opencl" whose only device is the CPU with a fault. ACAN_TEST_FAULT names the fault:
// "memory:N", "lost:N" or "hang:N". After the N-th product of a task, products fail for lack of
// memory, fail because the device is lost, or never return. The products of the conformance battery
// at the start do not count. Or it is "proof:N": after the N-th product of any kind, they never
// return. Or "own:N": after the N-th call of a task that runs on the process's first thread, as
// short ones do, such calls never return.
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "acan/core/error.h"
#include "acan/cpu/cpu_device.h"
#include "acan/module/module.h"
#include "forwarding_device.h"

namespace acan {
namespace {

struct Fault {
  std::string kind;
  std::int64_t after = 0;
};

Fault FaultOfEnvironment() {
  const char* variable = std::getenv("ACAN_TEST_FAULT");
  const std::string text = variable == nullptr ? "" : variable;
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos)
    throw UsageError("ACAN_TEST_FAULT: write memory:N, lost:N, hang:N, proof:N or own:N");
  return {text.substr(0, colon), std::stoll(text.substr(colon + 1))};
}

class FaultyDevice final : public test::ForwardingDevice {
 public:
  FaultyDevice(std::uint64_t limit_bytes, Fault fault)
      : ForwardingDevice(MakeCpuDevice({1, limit_bytes, std::nullopt})), fault_(fault) {
    info_.name = "opencl:0";
    info_.backend = "opencl";
  }
  void Gemm(GemmForm form, Precision precision, std::int64_t block, const Matrix& a,
            const Matrix& b, const Matrix& c) override {
    OnCall();
    if (fault_.kind == "proof") HangIfDue();
    // Neither the conformance battery nor the speed measurement has such products: the battery uses
    // other blocks, and the measurement uses squares.
    const bool of_task = block == 64 && c.rows != c.cols;
    if (of_task && c.rows > 16) OnTaskProduct();
    inner_->Gemm(form, precision, block, a, b, c);
  }
  void Launch(Kernel kernel, const KernelArgs& args) override {
    OnCall();
    inner_->Launch(kernel, args);
  }

 private:
  // The first task of each kind runs on a thread of the device.
  void OnCall() {
    if (::gettid() != ::getpid()) {
      has_had_tasks_ = true;
    } else if (has_had_tasks_ && fault_.kind == "own") {
      HangIfDue();
    }
  }
  void OnTaskProduct() {
    if (fault_.kind == "hang") HangIfDue();
    if (fault_.kind == "lost" && --fault_.after < 0) {
      throw DeviceLost("clFinish on opencl:0: CL_DEVICE_NOT_AVAILABLE (injected)");
    }
    if (fault_.kind == "memory" && --fault_.after < 0) {
      throw OutOfMemory("clCreateBuffer on opencl:0: CL_OUT_OF_RESOURCES (injected)");
    }
  }
  void HangIfDue() {
    if (--fault_.after >= 0) return;
    for (;;) ::pause();
  }

  Fault fault_;
  std::atomic<bool> has_had_tasks_ = false;
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
