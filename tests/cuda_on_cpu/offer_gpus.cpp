// Linked into a test program, so that it finds the module of fake GPUs, and other modules in their
// usual place. Variables that are already set take precedence.
#include <cstdlib>

namespace {

[[maybe_unused]] const bool offered = [] {
  return ::setenv("ACAN_MODULE_PATH", ACAN_FAKE_GPU_MODULES, 0) == 0 &&
         ::setenv("ACAN_FAKE_GPUS", "sm_90,sm_75,sm_80", 0) == 0;
}();

}  // namespace
