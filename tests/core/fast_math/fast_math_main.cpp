// Exits with 1 if main, or a thread that it starts, flushes denormal numbers to zero. With the
// argument "guarded", main begins as that of acan does.
#include <cstdio>
#include <optional>
#include <string_view>
#include <thread>

#include "acan/core/ieee_mode.h"
#include "float_mode.h"

int main(int argc, char** argv) {
  std::optional<acan::IeeeMode> ieee;
  if (argc > 1 && std::string_view(argv[1]) == "guarded") ieee.emplace();
  const bool main_flushes = acan::test::Flushes();
  bool thread_flushes = false;
  std::thread([&] { thread_flushes = acan::test::Flushes(); }).join();
  if (main_flushes) std::fputs("main flushes denormal numbers to zero\n", stderr);
  if (thread_flushes) std::fputs("a new thread flushes denormal numbers to zero\n", stderr);
  return main_flushes || thread_flushes ? 1 : 0;
}
