// train_bench: prints one JSON object; see train_bench.h.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <iostream>

#include "train_bench.h"

int main(int argc, char** argv) {
  acan::bench::TrainBenchOptions options;
  CLI::App app("Training through the tuple space against one plain loop");
  app.add_option("--handlers", options.handlers, "handlers of one thread")->capture_default_str();
  app.add_option("--steps", options.steps, "steps of one run")->capture_default_str();
  app.add_option("--repeats", options.repeats, "pairs of runs")->capture_default_str();
  app.add_option("--batch", options.batch, "samples of a step")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    std::cout << acan::bench::RunTrainBench(options).dump(2) << "\n";
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_bench: %s\n", error.what());
    return 1;
  }
}
