// Exact products out of tiles: cutting into blocks that fit the scratch, packing, the order of
// chunks. Included once per instruction set, after pack_inline.h and tile_inline.h.

constexpr int64_t kGroupRows = kTileRows * (252 / kTileRows);  // of P packed at once: about 256 KiB

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
};

struct Plan {
  int64_t k;
  int64_t block;
  int64_t chunk;    // k of one pass
  int64_t p_block;  // rows of P and of Q whose sums are kept at once
  int64_t q_block;
  int64_t group;  // rows of P packed at once
  int slots;      // outer levels and the open leaf, per tile
  bool keep_q;    // Q's panels of a pass are used by several groups
};

Roles AssignRoles(const GemmProblem& g) {
  const bool a_by_k = g.a.k_stride == 1;
  const bool b_by_k = g.b.k_stride == 1;
  // With k contiguous in both, the vector operand is the one to be transposed: the smaller.
  if (a_by_k && b_by_k && g.m >= 2 * Vec::kWidth && g.m < g.n) {
    return {g.b, g.a, g.n, g.m, g.c, 1, g.c_stride};
  }
  return {g.a, g.b, g.m, g.n, g.c, g.c_stride, 1};
}

int64_t QFloats(const Plan& plan) {
  return RoundUp(plan.q_block, kTileCols) / kTileCols * PanelPitch(plan.chunk);
}
int64_t PFloats(const Plan& plan) {
  return RoundUp(plan.group, kTileRows) * kRowPitch;
}
int64_t OuterFloats(const Plan& plan) {
  return RoundUp(plan.p_block, kTileRows) / kTileRows * RoundUp(plan.q_block, kTileCols) /
         kTileCols * plan.slots * kTileFloats;
}

// REQUIRES: scratch_floats >= kLeastScratchFloats.
Plan MakePlan(const Roles& roles, int64_t k, int64_t block, int64_t scratch_floats) {
  Plan plan{};
  plan.k = k;
  plan.block = block;
  // With little scratch shorter passes leave room for wider blocks.
  plan.chunk = scratch_floats < (1 << 18) ? 64 : kChunk;
  const int64_t unit = block > plan.chunk ? block : plan.chunk;
  const int levels = BitWidth((uint64_t)((k + unit - 1) / unit - 1));
  plan.slots = levels + (block > plan.chunk && k > plan.chunk ? 1 : 0);
  plan.group = Min(RoundUp(roles.p_rows, kTileRows), kGroupRows);
  plan.p_block = Min(RoundUp(roles.p_rows, kTileRows), 1024 / kTileRows * kTileRows);
  plan.q_block = Min(RoundUp(roles.q_rows, kTileCols), 512);
  for (;;) {
    plan.group = Min(plan.group, plan.p_block);
    if (PFloats(plan) + QFloats(plan) + OuterFloats(plan) <= scratch_floats) return plan;
    if (PFloats(plan) > scratch_floats / 4 && plan.group > kTileRows) {
      plan.group = RoundUp(plan.group / 2, kTileRows);
    } else if (plan.p_block >= plan.q_block && plan.p_block > kTileRows) {
      plan.p_block = RoundUp(plan.p_block / 2, kTileRows);
    } else if (plan.q_block > kTileCols) {
      plan.q_block = RoundUp(plan.q_block / 2, kTileCols);
    } else {
      plan.p_block = kTileRows;
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

// All tiles of one group of P's rows against one panel of Q.
void RunTiles(const Roles& roles, const Plan& plan, const Chunk& chunk, int64_t p0, int64_t p_rows,
              int64_t q0, int64_t q_cols, const float* p, const float* q, float* outer) {
  const bool by_rows = roles.p.k_stride == 1;
  const int vecs = (int)((q_cols + Vec::kWidth - 1) / Vec::kWidth);
  for (int64_t i = 0; i < p_rows; i += kTileRows) {
    const int rows = (int)Min(kTileRows, p_rows - i);
    const Result result{roles.c + (p0 + i) * roles.c_p_stride + q0 * roles.c_q_stride,
                        roles.c_p_stride, roles.c_q_stride, (int)q_cols};
    const auto& tiles = by_rows ? kTiles.by_rows : kTiles.interleaved;
    tiles[rows - 1][vecs - 1](p + i * kRowPitch, q, chunk, plan.block, outer, result);
    outer += plan.slots * kTileFloats;
  }
}

// One pass over one block of the result.
void RunPass(const Roles& roles, const Plan& plan, int64_t k0, int64_t p0, int64_t p_rows,
             int64_t q0, int64_t q_rows, const Panels& panels) {
  const Chunk chunk = ChunkAt(plan, k0);
  const int64_t p_tiles = RoundUp(p_rows, kTileRows) / kTileRows;
  const int64_t pitch = PanelPitch(plan.chunk);
  PackQ(roles.q, q0, q_rows, k0, chunk.k, pitch, panels.q);
  for (int64_t g = 0; g < p_rows; g += plan.group) {
    const int64_t rows = Min(plan.group, p_rows - g);
    if (roles.p.k_stride == 1) {
      PackRows(roles.p, p0 + g, rows, k0, chunk.k, panels.p);
    } else {
      PackInterleaved(roles.p, p0 + g, rows, k0, chunk.k, panels.p);
    }
    for (int64_t j = 0; j < q_rows; j += kTileCols) {
      const int64_t panel = j / kTileCols;
      float* outer = panels.outer + (panel * p_tiles + g / kTileRows) * plan.slots * kTileFloats;
      RunTiles(roles, plan, chunk, p0 + g, rows, q0 + j, Min(kTileCols, q_rows - j), panels.p,
               panels.q + panel * pitch, outer);
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
  for (int64_t p0 = 0; p0 < roles.p_rows; p0 += plan.p_block) {
    const int64_t p_rows = Min(plan.p_block, roles.p_rows - p0);
    for (int64_t q0 = 0; q0 < roles.q_rows; q0 += plan.q_block) {
      const int64_t q_rows = Min(plan.q_block, roles.q_rows - q0);
      for (int64_t k0 = 0; k0 < g.k; k0 += plan.chunk) {
        RunPass(roles, plan, k0, p0, p_rows, q0, q_rows, panels);
      }
    }
  }
}

// The fixed scratch of isa.h must do for one tile of the deepest product.
static_assert(kTileRows * kRowPitch + 64 * kTileCols + 16 + 33 * kTileFloats <=
              kFixedScratchFloats);
