// gpu_bench: products, exact and fast, beside those of cuBLAS.
#include <fmt/format.h>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/operators/operators.h"
#include "acan/cuda/cuda_devices.h"
#include "cublas.h"
#include "gpu_bare.h"
#include "gpu_counters.h"
#include "gpu_parts.h"
#include "gpu_timing.h"
#include "gpu_ways.h"
#include "products/exact_products.h"
#include "random_matrix.h"

namespace acan::cuda {

using bench::RandomMatrix;
using nlohmann::json;

namespace {
// One device with the three matrices of a product.
class OnDevice {
 public:
  OnDevice(std::unique_ptr<Device> device, const Shape& s)
      : device_(std::move(device)), form_(s.form) {
    const bool a_k_first = SumIndexComesFirst(s.form, 0);
    const bool b_k_first = SumIndexComesFirst(s.form, 1);
    a_ = RandomMatrix(*device_, a_k_first ? s.k : s.m, a_k_first ? s.m : s.k, 0);
    b_ = RandomMatrix(*device_, b_k_first ? s.k : s.n, b_k_first ? s.n : s.k, 1);
    c_ = RandomMatrix(*device_, s.m, s.n, 2);
  }
  Way As(const std::string& name, Precision precision) {
    return {
        name,
        [this, precision] { device_->Gemm(form_, precision, 64, a_.matrix, b_.matrix, c_.matrix); },
        [this] { device_->Synchronize(); }};
  }

 private:
  std::unique_ptr<Device> device_;
  GemmForm form_;
  bench::Operand a_, b_, c_;
};

constexpr const char* kForms[] = {"forward", "backward", "gradient"};

std::string NameOf(const Shape& s) {
  return fmt::format("{} {} {} {}", kForms[static_cast<int>(s.form)], s.m, s.n, s.k);
}

// This product on a device of `sizes`, as the choice of exact kernels sees it.
Product ProductOf(const Shape& s) {
  Product product;
  product.m = s.m;
  product.n = s.n;
  product.k = s.k;
  product.block = 64;
  product.a.k_stride = SumIndexComesFirst(s.form, 0) ? s.m : 1;
  product.b.k_stride = SumIndexComesFirst(s.form, 1) ? s.n : 1;
  return product;
}
GemmGpu GpuOf(const Sizes& sizes, int multiprocessors) {
  GemmGpu gpu = GemmGpuOf(0, multiprocessors, "cuda:0");
  gpu.workspace_bytes = WorkspaceBytesOf(sizes.limit_bytes);
  return gpu;
}
}  // namespace

json Products(const Sizes& sizes, const Shape& s, int multiprocessors,
              std::vector<bench::Figure>& figures) {
  std::vector<Way> ways;         // in fp32
  std::vector<Way> tensor_ways;  // on tensor cores
  std::vector<std::unique_ptr<OnDevice>> own;
  std::vector<std::unique_ptr<Bare>> bare;
  const GemmGpu gpu = GpuOf(sizes, multiprocessors);
  for (const OwnWay& each : kOwnWays) {
    const bool fast = each.precision == Precision::kFast;
    if (fast && !CublasProblem().empty()) continue;
    if (each.wish.tile && !MayHaveTile(gpu, *each.wish.tile)) continue;
    own.push_back(std::make_unique<OnDevice>(Make(sizes, each.math, each.wish), s));
    std::vector<Way>& among = each.math == FastMath::kFp32 ? ways : tensor_ways;
    among.push_back(own.back()->As(each.name, each.precision));
    if (!fast) continue;
    bare.push_back(std::make_unique<Bare>(s, each.math));
    among.push_back(bare.back()->As(std::string("cublas") + std::strchr(each.name, '_')));
  }
  const double flops =
      2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  Rates rates;
  Settle(sizes, ways.front());
  json tflops = Compare(sizes, ways, 1e-12 * flops, rates);
  if (!tensor_ways.empty()) tflops.update(Compare(sizes, tensor_ways, 1e-12 * flops, rates));
  const GemmPlan plan = PlanOf(ProductOf(s), gpu);
  json out = {{"form", kForms[static_cast<int>(s.form)]},
              {"m", s.m},
              {"n", s.n},
              {"k", s.k},
              {"chosen_tile", NameOf(plan.tile)},
              {"chosen_parts", plan.parts},
              {"tflops", std::move(tflops)}};
  if (CublasProblem().empty()) out["exact_to_cublas_fp32"] = rates["exact"] / rates["cublas_fp32"];
  AddFigures(NameOf(s), flops, rates, CountersOfProduct(s.form, ProductOf(s), gpu), figures);
  return out;
}

bool ProfileProduct(const Sizes& sizes, const std::string& name, const Profile& profile) {
  for (const Shape& s : sizes.products) {
    for (const OwnWay& each : kOwnWays) {
      if (NameOf(s) + " " + each.name != name) continue;
      OnDevice on(Make(sizes, each.math, each.wish), s);
      const Way way = on.As(each.name, each.precision);
      profile([&] { way.Run(); });
      return true;
    }
  }
  return false;
}

}  // namespace acan::cuda
