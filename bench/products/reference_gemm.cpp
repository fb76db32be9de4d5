#include "reference_gemm.h"

#include "acan/core/operators/operators.h"
#include "products/onednn.h"
#include "products/openblas.h"

namespace acan::bench {
namespace {

void MultiplyOpenBlas(const ReferenceProduct& p, int threads) {
  const bool a_by_k = !SumIndexComesFirst(p.form, 0);
  const bool b_by_k = !SumIndexComesFirst(p.form, 1);
  const cpu::OpenBlasLibrary& openblas = cpu::OpenBlas();
  openblas.set_num_threads(threads);
  openblas.sgemm(CblasRowMajor, a_by_k ? CblasNoTrans : CblasTrans,
                 b_by_k ? CblasTrans : CblasNoTrans, p.m, p.n, p.k, 1.0f, p.a, a_by_k ? p.k : p.m,
                 p.b, b_by_k ? p.k : p.n, 0.0f, p.c, p.n);
}

void MultiplyOneDnn(const ReferenceProduct& p, int threads) {
  const bool a_by_k = !SumIndexComesFirst(p.form, 0);
  const bool b_by_k = !SumIndexComesFirst(p.form, 1);
  cpu::OneDnnMultiply(
      {p.m, p.n, p.k, p.a, a_by_k ? p.k : p.m, !a_by_k, p.b, b_by_k ? p.k : p.n, b_by_k, p.c, p.n},
      threads);
}

}  // namespace

std::vector<ReferenceLibrary> ReferenceLibraries() {
  std::vector<ReferenceLibrary> libraries{{"openblas", &MultiplyOpenBlas}};
  if (cpu::OneDnnProblem().empty()) libraries.push_back({"onednn", &MultiplyOneDnn});
  return libraries;
}

}  // namespace acan::bench
