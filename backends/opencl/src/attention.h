// Attention on GPUs by tiles of queries and keys in local memory: kernels/attention_tile.h.
#pragma once

#include <cstdint>
#include <vector>

#include "acan/core/device.h"
#include "driver/session.h"
#include "launch_args.h"

namespace acan::opencl {

class AttentionTiles {
 public:
  // Compiles nothing for CPUs, which have no local memory. A GPU on which a group of 64 work-items
  // cannot run the tiles, or whose driver does not compile them, which is said on stderr, keeps the
  // kernels of the table.
  explicit AttentionTiles(Session& session);

  // Enqueues the call, whose region has so many rows, if it is attention that tiles can compute;
  // otherwise it does nothing and returns false.
  bool Run(Kernel kernel, LaunchArgs args, std::int64_t rows);

 private:
  struct Sizes;
  void Build(int threads);
  void Forward(LaunchArgs& args, const Sizes& sizes, std::int64_t rows);
  void Backward(LaunchArgs& args, const Sizes& sizes, std::int64_t rows);
  // Launches a tile's kernel for one block of columns.
  void RunBlock(const ClKernel& kernel, const char* what, LaunchArgs& args, std::int64_t block,
                std::int64_t tiles, std::int64_t rows);

  Session& session_;
  std::size_t threads_ = 0;  // of a group; 0 if no tiles are used
  Program program_;
  ClKernel forward_;
  ClKernel terms_;
  ClKernel keys_;
  ClKernel queries_;
};

}  // namespace acan::opencl
