#include "gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <exception>
#include <span>
#include <string>

#include "acan/core/error.h"
#include "sources.h"
#include "work_items.h"

namespace acan::opencl {
namespace {

// ---- CPUs -------------------------------------------------------------------------------------

struct VectorShape {
  int width;    // floats of a vector
  int vectors;  // of a panel
  int rows;
  int panel() const { return width * vectors; }
};

// Unmeasured devices with vectors of 16 floats get the first shape, other unmeasured devices the
// second.
constexpr VectorShape kVectorShapes[] = {{16, 2, 8}, {8, 2, 6}, {8, 4, 6}, {16, 2, 12}};
constexpr std::uint64_t kMaxScratchBytes = 8u << 20;

class VectorGemm final : public Gemm {
 public:
  // Without `scratch`, nothing is packed.
  VectorGemm(Session& session, const VectorShape& shape, const Memory* scratch,
             std::uint64_t scratch_bytes)
      : session_(session), shape_(shape), scratch_(scratch), scratch_words_(scratch_bytes / 4) {
    const std::string macros = fmt::format(" -DACAN_WIDTH={} -DACAN_VECTORS={} -DACAN_ROWS={}",
                                           shape.width, shape.vectors, shape.rows);
    packed_ = session.Build(kGemmVectorText, macros);
    pack_ = session.KernelOf(packed_, "acan_pack");
    gemm_ = session.KernelOf(packed_, "acan_gemm");
  }

  void Run(const Product& p) override {
    const std::int64_t panel_words = shape_.panel() * p.k;
    const auto at_once = scratch_ == nullptr ? 0 : scratch_words_ / panel_words;
    if (at_once == 0 || direct_only_) {
      RunDirect(p);
      return;
    }
    for (std::int64_t n0 = 0; n0 < p.n; n0 += at_once * shape_.panel()) {
      Product part = p;
      part.n = std::min(p.n - n0, at_once * shape_.panel());
      part.b.offset += n0 * p.b.row_stride;
      part.c_offset += n0;
      Pack(part);
      part.b.memory = scratch_->get();
      Multiply(gemm_, part);
    }
  }

  // Packed and direct; without scratch only direct.
  int Ways() const override { return scratch_ == nullptr ? 1 : 2; }
  void UseWay(int way) override { direct_only_ = way == 1; }

 private:
  void Pack(const Product& p) const {
    session_.SetArgs(pack_, p.b.memory, p.b.offset, p.b.row_stride, p.b.k_stride, p.n, p.k,
                     scratch_->get());
    session_.Run(pack_, "pack", {Cut(p.n, shape_.panel()), Cut(p.k, 64)}, {1, 1});
  }

  void Multiply(const ClKernel& kernel, const Product& p) const {
    const std::int64_t panels = Cut(p.n, shape_.panel());
    const std::int64_t tiles = Cut(p.m, shape_.rows);
    // Several work-items for each compute unit, but each with many rows, so that a panel stays in a
    // cache.
    const std::int64_t wanted = std::max<std::int64_t>(1, 4 * session_.compute_units() / panels);
    const std::int64_t group = Cut(tiles, std::min(tiles, wanted));
    session_.SetArgs(kernel, p.a.memory, p.a.offset, p.a.row_stride, p.a.k_stride, p.b.memory,
                     p.b.offset, p.b.row_stride, p.b.k_stride, p.c, p.c_offset, p.c_stride, p.m,
                     p.n, p.k, p.block, group);
    session_.Run(kernel, "gemm", {panels, Cut(tiles, group)}, {1, 1});
  }

  // Slow, and rarely used: for devices with such a low limit that their scratch cannot hold a
  // panel.
  void RunDirect(const Product& p) {
    if (direct_.get() == nullptr) {
      const std::string macros =
          fmt::format(" -DACAN_WIDTH={} -DACAN_VECTORS={} -DACAN_ROWS={} -DACAN_DIRECT",
                      shape_.width, shape_.vectors, shape_.rows);
      direct_program_ = session_.Build(kGemmVectorText, macros);
      direct_ = session_.KernelOf(direct_program_, "acan_gemm");
    }
    Multiply(direct_, p);
  }

  Session& session_;
  VectorShape shape_;
  const Memory* scratch_;
  std::int64_t scratch_words_;
  bool direct_only_ = false;
  Program packed_;
  Program direct_program_;
  ClKernel pack_;
  ClKernel gemm_;
  ClKernel direct_;
};

// ---- GPUs -------------------------------------------------------------------------------------

struct TileShape {
  int m, n, k;  // of a work-group's tile
  int thread_m, thread_n;
  int threads() const { return m / thread_m * (n / thread_n); }
  // As gemm_tile.h defines it.
  std::uint64_t local_bytes() const { return static_cast<std::uint64_t>(k * (m + n + 2)) * 4; }
};

// The last one is for devices with small groups: a wavefront on AMD has 64 work-items. No tile
// needs more than 16 KiB of local memory, so two groups fit into the minimum that GPUs have, 32
// KiB.
constexpr TileShape kTileShapes[] = {{64, 64, 16, 4, 4},
                                     {128, 64, 16, 8, 4},
                                     {128, 128, 8, 8, 8},
                                     {32, 32, 16, 2, 2},
                                     {32, 32, 16, 4, 4}};
constexpr int kUsualLevels = 8;  // up to 255 leaves; more leaves have a program of their own
constexpr int kMaxLevels = 32;

class TileGemm final : public Gemm {
 public:
  TileGemm(Session& session, const TileShape& shape) : session_(session), shape_(shape) {
    Build(kUsualLevels, usual_program_, usual_);
  }

  void Run(const Product& p) override {
    const bool deep =
        deep_only_ || std::bit_width(static_cast<std::uint64_t>(Cut(p.k, p.block))) > kUsualLevels;
    if (deep) BuildAll();
    const ClKernel& kernel = deep ? deep_ : usual_;
    session_.SetArgs(kernel, p.a.memory, p.a.offset, p.a.row_stride, p.a.k_stride, p.b.memory,
                     p.b.offset, p.b.row_stride, p.b.k_stride, p.c, p.c_offset, p.c_stride, p.m,
                     p.n, p.k, p.block);
    const auto threads = static_cast<std::size_t>(shape_.threads());
    session_.Run(kernel, "gemm", {Cut(p.n, shape_.n) * threads, Cut(p.m, shape_.m)}, {threads, 1});
  }

  void BuildAll() override {
    if (deep_.get() == nullptr) Build(kMaxLevels, deep_program_, deep_);
  }

  // The usual program, and the one for many leaves.
  int Ways() const override { return 2; }
  void UseWay(int way) override { deep_only_ = way == 1; }

 private:
  void Build(int levels, Program& program, ClKernel& kernel) const {
    const std::string macros = fmt::format(
        " -DACAN_TILE_M={} -DACAN_TILE_N={} -DACAN_TILE_K={} -DACAN_THREAD_M={} -DACAN_THREAD_N={} "
        "-DACAN_TILE_LEVELS={}",
        shape_.m, shape_.n, shape_.k, shape_.thread_m, shape_.thread_n, levels);
    program = session_.Build(std::string(kGemmTileHeaderText) + kGemmTileText, macros);
    ClKernel built = session_.KernelOf(program, "acan_gemm");
    const std::size_t most = session_.MostGroupSize(built);
    if (most < static_cast<std::size_t>(shape_.threads())) {
      throw OutOfMemory(fmt::format("{}: groups of a product may have {} work-items, not {}",
                                    session_.name(), most, shape_.threads()));
    }
    kernel = std::move(built);
  }

  Session& session_;
  TileShape shape_;
  bool deep_only_ = false;
  Program usual_program_;
  Program deep_program_;
  ClKernel usual_;
  ClKernel deep_;
};

// ---- the choice ------------------------------------------------------------------------------

// Owns the scratch of the chosen products, and gives it back.
class ChosenGemm final : public Gemm {
 public:
  ChosenGemm(Session& session, GemmKind kind, MemoryBudget& budget,
             std::optional<std::size_t> tile_shape)
      : session_(session), kind_(kind), budget_(budget) {
    if (kind == GemmKind::kVector) ReserveScratch();
    if (kind == GemmKind::kTile && tile_shape) {
      gemm_ = Make(*tile_shape);
      return;
    }
    const std::optional<std::size_t> kept = KeptChoice();
    if (kept) {
      gemm_ = Make(*kept);
      return;
    }
    gemm_ = Measure();
    if (!gemm_) gemm_ = Untried();
  }
  ~ChosenGemm() override { budget_.Release(scratch_bytes_); }
  ChosenGemm(const ChosenGemm&) = delete;
  ChosenGemm& operator=(const ChosenGemm&) = delete;

  void Run(const Product& product) override { gemm_->Run(product); }
  int Ways() const override { return gemm_->Ways(); }
  void UseWay(int way) override { gemm_->UseWay(way); }

 private:
  static constexpr std::int64_t kEdge = 512;  // of the products that are timed

  void ReserveScratch() {
    const std::uint64_t bytes = std::min(budget_.limit_bytes() / 16 / 256 * 256, kMaxScratchBytes);
    if (bytes == 0) return;
    budget_.Charge(bytes);
    scratch_bytes_ = bytes;
    scratch_ = session_.NewMemory(CL_MEM_READ_WRITE, bytes);
  }

  std::size_t Candidates() const {
    return kind_ == GemmKind::kVector ? std::size(kVectorShapes) : std::size(kTileShapes);
  }
  // Without a measurement: the first shape that the device can run. Throws BuildFailed if the
  // driver compiles no shape.
  std::unique_ptr<Gemm> Untried() const {
    if (kind_ == GemmKind::kVector) return Make(session_.candidate().native_floats < 16 ? 1 : 0);
    std::exception_ptr refused;
    for (std::size_t i = 0; i < Candidates(); ++i) {
      if (!Possible(i)) continue;
      try {
        std::unique_ptr<Gemm> each = Make(i);
        each->BuildAll();
        return each;
      } catch (const OutOfMemory&) {
        // As in Fastest.
      } catch (const BuildFailed&) {
        refused = std::current_exception();
      }
    }
    if (refused) std::rethrow_exception(refused);
    throw FailureError(fmt::format(
        "{} has groups of {} work-items and {} bytes of local memory, too few for exact products",
        session_.name(),
        std::min(session_.candidate().most_group_size, session_.candidate().most_kernel_group_size),
        session_.candidate().local_bytes));
  }
  bool Possible(std::size_t i) const {
    if (kind_ == GemmKind::kVector) return true;
    const Candidate& device = session_.candidate();
    return static_cast<std::size_t>(kTileShapes[i].threads()) <= device.most_group_size &&
           kTileShapes[i].local_bytes() <= device.local_bytes;
  }

  std::unique_ptr<Gemm> Make(std::size_t i) const {
    if (kind_ == GemmKind::kTile) return std::make_unique<TileGemm>(session_, kTileShapes[i]);
    return std::make_unique<VectorGemm>(session_, kVectorShapes[i],
                                        scratch_bytes_ == 0 ? nullptr : &scratch_, scratch_bytes_);
  }

  std::string Key() const {
    return session_.KeyOf(
        fmt::format("sizes of {} units for:\n{}", session_.compute_units(),
                    kind_ == GemmKind::kVector ? kGemmVectorText : kGemmTileHeaderText));
  }
  std::optional<std::size_t> KeptChoice() const {
    const std::optional<std::string> kept = session_.cache().Load(Key());
    if (!kept || kept->size() != 1) return std::nullopt;
    const auto i = static_cast<std::size_t>((*kept)[0] - '0');
    return i < Candidates() && Possible(i) ? std::optional(i) : std::nullopt;
  }

  // The fastest of the shapes that the device can run, or null if there is no room to try them.
  std::unique_ptr<Gemm> Measure() {
    constexpr std::uint64_t kBytes = 3 * kEdge * kEdge * 4;
    if (kBytes > budget_.limit_bytes() - budget_.used_bytes()) return nullptr;
    budget_.Charge(kBytes);
    std::unique_ptr<Gemm> best;
    try {
      const Memory memory = session_.NewMemory(CL_MEM_READ_WRITE, kBytes);
      best = Fastest(memory.get());
    } catch (...) {
      budget_.Release(kBytes);
      throw;
    }
    budget_.Release(kBytes);
    return best;
  }

  std::unique_ptr<Gemm> Fastest(cl_mem memory) const {
    std::unique_ptr<Gemm> best;
    std::size_t best_index = 0;
    double best_seconds = 1e30;
    for (std::size_t i = 0; i < Candidates(); ++i) {
      if (!Possible(i)) continue;
      try {
        std::unique_ptr<Gemm> each = Make(i);
        const double seconds = Seconds(*each, memory);
        if (seconds >= best_seconds) continue;
        each->BuildAll();
        best_seconds = seconds;
        best = std::move(each);
        best_index = i;
      } catch (const OutOfMemory&) {
        // It needs more registers or local memory than the device has; others may need less.
      } catch (const BuildFailed&) {
        // The same, but found by the compiler, which knows the size of the groups.
      }
    }
    if (best) {
      session_.cache().Store(Key(), std::string(1, static_cast<char>('0' + best_index)));
    }
    return best;
  }

  double Seconds(Gemm& gemm, cl_mem memory) const {
    Product p;
    p.a = {memory, 0, kEdge, 1};
    p.b = {memory, kEdge * kEdge, kEdge, 1};
    p.c = memory;
    p.c_offset = 2 * kEdge * kEdge;
    p.c_stride = p.m = p.n = p.k = kEdge;
    p.block = 64;
    const cl_float zero = 0.0f;  // uninitialised memory might contain denormals, which are slow
    session_.commands().Add("clEnqueueFillBuffer", [&](cl_command_queue queue, cl_event* event) {
      return clEnqueueFillBuffer(queue, memory, &zero, sizeof(zero), 0, 3 * kEdge * kEdge * 4, 0,
                                 nullptr, event);
    });
    double best = 1e30;
    for (int i = 0; i < 5; ++i) {
      session_.Finish();
      const auto begin = std::chrono::steady_clock::now();
      gemm.Run(p);
      session_.Finish();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      best = std::min(best, took.count());
    }
    return best;
  }

  Session& session_;
  GemmKind kind_;
  MemoryBudget& budget_;
  std::uint64_t scratch_bytes_ = 0;
  Memory scratch_;
  std::unique_ptr<Gemm> gemm_;
};

}  // namespace

std::unique_ptr<Gemm> MakeGemm(Session& session, GemmKind kind, MemoryBudget& budget,
                               std::optional<std::size_t> tile_shape) {
  return std::make_unique<ChosenGemm>(session, kind, budget, tile_shape);
}

std::size_t TileShapes() {
  return std::size(kTileShapes);
}

}  // namespace acan::opencl
