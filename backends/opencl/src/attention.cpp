#include "attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "acan/core/operators/operators.h"
#include "sources.h"
#include "work_items.h"

namespace acan::opencl {
namespace {

constexpr std::int64_t kTile = 64;  // queries, keys and columns of a tile
constexpr std::int64_t kStep = 16;
constexpr std::int64_t kThreadRows = 8;
// Products of heads have 2^kProductLevels - 1 leaves of 64 columns at most.
constexpr int kProductLevels = 3;
constexpr std::int64_t kMostWidth = ((std::int64_t{1} << kProductLevels) - 1) * kTile;
constexpr std::int64_t kLeastWidth = 3;  // the terms of a query fit into its columns
// ACAN_ATTENTION_TILE_LEVELS in attention_tile.h.
constexpr std::int64_t kMostRows = kTile << 10;
// As attention_tile.h has them, which checks it.
constexpr std::int64_t kLocalWords = 2 * kStep * (kTile + 1) + kTile * (kTile + 1) + 3 * kTile;
constexpr std::size_t kLocalBytes = kLocalWords * 4;

std::string Source() {
  std::string text;
  for (const char* part : {kAttentionText, kAttentionGradientText, kLaunchText, kGemmTileHeaderText,
                           kAttentionTileText, kAttentionForwardText, kAttentionBackwardText}) {
    text += part;
  }
  return text;
}

}  // namespace

struct AttentionTiles::Sizes {
  std::int64_t queries, keys, heads, shared, width;

  Sizes(Kernel kernel, const LaunchScalars& s)
      : queries(s.i[1]),
        keys(s.i[2]),
        heads(s.i[3] * s.i[4]),
        shared(s.i[4]),
        width(s.cols[kernel == Kernel::kAttention ? 2 : 3] / heads) {}
  bool Fit() const {
    return width >= kLeastWidth && width <= kMostWidth && std::max(queries, keys) <= kMostRows;
  }
  std::int64_t blocks() const { return Cut(width, kTile); }
};

AttentionTiles::AttentionTiles(Session& session) : session_(session) {
  const Candidate& device = session.candidate();
  if (device.cpu || device.local_bytes < kLocalBytes) return;
  std::string refused;
  for (const int threads : {128, 64}) {
    if (device.most_group_size < static_cast<std::size_t>(threads)) continue;
    try {
      Build(threads);
    } catch (const BuildFailed& error) {
      refused = error.what();
    }
    if (threads_ != 0) return;
  }
  if (refused.empty()) return;
  std::fputs(fmt::format("acan: {}: attention will be slow: {}\n", session.name(), refused).c_str(),
             stderr);
}

void AttentionTiles::Build(int threads) {
  program_ = session_.Build(
      Source(),
      fmt::format(" -DACAN_COLUMN_LANES=1 -DACAN_ELEMENT_RUN=1 -DACAN_GPU -DACAN_SHORT_STEPS "
                  "-DACAN_TILE_M={} -DACAN_TILE_N={} -DACAN_TILE_K={} -DACAN_THREAD_M={} "
                  "-DACAN_THREAD_N={} -DACAN_TILE_LEVELS={} -DACAN_LOCAL_WORDS={}",
                  kTile, kTile, kStep, kThreadRows, kTile * kTile / kThreadRows / threads,
                  kProductLevels, kLocalWords));
  forward_ = session_.KernelOf(program_, "acan_attention_forward");
  terms_ = session_.KernelOf(program_, "acan_attention_terms");
  keys_ = session_.KernelOf(program_, "acan_attention_backward_keys");
  queries_ = session_.KernelOf(program_, "acan_attention_backward_queries");
  const std::size_t most =
      std::min({session_.MostGroupSize(forward_), session_.MostGroupSize(keys_),
                session_.MostGroupSize(queries_)});
  if (most >= static_cast<std::size_t>(threads)) threads_ = static_cast<std::size_t>(threads);
}

bool AttentionTiles::Run(Kernel kernel, LaunchArgs args, std::int64_t rows) {
  const bool forward = kernel == Kernel::kAttention;
  if (threads_ == 0 || (!forward && kernel != Kernel::kAttentionGradient)) return false;
  const Sizes sizes(kernel, args.scalars);
  if (!sizes.Fit()) return false;
  if (forward) {
    Forward(args, sizes, rows);
  } else {
    Backward(args, sizes, rows);
  }
  return true;
}

void AttentionTiles::Forward(LaunchArgs& args, const Sizes& sizes, std::int64_t rows) {
  for (std::int64_t block = 0; block < sizes.blocks(); ++block) {
    RunBlock(forward_, "attention", args, block, Cut(sizes.queries, kTile), rows);
  }
}

// The order is that of attention_backward.cl.
void AttentionTiles::Backward(LaunchArgs& args, const Sizes& sizes, std::int64_t rows) {
  constexpr std::size_t kQ = 3;
  SetArgs(session_, terms_, args, kLocalBytes);
  session_.Run(
      terms_, "attention's terms",
      {static_cast<std::size_t>(args.scalars.rows[kQ]), static_cast<std::size_t>(sizes.heads)},
      {static_cast<std::size_t>(kTile), 1});
  for (std::int64_t block = 0; block < sizes.blocks(); ++block) {
    RunBlock(keys_, "attention's gradient of keys", args, block, Cut(sizes.keys, kTile), rows);
  }
  for (std::int64_t block = sizes.blocks() - 1; block >= 0; --block) {
    RunBlock(queries_, "attention's gradient of queries", args, block, Cut(sizes.queries, kTile),
             rows * sizes.shared);
  }
}

void AttentionTiles::RunBlock(const ClKernel& kernel, const char* what, LaunchArgs& args,
                              std::int64_t block, std::int64_t tiles, std::int64_t rows) {
  args.scalars.region_cols = block * kTile;
  SetArgs(session_, kernel, args, kLocalBytes);
  session_.Run(kernel, what,
               {static_cast<std::size_t>(tiles) * threads_, static_cast<std::size_t>(rows)},
               {threads_, 1});
}

}  // namespace acan::opencl
