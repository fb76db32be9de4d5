// Which calls of attention run by tiles in shared memory, and how they are launched.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "acan/core/operators/kernels.h"

namespace acan::cuda {

struct TileLaunch {
  const void* kernel = nullptr;
  unsigned threads = 0;
  std::size_t shared_bytes = 0;
};

class AttentionTiles {
 public:
  // Lets the kernels have all shared memory of a block. Throws what Check throws.
  AttentionTiles(int ordinal, const std::string& name);

  // nullopt: another kernel, or heads that are too wide for this GPU, or not of whole quads; the
  // kernel of the table computes the same bits. head_width: the columns of a head.
  std::optional<TileLaunch> Find(Kernel kernel, const KernelScalars& scalars,
                                 std::int64_t head_width) const;

  static std::vector<const void*> Kernels();

 private:
  std::size_t block_shared_bytes_;
};

}  // namespace acan::cuda
