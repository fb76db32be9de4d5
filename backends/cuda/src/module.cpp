// The module that acan loads.
#include "acan/module/module.h"

#include "acan/core/error.h"
#include "acan/cuda/cuda_devices.h"
#include "fmt/format.h"

namespace acan::cuda {
namespace {

class CudaModule final : public DeviceModule {
 public:
  DeviceList List() override { return ListDevices(); }
  std::unique_ptr<Device> Make(const DeviceChoice& choice) override {
    if (choice.part) {
      throw UsageError(fmt::format("cuda:{0} has no parts; write cuda:{0}", choice.index));
    }
    DeviceOptions options;
    options.index = choice.index;
    options.memory_limit_bytes = choice.memory_limit_bytes;
    options.fast_math = choice.fast_math;
    return MakeDevice(options);
  }
};

}  // namespace
}  // namespace acan::cuda

ACAN_DEVICE_MODULE(acan::cuda::CudaModule)
