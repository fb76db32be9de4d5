// The CPU's driver of kEmbeddingGradient. Included once per instruction set, inside that unit's own
// anonymous namespace. The single source searches all rows for each word, as a GPU's threads can do
// side by side. This driver walks over the rows once and makes a list for each word.

// Returns false, having done nothing, if the scratch has no room for the lists.
bool RunEmbeddingGradient(const acan_args& a, const Region& region, float* scratch,
                          int64_t floats) {
  const acan_matrix& index = a.m[1];
  const int64_t words = region.row_end - region.row_begin;
  if (words + index.rows > floats) return false;
  // Rows are stored as bits of floats; all ones: no row. `first` has each word's first row, `next`
  // has for each row the next one of the same word.
  constexpr uint32_t kNone = ~uint32_t{0};
  float* first = scratch;
  float* next = scratch + words;
  for (int64_t t = 0; t < words; ++t) first[t] = ACAN_AS_F32(kNone);
  for (int64_t r = index.rows - 1; r >= 0; --r) {
    const int64_t t = acan_load_int(&index, r) - a.i[2] - region.row_begin;
    if (t < 0 || t >= words) continue;
    next[r] = first[t];
    first[t] = ACAN_AS_F32((uint32_t)r);
  }
  for (int64_t t = 0; t < words; ++t) {
    acan_found found;
    found.count = 0;
    for (uint32_t r = ACAN_AS_U32(first[t]); r != kNone; r = ACAN_AS_U32(next[r])) {
      if (found.count < ACAN_FOUND_ROWS) found.rows[found.count] = r;
      ++found.count;
    }
    acan_embedding_gradient_of(&a, region.row_begin + t, &found);
  }
  return true;
}
