// A module as another version of acan would have left it. Its entry point must never be called.
#include <cstdlib>

extern "C" const char acan_module_version[];
extern "C" const char acan_module_version[] = "0.0.9 with interface 00000000";
extern "C" void* acan_module() {
  std::abort();
}
