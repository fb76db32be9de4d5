// The ways in which gpu_bench computes each product on acan's own device.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "acan/core/device.h"
#include "products/gemm_choice.h"

namespace acan::cuda {

// Something that is timed. Calls may continue after they return; `wait` returns when all are done.
struct Way {
  std::string name;
  std::function<void()> call;
  std::function<void()> wait;

  void Run() const {
    call();
    wait();
  }
};

// A way in which acan's own device computes a product.
struct OwnWay {
  const char* name;
  Precision precision;
  FastMath math;
  GemmWay wish;
};
constexpr OwnWay ExactWay(const char* name, std::optional<GemmTile> tile, std::optional<bool> cut) {
  return {name, Precision::kExact, FastMath::kFp32, {tile, cut}};
}
// Products for all GPUs, and those for compute capability 8.0 and later, which begin with "ring".
inline constexpr OwnWay kOwnWays[] = {
    ExactWay("exact", std::nullopt, std::nullopt),
    ExactWay("exact_uncut", std::nullopt, false),
    ExactWay("exact_128", GemmTile::k128, false),
    ExactWay("exact_64", GemmTile::k64, false),
    ExactWay("exact_32", GemmTile::k32, false),
    ExactWay("exact_ring128", GemmTile::kRing128, false),
    ExactWay("exact_ring64", GemmTile::kRing64, false),
    ExactWay("exact_ring32", GemmTile::kRing32, false),
    {"fast_fp32", Precision::kFast, FastMath::kFp32, {}},
    {"fast_tf32", Precision::kFast, FastMath::kTf32, {}},
    {"fast_bf16", Precision::kFast, FastMath::kBf16, {}},
};

constexpr const char* NameOf(GemmTile tile) {
  constexpr const char* kNames[] = {"128", "64", "32", "ring128", "ring64", "ring32"};
  return kNames[static_cast<int>(tile)];
}

}  // namespace acan::cuda
