// The three products of a layer by the libraries with which exact products are compared.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "acan/core/device.h"

namespace acan::bench {

// Row-major c = op(a) * op(b) as GemmForm defines; m, n, k as there; rows are not padded.
struct ReferenceProduct {
  GemmForm form;
  int m;
  int n;
  int k;
  const float* a;
  const float* b;
  float* c;
};

struct ReferenceLibrary {
  std::string_view name;  // "openblas", "onednn"
  // Runs on `threads` threads, including the calling one. Throws std::runtime_error if it fails.
  void (*multiply)(const ReferenceProduct& product, int threads);
};

// OpenBLAS, and oneDNN if it can be loaded.
std::vector<ReferenceLibrary> ReferenceLibraries();

}  // namespace acan::bench
