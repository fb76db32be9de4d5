// A module whose Make throws the exception that its number selects; module_test.cpp catches it.
#include <new>
#include <stdexcept>

#include "acan/core/error.h"
#include "acan/module/module.h"

namespace acan {
namespace {

class ThrowingModule final : public DeviceModule {
 public:
  DeviceList List() override { return {{}, "this module has exceptions only"}; }
  std::unique_ptr<Device> Make(const DeviceChoice& choice) override {
    switch (choice.index) {
      case 0:
        throw UsageError("usage");
      case 1:
        throw FailureError("failure");
      case 2:
        throw OutOfMemory("memory");
      case 3:
        throw DeviceLost("lost");
      case 4:
        throw std::invalid_argument("argument");
      case 5:
        throw std::bad_alloc();
      default:
        throw std::runtime_error("runtime");
    }
  }
};

}  // namespace
}  // namespace acan

ACAN_DEVICE_MODULE(acan::ThrowingModule)
