void Gemm(const GemmProblem& p) {
  constexpr int kLanes = 32;
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; j += kLanes) {
      const int lanes = p.n - j < kLanes ? (int)(p.n - j) : kLanes;
      float levels[ACAN_TREE_LEVELS][kLanes];
      int64_t leaf = 0;
      for (int64_t k0 = 0; k0 < p.k; k0 += p.block, ++leaf) {
        const int64_t k1 = p.k - k0 < p.block ? p.k : k0 + p.block;
        float sum[kLanes] = {};
        const float* b = p.b.data + j * p.b.row_stride;
        for (int64_t k = k0; k < k1; ++k) {
          const float x = p.a.data[i * p.a.row_stride + k * p.a.k_stride];
          for (int l = 0; l < lanes; ++l) {
            sum[l] = ACAN_FMA(x, b[l * p.b.row_stride + k * p.b.k_stride], sum[l]);
          }
        }
        int level = 0;
        for (int64_t t = leaf; t & 1; t >>= 1, ++level) {
          for (int l = 0; l < lanes; ++l) sum[l] = levels[level][l] + sum[l];
        }
        for (int l = 0; l < lanes; ++l) levels[level][l] = sum[l];
      }
      for (int l = 0; l < lanes; ++l) {
        float column[ACAN_TREE_LEVELS];
        for (int h = 0; h < ACAN_TREE_LEVELS; ++h) column[h] = levels[h][l];
        const float value = acan_tree_total(column, leaf);
        p.c[i * p.c_stride + j + l] = value == value ? value : ACAN_NAN;
      }
    }
  }
}
