// The sizes that gpu_bench measures: shapes of products, sums over groups of rows and kernels, and
// sizes of copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "acan/core/device.h"
#include "kernel_probes.h"

namespace acan::cuda {

struct Shape {
  GemmForm form;
  std::int64_t m, n, k;
};

// The gradient of a weight [m, n], whose operands have equal groups of rows.
struct GroupsShape {
  std::int64_t m, n, group_rows, groups;
};

struct Sizes {
  std::uint64_t limit_bytes;
  int repeats;
  double least_seconds;     // of one timing, so that clocks and launches matter less
  double settling_seconds;  // between products on tensor cores and other products
  std::vector<Shape> products;
  std::vector<GroupsShape> groups;
  std::vector<bench::MatrixShape> kernels;
  std::vector<std::size_t> copies;  // bytes
};

inline const Sizes& FullSizes() {
  static const Sizes kSizes{std::uint64_t{6} << 30,
                            5,
                            0.02,
                            0.3,
                            {{GemmForm::kForward, 4096, 4096, 4096},
                             {GemmForm::kBackward, 4096, 4096, 4096},
                             {GemmForm::kGradient, 4096, 4096, 4096},
                             {GemmForm::kForward, 512, 8192, 8192},
                             {GemmForm::kBackward, 512, 8192, 8192},
                             {GemmForm::kGradient, 8192, 8192, 512},
                             {GemmForm::kForward, 4096, 2304, 768},
                             {GemmForm::kBackward, 4096, 768, 3072},
                             {GemmForm::kGradient, 3072, 768, 4096},
                             {GemmForm::kForward, 128, 1024, 1024},
                             {GemmForm::kForward, 512, 1024, 1024},
                             {GemmForm::kGradient, 1024, 1024, 128}},
                            // Convolutions of first layers with few and many samples, and a
                            // linear layer of a vision transformer.
                            {{64, 576, 50'176, 2},
                             {64, 576, 50'176, 16},
                             {64, 147, 12'544, 4},
                             {64, 147, 12'544, 32},
                             {16, 144, 784, 4},
                             {16, 144, 784, 128},
                             {384, 128, 50, 128}},
                            {{4096, 4096}, {128, 4096}},
                            {64 << 10, 4 << 20, 256 << 20}};
  return kSizes;
}
inline const Sizes& QuickSizes() {
  static const Sizes kSizes{48 << 20,
                            1,
                            0,
                            0,
                            {{GemmForm::kForward, 96, 64, 72}, {GemmForm::kGradient, 64, 136, 64}},
                            {{12, 20, 50, 5}},
                            {{64, 128}},
                            {1 << 20}};
  return kSizes;
}

}  // namespace acan::cuda
