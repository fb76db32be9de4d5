// A module whose driver ends the process that lists its devices. tests/cli/program_test.cpp runs
// the program with it.
#include <cstdio>
#include <cstdlib>

#include "acan/core/error.h"
#include "acan/module/module.h"

namespace acan {
namespace {

class AbortingModule final : public DeviceModule {
 public:
  DeviceList List() override {
    std::fputs("LLVM ERROR: two of them\n", stderr);
    std::abort();
  }
  std::unique_ptr<Device> Make(const DeviceChoice&) override { throw FailureError("no device"); }
};

}  // namespace
}  // namespace acan

ACAN_DEVICE_MODULE(acan::AbortingModule)
