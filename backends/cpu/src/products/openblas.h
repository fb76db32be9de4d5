// OpenBLAS, loaded at the first fast product. When it is loaded, it starts a thread for each core,
// and each thread takes some hundred MiB of address space; if there is too little, OpenBLAS retries
// forever. Exact training never needs it. Any thread.
#pragma once

#include <cblas.h>

#include <string>

namespace acan::cpu {

// The library's functions, with the types of its header.
struct OpenBlasLibrary {
  decltype(&cblas_sgemm) sgemm = nullptr;
  decltype(&openblas_set_num_threads) set_num_threads = nullptr;
  decltype(&openblas_get_corename) get_corename = nullptr;
  std::string problem;  // why it cannot be used, as a sentence; empty: it can
};

// Throws Error (failure) if OpenBLAS cannot be loaded, or if the limit of address space is too low
// for it. Whether it can be used is decided at the first call of either function.
const OpenBlasLibrary& OpenBlas();
// As OpenBlas, but where that throws, returns null. The first such call says on stderr that exact
// products take the place of fast ones, and why.
const OpenBlasLibrary* OpenBlasOrNull();

}  // namespace acan::cpu
