/* kEmbeddingGradient on GPUs. A group of work-items has a word and a piece of the columns, and each
 * item has a column at a time. One item alone would have to search all rows for its word, and a
 * word can be in more rows than an item has room to list.
 *
 * So all items together search a window of rows and mark those with the word. Then each item adds
 * the marked rows in ascending order, as acan_word_sums does, and they go on to the next window.
 * Nothing depends on the number of items. The order in which they set marks changes nothing. */
#define ACAN_WINDOW_MASKS 64
#define ACAN_MASK_ROWS 32
#define ACAN_WINDOW_ROWS (ACAN_WINDOW_MASKS * ACAN_MASK_ROWS)

/* In a group's local memory. */
typedef struct {
  acan_u32 first; /* window with the word */
  acan_u32 end;   /* after the last window with the word; 0 if there is none */
  acan_u32 masks[ACAN_WINDOW_MASKS];
} acan_word_windows;

/* By all items of a group. */
ACAN_FN void acan_find_windows(const acan_matrix* index, acan_i64 word,
                               ACAN_LOCAL acan_word_windows* found) {
  acan_u32 first = 0;
  acan_u32 end = 0;
  acan_i64 r;
  if (ACAN_ROW_THREAD == 0) {
    found->first = 0xffffffffu;
    found->end = 0;
  }
  ACAN_BARRIER();
  for (r = ACAN_ROW_THREAD; r < index->rows; r += ACAN_ROW_THREADS) {
    if (acan_load_int(index, r) != word) continue;
    if (end == 0) first = (acan_u32)(r / ACAN_WINDOW_ROWS);
    end = (acan_u32)(r / ACAN_WINDOW_ROWS) + 1;
  }
  if (end != 0) {
    atomic_min(&found->first, first);
    atomic_max(&found->end, end);
  }
  ACAN_BARRIER();
}

/* By all items of a group: bit b of mask k tells whether row begin + k * ACAN_MASK_ROWS + b has the
 * word. */
ACAN_FN void acan_mark_rows(const acan_matrix* index, acan_i64 word, acan_i64 begin,
                            ACAN_LOCAL acan_word_windows* found) {
  const acan_i64 left = index->rows - begin;
  const int rows = left < ACAN_WINDOW_ROWS ? (int)left : ACAN_WINDOW_ROWS;
  int t;
  ACAN_BARRIER(); /* after the masks of the window before have been read */
  for (t = ACAN_ROW_THREAD; t < ACAN_WINDOW_MASKS; t += ACAN_ROW_THREADS) found->masks[t] = 0;
  ACAN_BARRIER();
  for (t = ACAN_ROW_THREAD; t < rows; t += ACAN_ROW_THREADS) {
    if (acan_load_int(index, begin + t) == word) {
      atomic_or(&found->masks[t / ACAN_MASK_ROWS], 1u << (t % ACAN_MASK_ROWS));
    }
  }
  ACAN_BARRIER();
}

/* A column of a word's sum. */
typedef struct {
  acan_word_nodes open;
  acan_i64 number; /* of the leaf whose sum is not among the nodes yet */
  acan_i64 end;    /* of this leaf; 0 before the first one */
  float sum;
} acan_word_column;

/* Adds x, which is in row r. */
ACAN_FN void acan_word_add(const acan_args* a, acan_i64 leaves, acan_i64 r, float x,
                           acan_word_column* column) {
  const acan_i64 block = a->i[0];
  const acan_i64 group = a->i[1];
  if (r >= column->end) {
    const acan_i64 first = r / group * group;
    const acan_i64 leaf = (r - first) / block;
    if (column->end > 0) acan_word_push(&column->open, column->number, column->sum);
    column->number = first / group * leaves + leaf;
    column->end = acan_leaf_end(first + leaf * block, block, first + group);
    column->sum = 0.0f;
  }
  column->sum = column->sum + x;
}

/* Adds column c of the window's marked rows. */
ACAN_FN void acan_add_window(const acan_args* a, const ACAN_LOCAL acan_word_windows* found,
                             acan_i64 leaves, acan_i64 begin, acan_i64 c,
                             acan_word_column* column) {
  int k;
  for (k = 0; k < ACAN_WINDOW_MASKS; ++k) {
    acan_u32 mask = found->masks[k];
    while (mask != 0) {
      const int bit = ACAN_MASK_ROWS - 1 - (int)clz(mask & (0u - mask)); /* the lowest */
      const acan_i64 r = begin + k * ACAN_MASK_ROWS + bit;
      acan_word_add(a, leaves, r, acan_load(&a->m[2], r, c), column);
      mask &= mask - 1;
    }
  }
}

ACAN_FN float acan_word_total(acan_word_column* column) {
  float sum = 0.0f;
  if (column->end > 0) acan_word_push(&column->open, column->number, column->sum);
  while (column->open.depth-- > 0) sum = column->open.nodes[column->open.depth] + sum;
  return sum;
}

/* By all items of a group, which reach each barrier equally often: row t of the gradient, of which
 * this group has one of `pieces`. */
ACAN_FN void acan_embedding_gradient_of_group(const acan_args* a, acan_i64 t, acan_i64 piece,
                                              acan_i64 pieces,
                                              ACAN_LOCAL acan_word_windows* found) {
  const acan_i64 word = a->i[2] + t;
  const acan_i64 cols = a->m[0].cols;
  acan_i64 leaves = 1; /* of a group of rows: a power of two */
  acan_i64 first;
  acan_u32 begin;
  acan_u32 end;
  while (leaves * a->i[0] < a->i[1]) leaves *= 2;
  acan_find_windows(&a->m[1], word, found);
  begin = found->first;
  end = word == a->i[3] ? 0 : found->end;
  for (first = piece * ACAN_ROW_THREADS; first < cols; first += pieces * ACAN_ROW_THREADS) {
    const acan_i64 c = first + ACAN_ROW_THREAD;
    acan_word_column column;
    acan_u32 window;
    /* PoCL loses items of a loop whose only barriers are in an inner loop that may have no step. */
    ACAN_BARRIER();
    column.open.depth = 0;
    column.number = 0;
    column.end = 0;
    column.sum = 0.0f;
    for (window = begin; window < end; ++window) {
      const acan_i64 row = (acan_i64)window * ACAN_WINDOW_ROWS;
      acan_mark_rows(&a->m[1], word, row, found);
      if (c < cols) acan_add_window(a, found, leaves, row, c, &column);
    }
    if (c < cols) acan_store(&a->m[0], t, c, acan_word_total(&column));
  }
}

/* In place of acan_run_kEmbeddingGradient, with its arguments. Dimension 0: the words. */
__kernel void acan_run_words(const acan_launch l, ACAN_MEMORY) {
  __local acan_word_windows found;
  const acan_args a = acan_args_of(&l, ACAN_MEMORY_GIVEN);
  acan_embedding_gradient_of_group(&a, get_group_id(0), get_group_id(1), get_num_groups(1), &found);
}
