// The module that acan loads.
#include "acan/module/module.h"

#include "acan/opencl/opencl_devices.h"

namespace acan::opencl {
namespace {

class OpenClModule final : public DeviceModule {
 public:
  DeviceList List() override { return ListDevices(); }
  std::unique_ptr<Device> Make(const DeviceChoice& choice) override {
    DeviceOptions options;
    options.index = choice.index;
    options.part = choice.part;
    options.memory_limit_bytes = choice.memory_limit_bytes;
    return MakeDevice(options);
  }
};

}  // namespace
}  // namespace acan::opencl

ACAN_DEVICE_MODULE(acan::opencl::OpenClModule)
