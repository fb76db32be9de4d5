// gemm_bench [--threads N] [--repeats N] [--batch N]... [--layer INPUTSxOUTPUTS]...: prints one
// JSON object.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <iostream>

#include "gemm_bench.h"

int main(int argc, char** argv) {
  acan::bench::GemmBenchOptions options;
  CLI::App app("Exact products of the CPU backend against OpenBLAS and oneDNN");
  app.add_option("--threads", options.threads, "threads of each")->capture_default_str();
  app.add_option("--repeats", options.repeats, "pairs of runs, at least 7")->capture_default_str();
  app.add_option("--batch", options.batches, "rows of a batch")->capture_default_str();
  app.add_option("--layer", options.layers, "inputs and outputs of a layer, like 784x4096")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    std::cout << acan::bench::RunGemmBench(options).dump(2) << "\n";
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gemm_bench: %s\n", error.what());
    return 1;
  }
}
