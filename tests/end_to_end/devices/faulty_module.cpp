// A module "opencl" whose one device is the CPU with faults. ACAN_TEST_FAULT says which:
// "memory:N", "lost:N" or "hang:N": the products after the N-th that a task asked for find no
// memory, or no device, or never end. The products of the proof at the start do not count.
#include <unistd.h>

#include <cstdlib>
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
    throw UsageError("ACAN_TEST_FAULT: write memory:N, lost:N or hang:N");
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
    // The battery's blocks and the measured squares are not what jobs of tests have.
    const bool of_task = block == 64 && c.rows != c.cols;
    if (of_task && c.rows > 16 && --fault_.after < 0) {
      while (fault_.kind == "hang") ::pause();
      if (fault_.kind == "lost")
        throw DeviceLost("clFinish on opencl:0: CL_DEVICE_NOT_AVAILABLE (injected)");
      throw OutOfMemory("clCreateBuffer on opencl:0: CL_OUT_OF_RESOURCES (injected)");
    }
    inner_->Gemm(form, precision, block, a, b, c);
  }

 private:
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
