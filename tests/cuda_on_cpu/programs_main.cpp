// cuda_programs: runs random programs over the CUDA backend on fake GPUs.
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "flags.h"
#include "programs/planted_names.h"
#include "programs/program.h"

namespace {

// What is wrong with the name of a bug; empty: nothing.
std::string ProblemOfBug(const std::string& name) {
  std::string names;
  for (const cuda_on_cpu::PlantedName& each : cuda_on_cpu::kPlantedNames) {
    if (name == each.name) return "";
    names += names.empty() ? " " : ", ";
    names += each.name;
  }
  return "\"" + name + "\" is not a bug; the bugs are" + names;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t seed = 1;
  std::uint64_t count = 1;
  std::string planted;
  acan::cli::CommandLine line("Random programs over the CUDA backend on fake GPUs");
  acan::cli::Command& program = line.program();
  program.AddOption("--seed", seed, "the first seed");
  program.AddOption("--count", count, "how many seeds");
  program.AddOption("--plant", planted, "switch this bug on").Check(ProblemOfBug);
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
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
