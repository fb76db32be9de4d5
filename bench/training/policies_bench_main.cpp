// policies_bench: prints one JSON object; see policies_bench.h.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <iostream>

#include "policies_bench.h"

int main(int argc, char** argv) {
  acan::bench::PoliciesBenchOptions options;
  CLI::App app("Unequal handlers under each scheduling policy");
  app.add_option("--policy", options.policies, "may be given again");
  app.add_option("--steps", options.steps, "steps of one run")->capture_default_str();
  app.add_option("--repeats", options.repeats, "rounds over all policies")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    std::cout << acan::bench::RunPoliciesBench(options).dump(2) << "\n";
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "policies_bench: %s\n", error.what());
    return 1;
  }
}
