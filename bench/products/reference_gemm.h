// The three products of a layer by the libraries that exact products are measured against.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "acan/core/device.h"

namespace acan::bench {

// Row-major c = op(a) * op(b) as GemmForm says; m, n, k as there; no row is padded.
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
  // On `threads` threads, the calling one included. Throws std::runtime_error if it fails.
  void (*multiply)(const ReferenceProduct& product, int threads);
};

// OpenBLAS, and oneDNN where it can be loaded.
std::vector<ReferenceLibrary> ReferenceLibraries();

}  // namespace acan::bench
