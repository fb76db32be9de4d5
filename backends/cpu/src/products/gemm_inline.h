// Exact products from tiles: cuts them into blocks that fit the scratch, packs, and orders the
// chunks. Included once per instruction set, after pack_inline.h and tile_inline.h.

constexpr int64_t kMaxGroupCols = 128;  // of a kept Q, so that a group's open sums stay near
constexpr int64_t kMaxStripCols = 192;  // of a strip of Q, so that few pages alternate
constexpr int64_t kMaxSpan = 4;         // chunks, so that data that is read repeatedly stays in L3
constexpr int64_t kMaxKeptParts = 8;    // more passes over the other cost more than spans save
constexpr int64_t kMinBandStrips = 2;   // with fewer, the kept rows are packed too often
// The most floats of c, in whole rows of a strip, that stay near until the kernel after the product
// runs.
constexpr int64_t kMaxNearFloats = 1 << 18;
// With so little k, most of the work is writing the result. A few long rows of it stay in a near
// cache for the kernel after the product; many rows whose distance is a power of two do not.
constexpr int64_t kShortK = 32;
constexpr int64_t kShortGroupRows = kTileRows;
constexpr int64_t kShortGroupCols = 1024;

int64_t Min(int64_t a, int64_t b) {
  return a < b ? a : b;
}
int64_t RoundUp(int64_t value, int64_t step) {
  return (value + step - 1) / step * step;
}
int BitWidth(uint64_t value) {
  return value == 0 ? 0 : 64 - __builtin_clzll(value);
}

// A product whose operands have fixed roles: P's rows are broadcast, Q's rows are vector lanes.
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

// One operand is kept: it is packed once for many strips of the other operand, over a span of k.
// Within a span, the tree's open sums are those of one group of the kept operand and one strip,
// which are near the core. Between spans, the open sums of the kept rows and a band of strips wait.
// If the scratch is too small for that, a span is one chunk, and the kept rows and the band are one
// group and one strip.
struct GemmPlan {
  int64_t k;
  int64_t block;
  int64_t chunk;    // k of one pass
  int64_t span;     // chunks packed at once
  bool keep_p;      // otherwise Q
  int64_t kept;     // rows of the kept operand packed at once
  int64_t band;     // rows of the other operand, strip by strip
  int64_t p_group;  // rows of P and of Q multiplied at once; one of them is the strip
  int64_t q_group;
  int slots;  // of each tile, for outer levels and the open leaf
  int near_slots;
  LeftLayout p_layout;
};

Roles AssignRoles(const GemmProblem& g) {
  const bool a_by_k = g.a.k_stride == 1;
  const bool b_by_k = g.b.k_stride == 1;
  // If k is contiguous in both, the vector operand has to be transposed, so it is the smaller one.
  if (a_by_k && b_by_k && g.m >= 2 * Vec::kWidth && g.m < g.n) {
    return {g.b, g.a, g.n, g.m, g.c, 1, g.c_stride, false};
  }
  return {g.a, g.b, g.m, g.n, g.c, g.c_stride, 1, true};
}

// Whether the kernel after the product has another operand as large as c. Such an operand is seldom
// in a near cache, and the hardware does not recognise the pieces of its rows beside a part of c as
// streams.
bool HasLargeOperand(const GemmProblem& g) {
  if (g.epilogue == nullptr) return false;
  for (const View& m : g.epilogue->args.m) {
    const bool is_large =
        m.data != nullptr && m.rows >= g.row + g.m && m.cols >= g.col + g.n && g.m > 1;
    if (is_large && m.data + g.row * m.stride + g.col != g.c) return true;
  }
  return false;
}

// The size of equal parts of `total`, each at most `most`, rounded up to `step`.
int64_t Even(int64_t total, int64_t most, int64_t step) {
  const int64_t parts = (total + most - 1) / most;
  return RoundUp((total + parts - 1) / parts, step);
}

// Rows of P and of Q that are packed at once.
int64_t PackedP(const GemmPlan& plan) {
  return plan.keep_p ? plan.kept : plan.p_group;
}
int64_t PackedQ(const GemmPlan& plan) {
  return plan.keep_p ? plan.q_group : plan.kept;
}
int64_t PChunkFloats(const GemmPlan& plan) {
  return RoundUp(PackedP(plan), kTileRows) * kRowPitch;
}
int64_t QChunkFloats(const GemmPlan& plan) {
  return RoundUp(PackedQ(plan), kTileCols) / kTileCols * PanelPitch(plan.chunk);
}
int64_t Group(const GemmPlan& plan) {
  return plan.keep_p ? plan.p_group : plan.q_group;
}
int64_t Strip(const GemmPlan& plan) {
  return plan.keep_p ? plan.q_group : plan.p_group;
}
int64_t PartTiles(const GemmPlan& plan) {  // of a group and a strip
  return RoundUp(plan.p_group, kTileRows) / kTileRows * RoundUp(plan.q_group, kTileCols) /
         kTileCols;
}
int64_t NearFloats(const GemmPlan& plan) {
  return PartTiles(plan) * plan.near_slots * kTileFloats;
}
int64_t PartFarFloats(const GemmPlan& plan) {
  return PartTiles(plan) * (plan.slots - plan.near_slots) * kTileFloats;
}
int64_t Parts(int64_t total, int64_t size) {
  return (total + size - 1) / size;
}
int64_t PlanFloats(const GemmPlan& plan) {
  return plan.span * (PChunkFloats(plan) + QChunkFloats(plan)) + NearFloats(plan) +
         Parts(plan.kept, Group(plan)) * Parts(plan.band, Strip(plan)) * PartFarFloats(plan);
}

// The most k of one pass, within `most`: all of k, a node of the tree, or a part of one leaf.
int64_t ChunkWithin(const GemmPlan& plan, int64_t most) {
  if (plan.k <= most || plan.block > most) return Min(plan.k, most);
  int64_t chunk = plan.block;
  while (2 * chunk <= most) chunk *= 2;
  return chunk;
}
void SetChunk(GemmPlan& plan, int64_t most) {
  const int64_t chunk = ChunkWithin(plan, most);
  plan.chunk = chunk;
  const int64_t unit = plan.block > chunk ? plan.block : chunk;
  const int levels = BitWidth((uint64_t)((plan.k + unit - 1) / unit - 1));
  plan.slots = levels + (plan.block > chunk && plan.k > chunk ? 1 : 0);
}
// REQUIRES: a span of all of k, or a power of two, which is 1 if a leaf is longer than a chunk.
void SetSpan(GemmPlan& plan, int64_t span) {
  plan.span = span;
  plan.near_slots = span * plan.chunk >= plan.k ? plan.slots : BitWidth((uint64_t)span) - 1;
}

// Widens the band as far as the scratch allows; false if the scratch holds less than a strip.
bool FitBand(GemmPlan& plan, int64_t rows, int64_t scratch_floats) {
  plan.band = Strip(plan);
  const int64_t left = scratch_floats - PlanFloats(plan);
  if (left < 0) return false;
  const int64_t strip_floats = Parts(plan.kept, Group(plan)) * PartFarFloats(plan);
  const int64_t strips = Parts(rows, Strip(plan));
  const int64_t more = strip_floats == 0 ? strips - 1 : Min(strips - 1, left / strip_floats);
  plan.band += more * Strip(plan);
  return true;
}

// Plans spans of several chunks; false if the scratch is too small for them.
bool PlanSpans(const Roles& roles, GemmPlan& plan, int64_t scratch_floats) {
  const int64_t chunks = Parts(plan.k, plan.chunk);
  SetSpan(plan, plan.block > plan.chunk ? chunks : Min(chunks, kMaxSpan));
  const int64_t kept_rows = plan.keep_p ? roles.p_rows : roles.q_rows;
  const int64_t strip_rows = plan.keep_p ? roles.q_rows : roles.p_rows;
  for (int64_t parts = 1; parts <= kMaxKeptParts; ++parts) {
    plan.kept = Even(kept_rows, Parts(kept_rows, parts), Group(plan));
    if (FitBand(plan, strip_rows, scratch_floats) &&
        plan.band >= Min(strip_rows, kMinBandStrips * Strip(plan))) {
      return true;
    }
  }
  return false;
}

// The operand with fewer rows is kept. If both have the same number, strips are rows of c if the
// kernel after the product runs better on rows.
bool KeepsP(const GemmProblem& g, const Roles& roles) {
  if (g.k <= kShortK) return false;
  if (roles.p_rows == roles.q_rows) return !HasLargeOperand(g);
  return roles.p_rows < roles.q_rows;
}

// Rows of P are read in place if they are multiplied with so few panels of Q that packing costs
// more than it saves. Rows whose distance is a multiple of a page would be in one set of L1.
LeftLayout LayoutOfP(const Roles& roles, const GemmPlan& plan) {
  constexpr int64_t kPageFloats = 1024;
  if (roles.p.k_stride != 1) return LeftLayout::kInterleaved;
  const bool is_one_group = !plan.keep_p && roles.q_rows <= plan.q_group;
  return is_one_group && roles.p.row_stride % kPageFloats != 0 ? LeftLayout::kInPlace
                                                               : LeftLayout::kRows;
}

// Cuts the product into blocks that fit the scratch.
// REQUIRES: scratch_floats >= kFixedScratchFloats.
void PlanBlocks(const GemmProblem& g, const Roles& roles, int64_t scratch_floats, GemmPlan& plan) {
  plan.k = g.k;
  plan.block = g.block;
  SetChunk(plan, kChunk);
  const bool is_short = g.k <= kShortK;
  plan.keep_p = KeepsP(g, roles);
  plan.p_group = Even(roles.p_rows, is_short ? kShortGroupRows : kMaxGroupRows, kTileRows);
  plan.q_group = Even(roles.q_rows,
                      is_short      ? kShortGroupCols
                      : plan.keep_p ? kMaxStripCols
                                    : kMaxGroupCols,
                      kTileCols);
  if (PlanSpans(roles, plan, scratch_floats)) return;
  // One chunk at a time; with little scratch, shorter passes leave room for wider groups.
  if (scratch_floats < (1 << 18)) SetChunk(plan, 64);
  SetSpan(plan, 1);
  for (;;) {
    plan.kept = Group(plan);
    plan.band = Strip(plan);
    if (PlanFloats(plan) <= scratch_floats) return;
    if (plan.p_group > kTileRows &&
        (plan.p_group >= plan.q_group || PChunkFloats(plan) > scratch_floats / 4)) {
      plan.p_group = RoundUp(plan.p_group / 2, kTileRows);
    } else if (plan.q_group > kTileCols) {
      plan.q_group = RoundUp(plan.q_group / 2, kTileCols);
    } else {
      plan.p_group = kTileRows;
    }
  }
}

GemmPlan MakePlan(const GemmProblem& g, const Roles& roles, int64_t scratch_floats) {
  GemmPlan plan{};
  PlanBlocks(g, roles, scratch_floats, plan);
  plan.p_layout = LayoutOfP(roles, plan);
  return plan;
}

// The pass over [k0, k0 + k): a whole node of the tree, or a part of one leaf.
Chunk ChunkAt(const GemmPlan& plan, int64_t k0) {
  Chunk chunk{};
  chunk.k = Min(plan.chunk, plan.k - k0);
  const int64_t end = k0 + chunk.k;
  const int64_t unit = plan.block > plan.chunk ? plan.block : plan.chunk;
  const uint64_t index = (uint64_t)(k0 / unit);
  chunk.open_slot = plan.slots - 1;
  chunk.near_slots = plan.near_slots;
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
  Slots slots;
};

// A range of rows of the kept operand, of a band or of a strip.
struct Rows {
  int64_t first;
  int64_t count;
};

// A part of the product: rows of Q, which are packed, and rows of P, which are packed or read in
// place.
struct Part {
  Rows p;
  Rows q;
};

// The element of c at row i of P and row j of Q, both counted within the part.
float* ResultAt(const Roles& roles, const Part& part, int64_t i, int64_t j) {
  return roles.c + (part.p.first + i) * roles.c_p_stride + (part.q.first + j) * roles.c_q_stride;
}

// Computes all tiles of one part over one chunk. `p` is where they read P.
void RunTiles(const Roles& roles, const GemmPlan& plan, const Chunk& chunk, const Part& part,
              const float* p, const Panels& panels) {
  const TileTable& tiles = kTiles.Of(plan.p_layout);
  const bool interleaved = plan.p_layout == LeftLayout::kInterleaved;
  const int64_t pitch = PanelPitch(plan.chunk);
  const int64_t p_pitch = plan.p_layout == LeftLayout::kInPlace ? roles.p.row_stride : kRowPitch;
  TileOperands tile{p, p_pitch, panels.q, nullptr, nullptr};
  Slots slots = panels.slots;
  for (int64_t j = 0, cols = 0; j < part.q.count; j += cols, tile.q += pitch) {
    cols = PanelCols(part.q.count - j);
    const auto vecs = (int)(PanelWidth(cols) / Vec::kWidth);
    tile.p = p;
    tile.next_q = tile.q + pitch;
    int rows = 0;
    for (int64_t i = 0; i < part.p.count; i += rows) {
      rows = TileRows(part.p.count - i);
      const bool is_last = i + rows >= part.p.count;
      tile.next_c =
          is_last ? ResultAt(roles, part, 0, j + cols) : ResultAt(roles, part, i + rows, j);
      const Result result{ResultAt(roles, part, i, j), roles.c_p_stride, roles.c_q_stride,
                          (int)cols};
      tiles[rows - 1][vecs - 1](tile, chunk, plan.block, slots, result);
      slots.near += plan.near_slots * kTileFloats;
      slots.far += (plan.slots - plan.near_slots) * kTileFloats;
      tile.p += (interleaved ? kTileRows : rows) * p_pitch;
      tile.next_q += chunk.k * kAheadFloats;
    }
  }
}

// Packs `count` chunks from k0 on.
void PackP(const Roles& roles, const GemmPlan& plan, const Rows& rows, int64_t k0, int64_t count,
           float* to) {
  for (; count > 0 && k0 < plan.k; --count, k0 += plan.chunk, to += PChunkFloats(plan)) {
    const int64_t k = Min(plan.chunk, plan.k - k0);
    if (roles.p.k_stride == 1) {
      PackRows(roles.p, rows.first, rows.count, k0, k, to);
    } else {
      PackInterleaved(roles.p, rows.first, rows.count, plan.p_group, k0, k, to);
    }
  }
}
void PackQ(const Roles& roles, const GemmPlan& plan, const Rows& rows, int64_t k0, int64_t count,
           float* to) {
  for (; count > 0 && k0 < plan.k; --count, k0 += plan.chunk, to += QChunkFloats(plan)) {
    const int64_t k = Min(plan.chunk, plan.k - k0);
    PackColumns(roles.q, rows.first, rows.count, plan.q_group, k0, k, PanelPitch(plan.chunk), to);
  }
}

// Multiplies one group of the kept rows by one strip, over the span from `k0`. The first group
// packs the strip chunk by chunk, so that it finds the strip in a near cache, unless tiles read the
// strip in place.
void RunPart(const Roles& roles, const GemmPlan& plan, const Rows& kept, const Part& part,
             int64_t k0, const Panels& panels) {
  const bool in_place = plan.p_layout == LeftLayout::kInPlace;
  const float* const strip = roles.p.data + part.p.first * roles.p.row_stride;
  const int64_t group0 = (plan.keep_p ? part.p.first : part.q.first) - kept.first;
  Panels here = panels;
  if (plan.keep_p) {
    here.p += group0 * kRowPitch;
  } else {
    here.q += group0 / kTileCols * PanelPitch(plan.chunk);
  }
  const int64_t end = Min(plan.k, k0 + plan.span * plan.chunk);
  for (int64_t at = k0; at < end; at += plan.chunk) {
    if (group0 == 0 && plan.keep_p) PackQ(roles, plan, part.q, at, 1, here.q);
    if (group0 == 0 && !plan.keep_p && !in_place) PackP(roles, plan, part.p, at, 1, here.p);
    const float* const p = in_place ? strip + at : here.p;
    RunTiles(roles, plan, ChunkAt(plan, at), part, p, here);
    here.p += PChunkFloats(plan);
    here.q += QChunkFloats(plan);
  }
}

// Runs the kernel after the product on a complete part of c.
void RunEpilogue(const GemmProblem& g, const Roles& roles, const Part& part) {
  const Rows& rows = roles.p_is_a ? part.p : part.q;
  const Rows& cols = roles.p_is_a ? part.q : part.p;
  const int64_t row = g.row + rows.first;
  const int64_t col = g.col + cols.first;
  Launch(g.epilogue->kernel, g.epilogue->args, {row, row + rows.count, col, col + cols.count});
}

// Whether that kernel runs on whole rows of c, strip by strip, instead of part by part. It does so
// only if strips are rows of c and c stays near until its strip is done.
bool RunsByStrips(const GemmProblem& g, const Roles& roles, const GemmPlan& plan) {
  return roles.p_is_a && !plan.keep_p && plan.kept * Strip(plan) <= kMaxNearFloats &&
         HasLargeOperand(g);
}

// Multiplies the kept rows by a band of the other operand, over the span from `k0`.
void RunSpan(const GemmProblem& problem, const Roles& roles, const GemmPlan& plan, const Rows& kept,
             const Rows& band, int64_t k0, const Panels& panels) {
  if (plan.keep_p) {
    PackP(roles, plan, kept, k0, plan.span, panels.p);
  } else {
    PackQ(roles, plan, kept, k0, plan.span, panels.q);
  }
  const bool ends = problem.epilogue != nullptr && k0 + plan.span * plan.chunk >= plan.k;
  const bool by_strips = ends && RunsByStrips(problem, roles, plan);
  Panels here = panels;
  for (int64_t s = 0; s < band.count; s += Strip(plan)) {
    const Rows strip{band.first + s, Min(Strip(plan), band.count - s)};
    for (int64_t g = 0; g < kept.count; g += Group(plan)) {
      const Rows group{kept.first + g, Min(Group(plan), kept.count - g)};
      const Part part = plan.keep_p ? Part{group, strip} : Part{strip, group};
      RunPart(roles, plan, kept, part, k0, here);
      here.slots.far += PartFarFloats(plan);
      if (ends && !by_strips) RunEpilogue(problem, roles, part);
    }
    if (by_strips) RunEpilogue(problem, roles, {strip, kept});
  }
}

void Gemm(const GemmProblem& g, float* scratch, int64_t scratch_floats) {
  const Roles roles = AssignRoles(g);
  const GemmPlan plan = MakePlan(g, roles, scratch_floats);
  Panels panels;
  panels.p = scratch;
  panels.q = panels.p + plan.span * PChunkFloats(plan);
  panels.slots.near = panels.q + plan.span * QChunkFloats(plan);
  panels.slots.far = panels.slots.near + NearFloats(plan);
  const int64_t kept_rows = plan.keep_p ? roles.p_rows : roles.q_rows;
  const int64_t strip_rows = plan.keep_p ? roles.q_rows : roles.p_rows;
  for (int64_t i = 0; i < kept_rows; i += plan.kept) {
    const Rows kept{i, Min(plan.kept, kept_rows - i)};
    for (int64_t j = 0; j < strip_rows; j += plan.band) {
      const Rows band{j, Min(plan.band, strip_rows - j)};
      for (int64_t k0 = 0; k0 < g.k; k0 += plan.span * plan.chunk) {
        RunSpan(g, roles, plan, kept, band, k0, panels);
      }
    }
  }
}

// The fixed scratch of isa.h must suffice for one tile of the deepest product.
static_assert(kTileRows * kRowPitch + 64 * kTileCols + 16 + 33 * kTileFloats <=
              kFixedScratchFloats);
