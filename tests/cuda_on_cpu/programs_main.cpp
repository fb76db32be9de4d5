// cuda_programs: random programs over the CUDA backend on fake GPUs, from the command line.
#include <cstdint>
#include <cstdio>
#include <string>

#include "CLI/CLI.hpp"
#include "programs/planted_names.h"
#include "programs/program.h"

int main(int argc, char** argv) {
  std::uint64_t seed = 1;
  std::uint64_t count = 1;
  std::string planted;
  CLI::App app("Random programs over the CUDA backend on fake GPUs");
  app.add_option("--seed", seed, "the first seed");
  app.add_option("--count", count, "how many seeds");
  app.add_option("--plant", planted, "switch this bug on");
  CLI11_PARSE(app, argc, argv);
  for (const cuda_on_cpu::PlantedName& each : cuda_on_cpu::kPlantedNames) {
    if (planted == each.name) cuda_on_cpu::Plant(each.bug);
  }
  for (std::uint64_t i = seed; i < seed + count; ++i) {
    const std::string wrong = cuda_on_cpu::RunProgram(i);
    if (wrong.empty()) continue;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(i), wrong.c_str());
    return 1;
  }
  std::printf("%llu programs, nothing found\n", static_cast<unsigned long long>(count));
  return 0;
}
