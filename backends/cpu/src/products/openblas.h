// OpenBLAS, loaded when a fast product is first wanted: when it is loaded it starts a thread for
// each core, and each takes some hundred MiB of address space, for which it asks for ever where
// there are none. Exact training never needs it. Any thread.
#pragma once

#include <cblas.h>

#include <string>

namespace acan::cpu {

// The library's functions, by the header's types.
struct OpenBlasLibrary {
  decltype(&cblas_sgemm) sgemm = nullptr;
  decltype(&openblas_set_num_threads) set_num_threads = nullptr;
  decltype(&openblas_get_corename) get_corename = nullptr;
  std::string problem;  // why it cannot be used, in a sentence; empty: it can
};

// Throws Error (failure) if OpenBLAS cannot be loaded, or if the limit of address space leaves too
// little for it.
const OpenBlasLibrary& OpenBlas();

}  // namespace acan::cpu
