// Exact products: chooses the kernel and its sizes, and what is packed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "acan/core/memory_budget.h"
#include "acan/opencl/opencl_devices.h"
#include "driver/session.h"

namespace acan::opencl {

// As the CPU's Operand: element (row, k) is word offset + row * row_stride + k * k_stride.
struct Operand {
  cl_mem memory = nullptr;
  std::int64_t offset = 0;
  std::int64_t row_stride = 0;
  std::int64_t k_stride = 0;
};

// c[m, n] = a * b^T, summed over k in leaves of `block`.
struct Product {
  Operand a;
  Operand b;
  cl_mem c = nullptr;
  std::int64_t c_offset = 0;
  std::int64_t c_stride = 0;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t block = 0;
};

class Gemm {
 public:
  virtual ~Gemm() = default;
  // Enqueues the product.
  virtual void Run(const Product& product) = 0;
  // As Device::ExactWays and UseExactWay.
  virtual int Ways() const { return 1; }
  virtual void UseWay(int /*way*/) {}
  // Builds the kernels of all ways, some of which Run otherwise builds at their first use. Throws
  // OutOfMemory if the device cannot run one of them, and BuildFailed if its driver refuses one.
  virtual void BuildAll() {}
};

// The kernels for the device, with the sizes that measured best (measured now, if there is no
// measurement yet and the budget has room for it). Packing scratch is charged to `budget`, which
// must outlive the result. `tile_shape`: a fixed choice, for tests.
std::unique_ptr<Gemm> MakeGemm(Session& session, GemmKind kind, MemoryBudget& budget,
                               std::optional<std::size_t> tile_shape);

}  // namespace acan::opencl
