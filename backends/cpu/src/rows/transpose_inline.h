// The vectorised driver of kTranspose. Included once per instruction set, inside that unit's own
// anonymous namespace, after pack_inline.h.

constexpr int64_t kTransposed = 32;  // rows and columns of a block whose lines stay in L1

// out[r][c] = x[c][r] for the region's elements of out; NaNs are stored as the one NaN.
void RunTranspose(const acan_args& a, const Region& region) {
  const acan_matrix& out = a.m[0];
  const acan_matrix& x = a.m[1];
  alignas(64) float block[kTransposed * kTransposed];
  for (int64_t c = region.col_begin; c < region.col_end; c += kTransposed) {
    const int64_t cols = Clamp(region.col_end - c, kTransposed);
    for (int64_t r = region.row_begin; r < region.row_end; r += kTransposed) {
      const int64_t rows = Clamp(region.row_end - r, kTransposed);
      Transpose(x.data + c * x.stride + r, x.stride, block, kTransposed, cols, rows);
      UnpackSquare(block, kTransposed, rows, cols, out.data + r * out.stride + c, out.stride);
    }
  }
}
