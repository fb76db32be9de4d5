// The cost of exact precision on the CPU: the three products of a layer, exact against OpenBLAS and
// oneDNN, interleaved on the same threads.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "acan/core/device.h"

namespace acan::bench {

struct GemmBenchOptions {
  std::vector<std::int64_t> batches = {128, 512};
  // "784x4096", or "4096" for a layer with equal numbers of inputs and outputs.
  std::vector<std::string> layers = {"784x4096", "4096", "4096x10", "1024", "784x512", "512x256"};
  int threads = 1;
  int repeats = 9;          // at least 7: medians and spreads are reported
  Device* other = nullptr;  // measured beside the CPU; may be null
};

// Takes a minute with the defaults. {clock, isa, openblas_core, block, threads, cases: [{form,
// batch, inputs, outputs, exact_gflops, openblas_gflops, onednn_gflops, to_openblas, to_onednn,
// to_best}]}. Every number of a case is {median, min, max, repeats}. The last three are ratios of
// runs that followed each other, above 1 where exact is faster; to_best is to the faster library of
// each turn. The numbers of oneDNN are missing if it cannot be loaded. One thread is timed by its
// CPU time, so that other processes disturb less; several threads by wall clock. `openblas_core` is
// the processor for which OpenBLAS chose its code; an old version may not know a new processor (the
// environment variable OPENBLAS_CORETYPE overrides it). With `other`, everything is timed by wall
// clock, `other` is its name and description, and each case also has other_exact_gflops,
// other_fast_gflops and other_ratio, the ratio of its exact products to the CPU's. Throws
// std::invalid_argument for options out of range.
nlohmann::json RunGemmBench(const GemmBenchOptions& options);

}  // namespace acan::bench
