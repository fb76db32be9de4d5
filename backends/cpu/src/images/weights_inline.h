// A convolution's weight gradient without an unfolded image. Included once per instruction set,
// inside that unit's own anonymous namespace, after convolution_inline.h and weights_tile_inline.h.
//
// The rows of dy are cut into bands, which are nodes of their group's tree. The lines of the image
// that a band reads are packed with the zeros around them. They and the band of dy stay in L1 while
// every tile of the gradient sums over them. A tile's sum then joins those of earlier bands and
// groups, which wait in slots: one for each level of the tree over bands and of the tree over
// groups.

constexpr int64_t kBandLineFloats = 8 * 1024;  // of a band's packed lines, unless a leaf has more

struct WeightGradient {
  const WeightsProblem& g;
  acan_window w;
  int64_t line_floats;
  int64_t run_floats;   // of a line of the window: the k that are contiguous in the pixels
  int64_t band_leaves;  // a power of two
  int band_levels;      // of the tree over a group's bands
  int64_t tile_begin;
  int64_t tile_end;
  float* slots;  // [slot][tile]
  int64_t slot_floats;
  float* packed;
  Run runs[kMaxRuns];
  int64_t run_count;
};

// A band, or the part of it in one image: a range of the rows of dy.
struct Band {
  int64_t begin;
  int64_t end;
};

// The most lines, of all images' results, that the rows of a band touch.
int64_t MostLinesOf(int64_t rows, int64_t width) {
  return (rows + width - 2) / width + 1;
}

// The product, or a number that no scratch has room for: strides and paddings may be any numbers.
int64_t Times(int64_t a, int64_t b) {
  constexpr int64_t kTooMany = INT64_MAX / 4;
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) || product > kTooMany ? kTooMany : product;
}

// The most floats in the packed lines of a band of `rows` rows.
int64_t MostBandFloats(const WeightGradient& d, int64_t rows) {
  const int64_t lines = MostLinesOf(rows, d.w.out_width);
  const int64_t images = MostLinesOf(rows, d.w.out_width * d.w.out_height);
  const int64_t more = d.w.window_height > d.w.stride_y ? d.w.window_height - d.w.stride_y : 0;
  return Times(Times(lines, d.w.stride_y) + Times(Min(images, lines), more), d.line_floats);
}

// Packs the lines that the band's windows read, and lists its runs. False if there are too many
// runs.
bool PackBandOfWeights(WeightGradient& d, const Band& band) {
  const acan_window& w = d.w;
  const int64_t area = w.out_width * w.out_height;
  float* to = d.packed;
  d.run_count = 0;
  for (int64_t row = band.begin; row < band.end;) {
    const int64_t image = row / area;
    const int64_t end = Min(band.end, (image + 1) * area);
    const int64_t first = row % area / w.out_width;
    const int64_t last = (end - 1) % area / w.out_width;
    const int64_t top = first * w.stride_y - w.padding_y;
    const int64_t lines = (last - first) * w.stride_y + w.window_height;
    PackLines({&d.g.x, image * w.height * w.width, w.height, w.width, w.padding_x, w.padding_x},
              top, top + lines, to);
    for (int64_t at = row, stop = 0; at < end; at = stop) {
      if (d.run_count == kMaxRuns) return false;
      const int64_t leaf_end = band.begin + ((at - band.begin) / d.g.block + 1) * d.g.block;
      stop = Min(Min(end, leaf_end), (at / w.out_width + 1) * w.out_width);
      const int64_t line = (at % area / w.out_width - first) * w.stride_y;
      const int64_t x = at % w.out_width * w.stride_x;
      d.runs[d.run_count++] = {to - d.packed + line * d.line_floats + x * d.g.x.cols, stop - at,
                               stop == leaf_end || stop == band.end};
    }
    to += lines * d.line_floats;
    row = end;
  }
  return true;
}

int64_t Tiles(int64_t count, int64_t most) {
  return (count + most - 1) / most;
}

// The number of tiles in one line of the window, and in all lines.
int64_t TilesOfLine(const WeightGradient& d) {
  const int64_t all = Tiles(d.run_floats, Vec::kWidth);
  int64_t tiles = 0;
  for (int64_t v = 0, vecs = 0; v < all; v += vecs) {
    vecs = NextTilePixels(all - v, kWeightVecs);
    tiles += Tiles(d.g.dy.cols, MostTileOutputs((int)vecs));
  }
  return tiles;
}

// Runs all of this call's tiles over the packed band. `tile`: what they have in common.
void RunWeightTiles(const WeightGradient& d, WeightTile tile) {
  const View& out = d.g.d_weight;
  const float* const dy = tile.p;
  const int64_t all = Tiles(d.run_floats, Vec::kWidth);
  int64_t at = 0;
  for (int64_t ky = 0; ky < d.w.window_height; ++ky) {
    for (int64_t v = 0, vecs = 0; v < all; v += vecs) {
      vecs = NextTilePixels(all - v, kWeightVecs);
      const int64_t k = v * Vec::kWidth;
      const auto cols = (int)Min(d.run_floats - k, vecs * Vec::kWidth);
      tile.q = d.packed + ky * d.line_floats + k;
      for (int64_t n = 0, outputs = 0; n < d.g.dy.cols; n += outputs, ++at) {
        outputs = NextTilePixels(d.g.dy.cols - n, MostTileOutputs((int)vecs));
        if (at < d.tile_begin || at >= d.tile_end) continue;
        tile.p = dy + n;
        tile.slots = d.slots + (at - d.tile_begin) * kTileFloats;
        tile.result = {out.data + n * out.stride + ky * d.run_floats + k, out.stride, 1, cols};
        kWeightTiles.of[vecs - 1][outputs - 1](tile);
      }
    }
  }
}

// Adds the bands of one group, whose sums then join those of the groups before.
bool AddGroup(WeightGradient& d, int64_t group, const Band& rows) {
  const int64_t band_rows = d.band_leaves * d.g.block;
  const bool last_group = rows.end == d.g.dy.rows;
  for (int64_t begin = rows.begin; begin < rows.end; begin += band_rows) {
    const Band band{begin, Min(rows.end, begin + band_rows)};
    if (!PackBandOfWeights(d, band)) return false;
    WeightTile tile{};
    tile.p = d.g.dy.data + band.begin * d.g.dy.stride;
    tile.p_pitch = d.g.dy.stride;
    tile.q_pitch = d.w.stride_x * d.g.x.cols;
    tile.runs = d.runs;
    tile.run_count = d.run_count;
    tile.slot_pitch = d.slot_floats;
    const auto index = (uint64_t)((begin - rows.begin) / band_rows);
    if (band.end < rows.end) {
      tile.store_slot = __builtin_ctzll(~index);
      tile.pending = ((uint64_t)1 << tile.store_slot) - 1;
    } else {
      const int level = __builtin_ctzll(~(uint64_t)group);
      const uint64_t groups =
          last_group ? (uint64_t)group : ((uint64_t)1 << level) - 1;  // left siblings
      tile.pending = index | groups << d.band_levels;
      tile.store_slot = last_group ? -1 : d.band_levels + level;
    }
    RunWeightTiles(d, tile);
  }
  return true;
}

// Makes bands as large as a near cache allows, but at least one leaf. False if there is no room for
// one leaf.
bool ChooseBands(WeightGradient& d, int64_t group_rows, int64_t room) {
  const int64_t leaves = Tiles(group_rows, d.g.block);
  for (d.band_leaves = 1; d.band_leaves < leaves; d.band_leaves *= 2) {
    const int64_t rows = Min(2 * d.band_leaves * d.g.block, group_rows);
    const int64_t runs = MostLinesOf(rows, d.w.out_width) + 2 * d.band_leaves;
    if (MostBandFloats(d, rows) > Min(room, kBandLineFloats) || runs > kMaxRuns) break;
  }
  d.band_levels = BitWidth((uint64_t)(Tiles(leaves, d.band_leaves) - 1));
  return MostBandFloats(d, Min(d.band_leaves * d.g.block, group_rows)) <= room;
}

// Returns false if the scratch is too small or a band has too many lines; then the result is
// undefined.
bool ConvolveWeights(const WeightsProblem& g, float* scratch, int64_t floats) {
  const acan_args unfold = KernelArgsOf(g.window);
  WeightGradient d{g, acan_window_of(&unfold), 0, 0, 0, 0, 0, 0, scratch, 0, nullptr, {}, 0};
  d.line_floats = Times(d.w.width + 2 * d.w.padding_x, g.x.cols);
  d.run_floats = d.w.window_width * g.x.cols;
  const int64_t tiles = TilesOfLine(d) * d.w.window_height;
  d.tile_begin = tiles * g.part / g.parts;
  d.tile_end = tiles * (g.part + 1) / g.parts;
  d.slot_floats = (d.tile_end - d.tile_begin) * kTileFloats;
  const int64_t group_rows = Min(g.group_rows, g.dy.rows);
  const int64_t groups = Tiles(g.dy.rows, group_rows);
  const int64_t group_levels = BitWidth((uint64_t)(groups - 1));
  // The last vector of a line may extend beyond the packed lines.
  const int64_t slack = Vec::kWidth;
  const int64_t left = floats - group_levels * d.slot_floats - slack;
  if (!ChooseBands(d, group_rows, left)) return false;
  const int64_t slots = (group_levels + d.band_levels) * d.slot_floats;
  d.packed = scratch + slots;
  const int64_t lines = MostBandFloats(d, Min(d.band_leaves * g.block, group_rows));
  if (slots + lines + slack > floats) return false;
  Clear(d.packed + lines, slack);
  for (int64_t group = 0, row = 0; group < groups; ++group, row += group_rows) {
    if (!AddGroup(d, group, {row, Min(g.dy.rows, row + group_rows)})) return false;
  }
  return true;
}
