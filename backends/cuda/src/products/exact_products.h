// ExactProducts: launches the kernels of exact products on one GPU. Not thread-safe; REQUIRES: the
// GPU is the thread's current device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "products/gemm_choice.h"

namespace acan::cuda {

// What the choice of kernels needs to know of the thread's current device, `ordinal`. Throws what
// Check throws.
GemmGpu GemmGpuOf(int ordinal, int multiprocessors, const std::string& name);

class ExactProducts {
 public:
  // `wish`: overrides the choice if the product allows it. `workspace`: gpu.workspace_bytes on the
  // device, which products share in the order of `stream`. It must outlive this object.
  ExactProducts(std::string name, const GemmGpu& gpu, const GemmWay& wish, cudaStream_t stream,
                float* workspace);

  // Device::ExactWays and UseExactWay: each size of tiles, with and without cutting k.
  int Ways() const { return static_cast<int>(ways_.size()); }
  void UseWay(int way);

  // The kernels that may be launched.
  std::vector<const void*> Kernels() const;

  // Enqueues the product in the stream. Throws std::invalid_argument if c has more tiles than a
  // launch may have blocks.
  void Run(const Product& product);

  // The plan for a sum over groups of rows; nullopt: there is no implementation for it. REQUIRES:
  // group_rows > 0.
  std::optional<GroupsPlan> PlanOfGroups(const Product& product, std::int64_t group_rows) const {
    return GroupsPlanOf(product, group_rows, gpu_, way_);
  }
  // Enqueues it in the stream. Throws as Run. REQUIRES: the plan is that of this product.
  void RunGroups(const Product& product, const GroupsPlan& plan);

 private:
  void RunQuads(const Product& product, GemmTile tile);
  // `parts`: memory for the parts if there are several.
  void RunRing(const Product& product, const GemmPlan& plan, float* parts);
  void RunParts(const Product& product, const GemmPlan& plan, float* parts);
  // c = the sum of the parts, in whose memory sums replace parts.
  void AddParts(const Product& product, std::int64_t count, float* parts);
  void LaunchAddition(const Parts& parts);
  void Launch(const void* kernel, dim3 blocks, unsigned threads, void** parameters,
              std::uint64_t shared_bytes);

  std::string name_;
  GemmGpu gpu_;
  GemmWay wish_;
  cudaStream_t stream_;
  float* workspace_;
  std::vector<GemmWay> ways_;
  GemmWay way_;
};

}  // namespace acan::cuda
