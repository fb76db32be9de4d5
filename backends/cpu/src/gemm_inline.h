// Exact products out of tiles: cutting into blocks that fit the scratch, packing, the order of
// chunks. Included once per instruction set, after pack_inline.h and tile_inline.h.

// Rows of P and of Q that are multiplied at once over one chunk: P's part (about 140 KiB) is read
// from L2 for each panel of Q, a panel of Q (16 to 32 KiB) from L1 for each tile of P.
constexpr int64_t kMostGroupRows = kTileRows * (132 / kTileRows);
constexpr int64_t kMostGroupCols = 128;  // of a kept Q: the open sums of a group stay near
constexpr int64_t kMostStripCols = 256;  // of a strip of Q: fewer pages are touched in turns
constexpr int64_t kMostKeptParts =
    8;  // more passes over the strips' operand cost more than repacking

int64_t Min(int64_t a, int64_t b) {
  return a < b ? a : b;
}
int64_t RoundUp(int64_t value, int64_t step) {
  return (value + step - 1) / step * step;
}
int BitWidth(uint64_t value) {
  return value == 0 ? 0 : 64 - __builtin_clzll(value);
}

// A product with its operands' parts fixed: P's rows are broadcast, Q's are vector lanes.
struct Roles {
  Operand p;
  Operand q;
  int64_t p_rows;
  int64_t q_rows;
  float* c;
  int64_t c_p_stride;  // of c along P's rows
  int64_t c_q_stride;
  bool p_is_a;
};

// One operand is kept: packed once for many strips of the other. Both are packed over all of k, so
// that the tree's open sums are those of one group of the kept operand and one strip, near the
// core; if the scratch is too small for that, chunk by chunk for each group and strip.
struct Plan {
  int64_t k;
  int64_t block;
  int64_t chunk;    // k of one pass
  int64_t depth;    // chunks packed at once: all, or 1
  bool keep_p;      // else Q
  int64_t kept;     // rows of the kept operand packed at once
  int64_t p_group;  // rows of P and of Q multiplied at once; one of them is the strip
  int64_t q_group;
  int slots;  // outer levels and the open leaf, per tile
};

Roles AssignRoles(const GemmProblem& g) {
  const bool a_by_k = g.a.k_stride == 1;
  const bool b_by_k = g.b.k_stride == 1;
  // With k contiguous in both, the vector operand is the one to be transposed: the smaller.
  if (a_by_k && b_by_k && g.m >= 2 * Vec::kWidth && g.m < g.n) {
    return {g.b, g.a, g.n, g.m, g.c, 1, g.c_stride, false};
  }
  return {g.a, g.b, g.m, g.n, g.c, g.c_stride, 1, true};
}

// `total` cut into equal parts of at most `most`, rounded up to `step`.
int64_t Even(int64_t total, int64_t most, int64_t step) {
  const int64_t parts = (total + most - 1) / most;
  return RoundUp((total + parts - 1) / parts, step);
}

// Rows of P and of Q that are packed at once.
int64_t PackedP(const Plan& plan) {
  return plan.keep_p ? plan.kept : plan.p_group;
}
int64_t PackedQ(const Plan& plan) {
  return plan.keep_p ? plan.q_group : plan.kept;
}
int64_t PFloats(const Plan& plan) {
  return plan.depth * RoundUp(PackedP(plan), kTileRows) * kRowPitch;
}
int64_t QFloats(const Plan& plan) {
  return plan.depth * RoundUp(PackedQ(plan), kTileCols) / kTileCols * PanelPitch(plan.chunk);
}
int64_t OuterFloats(const Plan& plan) {
  return RoundUp(plan.p_group, kTileRows) / kTileRows * RoundUp(plan.q_group, kTileCols) /
         kTileCols * plan.slots * kTileFloats;
}
bool Fits(const Plan& plan, int64_t scratch_floats) {
  return PFloats(plan) + QFloats(plan) + OuterFloats(plan) <= scratch_floats;
}

void SetChunk(Plan& plan, int64_t chunk) {
  plan.chunk = chunk;
  const int64_t unit = plan.block > chunk ? plan.block : chunk;
  const int levels = BitWidth((uint64_t)((plan.k + unit - 1) / unit - 1));
  plan.slots = levels + (plan.block > chunk && plan.k > chunk ? 1 : 0);
}

// REQUIRES: scratch_floats >= kFixedScratchFloats.
Plan MakePlan(const Roles& roles, int64_t k, int64_t block, int64_t scratch_floats) {
  Plan plan{};
  plan.k = k;
  plan.block = block;
  SetChunk(plan, kChunk);
  plan.depth = (k + kChunk - 1) / kChunk;
  plan.keep_p = roles.p_rows <= roles.q_rows;
  plan.p_group = Even(roles.p_rows, kMostGroupRows, kTileRows);
  plan.q_group = Even(roles.q_rows, plan.keep_p ? kMostStripCols : kMostGroupCols, kTileCols);
  const int64_t kept_rows = plan.keep_p ? roles.p_rows : roles.q_rows;
  const int64_t step = plan.keep_p ? plan.p_group : plan.q_group;
  for (int64_t parts = 1; parts <= kMostKeptParts; ++parts) {
    plan.kept = Even(kept_rows, (kept_rows + parts - 1) / parts, step);
    if (Fits(plan, scratch_floats)) return plan;
  }
  // Chunk by chunk; with little scratch shorter passes leave room for wider groups.
  plan.depth = 1;
  if (scratch_floats < (1 << 18)) SetChunk(plan, 64);
  for (;;) {
    plan.kept = plan.keep_p ? plan.p_group : plan.q_group;
    if (Fits(plan, scratch_floats)) return plan;
    if (plan.p_group > kTileRows &&
        (plan.p_group >= plan.q_group || PFloats(plan) > scratch_floats / 4)) {
      plan.p_group = RoundUp(plan.p_group / 2, kTileRows);
    } else if (plan.q_group > kTileCols) {
      plan.q_group = RoundUp(plan.q_group / 2, kTileCols);
    } else {
      plan.p_group = kTileRows;
    }
  }
}

// The pass over [k0, k0 + k): a whole node of the tree, or a part of one leaf.
Chunk ChunkAt(const Plan& plan, int64_t k0) {
  Chunk chunk{};
  chunk.k = Min(plan.chunk, plan.k - k0);
  const int64_t end = k0 + chunk.k;
  const int64_t unit = plan.block > plan.chunk ? plan.block : plan.chunk;
  const uint64_t index = (uint64_t)(k0 / unit);
  chunk.open_slot = plan.slots - 1;
  chunk.resume = k0 % unit != 0;
  chunk.suspend = end % unit != 0 && end != plan.k;
  if (end == plan.k) {
    chunk.pending = index;
    chunk.store_level = -1;
  } else {
    chunk.store_level = __builtin_ctzll(~index);
    chunk.pending = ((uint64_t)1 << chunk.store_level) - 1;
  }
  return chunk;
}

struct Panels {
  float* p;
  float* q;
  float* outer;
};

// A part of the product: rows of P and Q, all of which is packed.
struct Part {
  int64_t p0;
  int64_t p_rows;
  int64_t q0;
  int64_t q_rows;
};

// All tiles of one part over one chunk.
void RunTiles(const Roles& roles, const Plan& plan, const Chunk& chunk, const Part& part,
              const Panels& panels) {
  const bool by_rows = roles.p.k_stride == 1;
  const auto& tiles = by_rows ? kTiles.by_rows : kTiles.interleaved;
  const int64_t pitch = PanelPitch(plan.chunk);
  const float* q = panels.q;
  float* outer = panels.outer;
  for (int64_t j = 0; j < part.q_rows; j += kTileCols, q += pitch) {
    const int64_t cols = Min(kTileCols, part.q_rows - j);
    const int vecs = (int)((cols + Vec::kWidth - 1) / Vec::kWidth);
    const float* p = panels.p;
    int rows = 0;
    for (int64_t i = 0; i < part.p_rows; i += rows) {
      rows = TileRows(part.p_rows - i);
      float* c = roles.c + (part.p0 + i) * roles.c_p_stride + (part.q0 + j) * roles.c_q_stride;
      const Result result{c, roles.c_p_stride, roles.c_q_stride, (int)cols};
      tiles[rows - 1][vecs - 1](p, q, chunk, plan.block, outer, result);
      outer += plan.slots * kTileFloats;
      p += (by_rows ? rows : kTileRows) * kRowPitch;
    }
  }
}

// Packs `count` chunks from k0 of rows [first, first + rows).
void PackP(const Roles& roles, const Plan& plan, int64_t first, int64_t rows, int64_t k0,
           int64_t count, float* to) {
  for (; count > 0; --count, k0 += plan.chunk, to += PFloats(plan) / plan.depth) {
    const int64_t k = Min(plan.chunk, plan.k - k0);
    if (roles.p.k_stride == 1) {
      PackRows(roles.p, first, rows, k0, k, to);
    } else {
      PackInterleaved(roles.p, first, rows, k0, k, to);
    }
  }
}
void PackQ(const Roles& roles, const Plan& plan, int64_t first, int64_t rows, int64_t k0,
           int64_t count, float* to) {
  for (; count > 0; --count, k0 += plan.chunk, to += QFloats(plan) / plan.depth) {
    PackColumns(roles.q, first, rows, k0, Min(plan.chunk, plan.k - k0), PanelPitch(plan.chunk), to);
  }
}

// One group of the kept rows from `kept0` against one strip, over all of k. The strip is packed
// chunk by chunk beside the first group, so that this one finds it near.
void RunPart(const Roles& roles, const Plan& plan, int64_t kept0, const Part& part,
             const Panels& panels) {
  const bool deep = plan.depth * plan.chunk >= plan.k;
  const bool first = (plan.keep_p ? part.p0 : part.q0) == kept0;
  for (int64_t k0 = 0; k0 < plan.k; k0 += plan.chunk) {
    const int64_t at = deep ? k0 / plan.chunk : 0;
    Panels here = panels;
    here.p += at * (PFloats(plan) / plan.depth);
    here.q += at * (QFloats(plan) / plan.depth);
    if (!deep || (first && !plan.keep_p)) PackP(roles, plan, part.p0, part.p_rows, k0, 1, here.p);
    if (!deep || (first && plan.keep_p)) PackQ(roles, plan, part.q0, part.q_rows, k0, 1, here.q);
    if (deep && plan.keep_p) here.p += (part.p0 - kept0) * kRowPitch;
    if (deep && !plan.keep_p) here.q += (part.q0 - kept0) / kTileCols * PanelPitch(plan.chunk);
    RunTiles(roles, plan, ChunkAt(plan, k0), part, here);
  }
}

// The kernel behind the product, on a part that is whole.
void RunThen(const GemmProblem& g, const Roles& roles, const Part& part) {
  const int64_t row = g.row + (roles.p_is_a ? part.p0 : part.q0);
  const int64_t col = g.col + (roles.p_is_a ? part.q0 : part.p0);
  const int64_t rows = roles.p_is_a ? part.p_rows : part.q_rows;
  const int64_t cols = roles.p_is_a ? part.q_rows : part.p_rows;
  Launch(g.then->kernel, g.then->args, {row, row + rows, col, col + cols});
}

// Rows [kept0, kept0 + kept) of the kept operand against all of the other.
void RunKept(const GemmProblem& problem, const Roles& roles, const Plan& plan, int64_t kept0,
             int64_t kept, const Panels& panels) {
  const int64_t rows = plan.keep_p ? roles.q_rows : roles.p_rows;
  const int64_t strip = plan.keep_p ? plan.q_group : plan.p_group;
  const int64_t group = plan.keep_p ? plan.p_group : plan.q_group;
  if (plan.depth * plan.chunk >= plan.k) {
    if (plan.keep_p) {
      PackP(roles, plan, kept0, kept, 0, plan.depth, panels.p);
    } else {
      PackQ(roles, plan, kept0, kept, 0, plan.depth, panels.q);
    }
  }
  for (int64_t s = 0; s < rows; s += strip) {
    const int64_t size = Min(strip, rows - s);
    for (int64_t g = kept0; g < kept0 + kept; g += group) {
      const int64_t count = Min(group, kept0 + kept - g);
      const Part part = plan.keep_p ? Part{g, count, s, size} : Part{s, size, g, count};
      RunPart(roles, plan, kept0, part, panels);
      if (problem.then != nullptr) RunThen(problem, roles, part);
    }
  }
}

void Gemm(const GemmProblem& g, float* scratch, int64_t scratch_floats) {
  const Roles roles = AssignRoles(g);
  const Plan plan = MakePlan(roles, g.k, g.block, scratch_floats);
  Panels panels;
  panels.p = scratch;
  panels.q = panels.p + PFloats(plan);
  panels.outer = panels.q + QFloats(plan);
  const int64_t rows = plan.keep_p ? roles.p_rows : roles.q_rows;
  for (int64_t kept0 = 0; kept0 < rows; kept0 += plan.kept) {
    RunKept(g, roles, plan, kept0, Min(plan.kept, rows - kept0), panels);
  }
}

// The fixed scratch of isa.h must do for one tile of the deepest product.
static_assert(kTileRows * kRowPitch + 64 * kTileCols + 16 + 33 * kTileFloats <=
              kFixedScratchFloats);
