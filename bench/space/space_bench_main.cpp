// space_bench [TRANSPORT...]: prints one JSON object.
#include <cstdio>
#include <exception>
#include <iostream>

#include "space_bench.h"

int main(int argc, char** argv) {
  try {
    acan::bench::SpaceBenchOptions options;
    if (argc > 1) options.transports.assign(argv + 1, argv + argc);
    std::cout << acan::bench::RunSpaceBench(options).dump(2) << "\n";
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "space_bench: %s\n", error.what());
    return 1;
  }
}
