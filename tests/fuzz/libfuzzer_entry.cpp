// The entry point for libFuzzer: runs the one target that is linked into this program.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    acan::fuzz::Targets().front().run({reinterpret_cast<const char*>(data), size});
  } catch (const acan::fuzz::BrokenProperty& broken) {
    // All other exceptions reach std::terminate, which keeps the stack for the report.
    std::fprintf(stderr, "broken property: %s\n", broken.what());
    std::abort();
  }
  return 0;
}
