/* Rows of tables that are looked up: embeddings, learned positions and rotary positions, with the
 * gradients of the tables. */
#ifndef ACAN_KERNELS_TABLES_H
#define ACAN_KERNELS_TABLES_H

ACAN_FN void acan_embedding(const acan_args* a, acan_i64 r) {
  const acan_i64 cols = a->m[0].cols;
  const acan_i64 word = acan_load_int(&a->m[1], r) - a->i[0];
  const acan_i64 all = a->i[1] != 0 ? a->i[1] : a->m[2].rows;
  acan_i64 c;
  if ((word < 0) | (word >= a->m[2].rows)) {
    const int elsewhere = (word + a->i[0] >= 0) & (word + a->i[0] < all);
    const float fill = (elsewhere | (a->i[0] > 0)) ? -0.0f : ACAN_NAN;
    for (c = ACAN_ROW_THREAD; c < cols; c += ACAN_ROW_THREADS) acan_store(&a->m[0], r, c, fill);
    return;
  }
  ACAN_INDEPENDENT
  for (c = ACAN_ROW_THREAD; c < cols; c += ACAN_ROW_THREADS)
    acan_store(&a->m[0], r, c, acan_load(&a->m[2], word, c));
}

/* The open nodes of a column, as acan_open_nodes of places.h, on devices where several threads have
 * a word. */
typedef struct {
  float nodes[ACAN_TREE_LEVELS];
  acan_i64 numbers[ACAN_TREE_LEVELS]; /* of the last leaf of each node */
  int depth;
} acan_word_nodes;

ACAN_FN void acan_word_push(acan_word_nodes* open, acan_i64 number, float sum) {
  int top = open->depth - 1;
  for (; top > 0 && (open->numbers[top - 1] ^ open->numbers[top]) < (open->numbers[top] ^ number);
       --top) {
    open->nodes[top - 1] = open->nodes[top - 1] + open->nodes[top];
    open->numbers[top - 1] = open->numbers[top];
  }
  ++top;
  open->nodes[top] = sum;
  open->numbers[top] = number;
  open->depth = top + 1;
}

#if ACAN_ROW_IS_SHARED && !defined(ACAN_WORDS_ARE_APART)

/* The gradient of a table by the threads of a GPU's block. A block has a word and a range of the
 * columns, and a thread has a column and a place. A place is a node of the tree over leaves: the
 * number of a leaf has the group in its upper bits, and place p has the numbers from p * n on, n
 * being a power of two. A leaf without the word is +0, and adding +0 to a sum changes no bit, since
 * no sum is -0. So each place adds the leaves that have the word, and then the places are added.
 *
 * The rows with the word are found first. If there are more than the list holds, each thread
 * searches those of its place. */
#define ACAN_FOUND_ROWS 2048
#define ACAN_COUNTED_THREADS 32
#define ACAN_WORDS_AT_ONCE 4

typedef struct {
  acan_i64 count;
  acan_u32 rows[ACAN_FOUND_ROWS]; /* the first of them */
} acan_found;

/* By all threads, each of which searches a range of consecutive rows. The number of matches before
 * this thread's rows tells where its own matches belong in the list. */
ACAN_FN void acan_find_shared_rows(const acan_matrix* index, acan_i64 word, acan_found* found) {
  ACAN_LOCAL_VARIABLE acan_u32 counts[ACAN_MOST_ROW_THREADS];
  ACAN_LOCAL_VARIABLE acan_u32 sums[ACAN_MOST_ROW_THREADS / ACAN_COUNTED_THREADS];
  const int threads = ACAN_ROW_THREADS * ACAN_ROW_PLACES;
  const int thread = ACAN_ROW_PLACE * ACAN_ROW_THREADS + ACAN_ROW_THREAD;
  const int first = thread / ACAN_COUNTED_THREADS * ACAN_COUNTED_THREADS;
  const acan_i64 share = (index->rows + threads - 1) / threads;
  const acan_i64 begin = thread * share;
  const acan_i64 end = acan_leaf_end(begin, share, index->rows);
  acan_u32 before = 0;
  acan_u32 own = 0;
  acan_i64 r;
  int k;
  for (r = begin; r < end; ++r) own += acan_load_int(index, r) == word ? 1 : 0;
  counts[thread] = own;
  ACAN_BARRIER();
  if (thread * ACAN_COUNTED_THREADS < threads) {
    acan_u32 sum = 0;
    for (k = 0; k < ACAN_COUNTED_THREADS; ++k) sum += counts[thread * ACAN_COUNTED_THREADS + k];
    sums[thread] = sum;
  }
  ACAN_BARRIER();
  for (k = 0; k < first / ACAN_COUNTED_THREADS; ++k) before += sums[k];
  for (k = first; k < thread; ++k) before += counts[k];
  if (thread == threads - 1) found->count = (acan_i64)before + own;
  for (r = begin; own > 0 && before < ACAN_FOUND_ROWS; ++r) {
    if (acan_load_int(index, r) != word) continue;
    found->rows[before++] = (acan_u32)r;
    --own;
  }
  ACAN_BARRIER();
}

/* The rows of this thread's place, and how many of the found rows are before them. */
typedef struct {
  acan_i64 leaves; /* of a group: a power of two */
  acan_i64 begin;
  acan_i64 end;
  acan_i64 before;
} acan_word_rows;

ACAN_FN acan_i64 acan_first_row_of(const acan_args* a, acan_i64 leaves, acan_i64 number) {
  const acan_i64 within = number % leaves * a->i[0];
  const acan_i64 row = number / leaves * a->i[1] + (within < a->i[1] ? within : a->i[1]);
  return row < a->m[1].rows ? row : a->m[1].rows;
}

ACAN_FN acan_word_rows acan_rows_of_place(const acan_args* a, const acan_found* found) {
  acan_word_rows rows;
  acan_i64 numbers;
  acan_i64 of_place = 1;
  acan_i64 behind = found->count;
  rows.leaves = 1;
  while (rows.leaves * a->i[0] < a->i[1]) rows.leaves *= 2;
  numbers = (a->m[1].rows + a->i[1] - 1) / a->i[1] * rows.leaves;
  while (of_place * ACAN_ROW_PLACES < numbers) of_place *= 2;
  rows.begin = acan_first_row_of(a, rows.leaves, ACAN_ROW_PLACE * of_place);
  rows.end = acan_first_row_of(a, rows.leaves, (ACAN_ROW_PLACE + 1) * of_place);
  rows.before = 0;
  if (found->count > ACAN_FOUND_ROWS) return rows;
  while (rows.before < behind) {
    const acan_i64 middle = (rows.before + behind) / 2;
    if ((acan_i64)found->rows[middle] < rows.begin) {
      rows.before = middle + 1;
    } else {
      behind = middle;
    }
  }
  return rows;
}

/* Row `k` of the found rows, which is `r` or later; `end` if there is none before `end`. */
ACAN_FN acan_i64 acan_found_row(const acan_matrix* index, acan_i64 word, const acan_found* found,
                                acan_i64 k, acan_i64 r, acan_i64 end) {
  if (found->count <= ACAN_FOUND_ROWS) {
    const acan_i64 row = k < found->count ? (acan_i64)found->rows[k] : end;
    return row < end ? row : end;
  }
  while (r < end && acan_load_int(index, r) != word) ++r;
  return r;
}

/* The place's node of column c. */
ACAN_FN float acan_word_sum(const acan_args* a, acan_i64 word, const acan_found* found,
                            const acan_word_rows* rows, acan_i64 c) {
  const acan_i64 block = a->i[0];
  const acan_i64 group = a->i[1];
  acan_word_nodes open;
  acan_i64 number = 0;
  acan_i64 end = 0; /* of the leaf */
  acan_i64 next = rows->begin;
  acan_i64 k = rows->before;
  float sum = 0.0f;
  int t;
  open.depth = 0;
  while (next < rows->end) {
    acan_i64 at[ACAN_WORDS_AT_ONCE];
    float x[ACAN_WORDS_AT_ONCE];
    ACAN_UNROLL for (t = 0; t < ACAN_WORDS_AT_ONCE; ++t) {
      at[t] = acan_found_row(&a->m[1], word, found, k++, next, rows->end);
      x[t] = at[t] < rows->end ? acan_load(&a->m[2], at[t], c) : 0.0f;
      next = at[t] + 1;
    }
    ACAN_UNROLL for (t = 0; t < ACAN_WORDS_AT_ONCE; ++t) {
      if (at[t] >= rows->end) break;
      if (at[t] >= end) {
        const acan_i64 first = at[t] / group * group;
        const acan_i64 leaf = (at[t] - first) / block;
        if (end > 0) acan_word_push(&open, number, sum);
        number = first / group * rows->leaves + leaf;
        end = acan_leaf_end(first + leaf * block, block, first + group);
        sum = 0.0f;
      }
      sum = sum + x[t];
    }
  }
  if (end > 0) acan_word_push(&open, number, sum);
  sum = 0.0f;
  while (open.depth-- > 0) sum = open.nodes[open.depth] + sum;
  return sum;
}

/* The sum of the places' nodes, for the threads of place 0. */
ACAN_FN float acan_sum_of_places(float sum) {
  ACAN_LOCAL_VARIABLE float sums[ACAN_MOST_ROW_THREADS];
  float* own = sums + ACAN_ROW_PLACE * ACAN_ROW_THREADS + ACAN_ROW_THREAD;
  int width;
  *own = sum;
  ACAN_BARRIER();
  for (width = 1; width < ACAN_ROW_PLACES; width *= 2) {
    if (ACAN_ROW_PLACE % (2 * width) == 0) *own = *own + own[width * ACAN_ROW_THREADS];
    ACAN_BARRIER();
  }
  return *own;
}

ACAN_FN void acan_embedding_gradient(const acan_args* a, acan_i64 t) {
  ACAN_LOCAL_VARIABLE acan_found found;
  const acan_i64 word = a->i[2] + t;
  const acan_i64 cols = a->m[0].cols;
  acan_i64 first = (acan_i64)ACAN_ROW_PIECE * ACAN_ROW_THREADS;
  acan_word_rows rows;
  acan_find_shared_rows(&a->m[1], word, &found);
  rows = acan_rows_of_place(a, &found);
  for (; first < cols; first += (acan_i64)ACAN_ROW_PIECES * ACAN_ROW_THREADS) {
    const acan_i64 c = first + ACAN_ROW_THREAD;
    float sum = 0.0f;
    if ((found.count != 0) & (word != a->i[3])) {
      if (c < cols) sum = acan_word_sum(a, word, &found, &rows, c);
      sum = acan_sum_of_places(sum);
    }
    if ((ACAN_ROW_PLACE == 0) & (c < cols)) acan_store(&a->m[0], t, c, sum);
  }
}

#else

/* The number of rows that the list of a word holds. Further rows are searched again, which is cheap
 * only for words that are in many rows. */
#define ACAN_FOUND_ROWS 128

typedef struct {
  acan_i64 count;
  acan_i64 rows[ACAN_FOUND_ROWS]; /* the first of them */
} acan_found;

ACAN_FN void acan_find_rows(const acan_matrix* index, acan_i64 word, acan_found* found) {
  const acan_u32 bits = (acan_u32)word;
  acan_i64 begin;
  acan_i64 r;
  int t;
  found->count = 0;
  for (begin = 0; begin < index->rows; begin += ACAN_LANE_LEAF) {
    const acan_i64 end = acan_leaf_end(begin, ACAN_LANE_LEAF, index->rows);
    /* Most words of a table are in no row; a loop without exits vectorises. */
    if (index->stride == 1 && end - begin == ACAN_LANE_LEAF) {
      const ACAN_GLOBAL float* from = index->data + begin;
      acan_u32 any = 0;
      for (t = 0; t < ACAN_LANE_LEAF; ++t) any |= ACAN_AS_U32(from[t]) == bits ? 1u : 0u;
      if (!any) continue;
    }
    for (r = begin; r < end; ++r) {
      if (acan_load_int(index, r) != word) continue;
      if (found->count < ACAN_FOUND_ROWS) found->rows[found->count] = r;
      ++found->count;
    }
  }
}

/* Row `k` of the found rows, which is `r` or later; index->rows if there is none. */
ACAN_FN acan_i64 acan_found_row(const acan_matrix* index, acan_i64 word, const acan_found* found,
                                acan_i64 k, acan_i64 r) {
  if (k >= found->count) return index->rows;
  if (found->count <= ACAN_FOUND_ROWS) return found->rows[k];
  while (acan_load_int(index, r) != word) ++r;
  return r;
}

/* The sums of one word for columns c .. c + lanes - 1. A leaf without the word is +0, and adding +0
 * to a sum changes no bit, since no sum is -0. So only the other leaves are computed. They are
 * added where their places in the tree meet: the number of a leaf has the group in its upper bits,
 * and the highest bit in which two numbers differ is the level of the node that holds both. */
ACAN_FN void acan_word_sums(const acan_args* a, acan_i64 word, const acan_found* found, acan_i64 c,
                            float* sums, int lanes) {
  float nodes[ACAN_TREE_LEVELS][ACAN_COLUMN_LANES];
  acan_i64 numbers[ACAN_TREE_LEVELS]; /* of the last leaf of each node */
  const acan_i64 block = a->i[0];
  const acan_i64 group = a->i[1];
  acan_i64 leaves = 1;
  acan_i64 k = 0;
  acan_i64 r = acan_found_row(&a->m[1], word, found, 0, 0);
  int depth = 0;
  int l;
  while (leaves * block < group) leaves *= 2;
  while (r < a->m[1].rows) {
    const acan_i64 first = r / group * group;
    const acan_i64 leaf = (r - first) / block;
    const acan_i64 end = acan_leaf_end(first + leaf * block, block, first + group);
    const acan_i64 number = r / group * leaves + leaf;
    for (l = 0; l < lanes; ++l) sums[l] = 0.0f;
    while (r < end) {
      for (l = 0; l < lanes; ++l) sums[l] = sums[l] + acan_load(&a->m[2], r, c + l);
      r = acan_found_row(&a->m[1], word, found, ++k, r + 1);
      if (r == a->m[1].rows) break;
    }
    for (; depth > 1 && (numbers[depth - 2] ^ numbers[depth - 1]) < (numbers[depth - 1] ^ number);
         --depth) {
      for (l = 0; l < lanes; ++l) nodes[depth - 2][l] = nodes[depth - 2][l] + nodes[depth - 1][l];
      numbers[depth - 2] = numbers[depth - 1];
    }
    for (l = 0; l < lanes; ++l) nodes[depth][l] = sums[l];
    numbers[depth] = number;
    ++depth;
  }
  for (l = 0; l < lanes; ++l) sums[l] = 0.0f;
  while (depth-- > 0) {
    for (l = 0; l < lanes; ++l) sums[l] = nodes[depth][l] + sums[l];
  }
}

/* Row t of the gradient, for a word whose rows were found. */
ACAN_FN void acan_embedding_gradient_of(const acan_args* a, acan_i64 t, const acan_found* found) {
  float sums[ACAN_COLUMN_LANES];
  const acan_i64 cols = a->m[0].cols;
  const acan_i64 word = a->i[2] + t;
  acan_i64 c;
  if ((found->count == 0) | (word == a->i[3])) {
    ACAN_INDEPENDENT
    for (c = ACAN_ROW_THREAD; c < cols; c += ACAN_ROW_THREADS) acan_store(&a->m[0], t, c, 0.0f);
    return;
  }
  for (c = ACAN_ROW_THREAD; c + ACAN_COLUMN_LANES <= cols;
       c += ACAN_COLUMN_LANES * ACAN_ROW_THREADS) {
    acan_word_sums(a, word, found, c, sums, ACAN_COLUMN_LANES);
    acan_store_lanes(&a->m[0], t, c, sums, ACAN_COLUMN_LANES);
  }
  if (c < cols) {
    acan_word_sums(a, word, found, c, sums, (int)(cols - c));
    acan_store_lanes(&a->m[0], t, c, sums, (int)(cols - c));
  }
}

ACAN_FN void acan_embedding_gradient(const acan_args* a, acan_i64 t) {
  acan_found found;
  acan_find_rows(&a->m[1], a->i[2] + t, &found);
  acan_embedding_gradient_of(a, t, &found);
}

#endif /* ACAN_ROW_IS_SHARED && !defined(ACAN_WORDS_ARE_APART) */

ACAN_FN void acan_positions(const acan_args* a, acan_i64 r) {
  const acan_i64 cols = a->m[0].cols;
  const acan_i64 p = (a->i[0] + r) % a->m[2].rows;
  acan_i64 c;
  if (!a->m[1].data) {
    for (c = ACAN_ROW_THREAD; c < cols; c += ACAN_ROW_THREADS)
      acan_store(&a->m[0], r, c, acan_load(&a->m[2], p, c));
    return;
  }
  ACAN_INDEPENDENT
  for (c = ACAN_ROW_THREAD; c < cols; c += ACAN_ROW_THREADS) {
    acan_store(&a->m[0], r, c, acan_load(&a->m[1], r, c) + acan_load(&a->m[2], p, c));
  }
}

/* Position p of all samples: chains of `group` samples, then the tree over them. */
ACAN_FN void acan_position_sums(const acan_args* a, acan_i64 p, acan_i64 c, float* sums,
                                int lanes) {
  float levels[ACAN_TREE_LEVELS][ACAN_COLUMN_LANES];
  const acan_i64 positions = a->m[0].rows;
  const acan_i64 samples = a->m[1].rows / positions;
  acan_i64 groups = 0;
  acan_i64 first;
  acan_i64 s;
  int l;
  for (first = 0; first < samples; first += a->i[0], ++groups) {
    const acan_i64 last = acan_leaf_end(first, a->i[0], samples);
    for (l = 0; l < lanes; ++l) sums[l] = 0.0f;
    for (s = first; s < last; ++s) {
      for (l = 0; l < lanes; ++l) {
        sums[l] = sums[l] + acan_load(&a->m[1], s * positions + p, c + l);
      }
    }
    acan_lane_tree_push(levels, groups, sums, lanes);
  }
  acan_lane_tree_total(levels, groups, sums, lanes);
}

ACAN_FN void acan_positions_gradient(const acan_args* a, acan_i64 p) {
  float sums[ACAN_COLUMN_LANES];
  const acan_i64 cols = a->m[0].cols;
  acan_i64 c;
  for (c = ACAN_ROW_THREAD; c + ACAN_COLUMN_LANES <= cols;
       c += ACAN_COLUMN_LANES * ACAN_ROW_THREADS) {
    acan_position_sums(a, p, c, sums, ACAN_COLUMN_LANES);
    acan_store_lanes(&a->m[0], p, c, sums, ACAN_COLUMN_LANES);
  }
  if (c < cols) {
    acan_position_sums(a, p, c, sums, (int)(cols - c));
    acan_store_lanes(&a->m[0], p, c, sums, (int)(cols - c));
  }
}

/* Positions of x placed among those of out: position 0 of x is position i[2] of out, which may be
 * outside. The arithmetic is unsigned, so that one comparison checks both ends and no scalar
 * overflows. */
ACAN_FN void acan_place_positions(const acan_args* a, acan_i64 r, acan_i64 c) {
  const acan_i64 to = a->i[0];
  const acan_i64 from = a->i[1];
  const acan_u64 p = (acan_u64)(r % to) - (acan_u64)a->i[2];
  const int there = p < (acan_u64)from;
  acan_store(&a->m[0], r, c, there ? acan_load(&a->m[1], r / to * from + (acan_i64)p, c) : 0.0f);
}

ACAN_FN void acan_copy_positions(const acan_args* a, acan_i64 r, acan_i64 c) {
  const acan_i64 to = a->i[0];
  const acan_i64 from = a->i[1];
  const acan_u64 p = (acan_u64)(r % from) + (acan_u64)a->i[2];
  if (p >= (acan_u64)to) return;
  acan_store(&a->m[0], r / from * to + (acan_i64)p, c, acan_load(&a->m[1], r, c));
}

/* Rotates the pair (i, pairs + i) of each head by the angle of row p of the tables, or back. Both
 * elements of a pair are read before either is stored. */
ACAN_FN void acan_rotary(const acan_args* a, acan_i64 r) {
  const acan_i64 pairs = a->m[2].cols;
  const acan_i64 p = (a->i[1] + r) % a->m[2].rows;
  const float sign = a->i[0] ? -1.0f : 1.0f;
  acan_i64 head;
  acan_i64 i;
  for (head = 0; head < a->m[1].cols; head += 2 * pairs) {
    ACAN_INDEPENDENT
    for (i = ACAN_ROW_THREAD; i < pairs; i += ACAN_ROW_THREADS) {
      const float cosine = acan_load(&a->m[2], p, i);
      const float sine = sign * acan_load(&a->m[3], p, i);
      const float low = acan_load(&a->m[1], r, head + i);
      const float high = acan_load(&a->m[1], r, head + pairs + i);
      acan_store(&a->m[0], r, head + i, ACAN_FMA(low, cosine, -(high * sine)));
      acan_store(&a->m[0], r, head + pairs + i, ACAN_FMA(high, cosine, low * sine));
    }
  }
}

#endif /* ACAN_KERNELS_TABLES_H */
