/* Kernels that sum along a row, in the canonical order: inside a leaf
 * acc = 0; acc = acc + x, ascending; leaves by the tree of args.h. */
#ifndef ACAN_KERNELS_REDUCTIONS_H
#define ACAN_KERNELS_REDUCTIONS_H

/* The number of terms of a row's sum that are computed at a time, apart from the chain of
 * additions. It divides every block. */
#define ACAN_TERMS 16

ACAN_FN int acan_terms(acan_i64 begin, acan_i64 end) {
  return end - begin < ACAN_TERMS ? (int)(end - begin) : ACAN_TERMS;
}

ACAN_FN acan_i64 acan_leaf_end(acan_i64 begin, acan_i64 block, acan_i64 end) {
  return end - begin < block ? end : begin + block;
}

#if ACAN_ROW_IS_SHARED

/* The terms of a row's chains: e^(x - largest), which is added, or d, of which d * d is added.
 * Stored is the term, or d * scale. `what` is a constant. */
#define ACAN_TERM_SOFTMAX 0
#define ACAN_TERM_SQUARE 1

ACAN_FN float acan_row_term(const acan_args* a, int what, acan_i64 r, acan_i64 c, float largest) {
  if (what == ACAN_TERM_SOFTMAX) {
    const float term = acan_exp(acan_load(&a->m[1], r, c) - largest);
    if (a->m[0].data) acan_store(&a->m[0], r, c, term);
    return term;
  } else {
    const float d = acan_load(&a->m[1], r, c) - acan_load(&a->m[2], r, c);
    if (a->m[0].data) acan_store(&a->m[0], r, c, d * a->f[0]);
    return d;
  }
}

/* The next terms of a leaf. The last word is unused; with it, the terms of neighbouring leaves are
 * in different banks. */
typedef float acan_chain_terms[ACAN_TERMS + 1];

/* The sum of this thread's leaf, one of `count` leaves from column `begin` on; 0 for other threads.
 * All threads together compute ACAN_TERMS terms of every leaf, neighbours by neighbouring threads,
 * and put them in shared memory for the threads that add the chains. */
ACAN_FN float acan_leaf_chain(const acan_args* a, int what, acan_i64 r, acan_i64 begin, int count,
                              float largest) {
  ACAN_SHARED_ARRAY(a, acan_chain_terms, terms, ACAN_CHAIN_THREADS,
                    ACAN_AT_TERMS(ACAN_ROW_THREADS));
  const acan_i64 cols = a->m[1].cols;
  const acan_i64 block = a->i[0];
  const acan_i64 longest = block < cols - begin ? block : cols - begin;
  const acan_i64 end =
      ACAN_ROW_THREAD < count ? acan_leaf_end(begin + ACAN_ROW_THREAD * block, block, cols) : begin;
  float sum = 0.0f;
  acan_i64 at;
  int i;
  int t;
  for (at = 0; at < longest; at += ACAN_TERMS) {
    const acan_i64 from = ACAN_ROW_THREAD < count ? begin + ACAN_ROW_THREAD * block + at : end;
    const int n = from < end ? acan_terms(from, end) : 0;
    for (i = ACAN_ROW_THREAD; i < count * ACAN_TERMS; i += ACAN_ROW_THREADS) {
      const acan_i64 c = begin + i / ACAN_TERMS * block + at + i % ACAN_TERMS;
      if (c < cols) terms[i / ACAN_TERMS][i % ACAN_TERMS] = acan_row_term(a, what, r, c, largest);
    }
    ACAN_BARRIER();
    for (t = 0; t < n; ++t) {
      const float term = terms[ACAN_ROW_THREAD][t];
      /* This fma makes the leaf a chain of fma, as in the matrix products. */
      sum = what == ACAN_TERM_SOFTMAX ? sum + term : ACAN_FMA(term, term, sum);
    }
    ACAN_BARRIER(); /* before the next terms are written */
  }
  return sum;
}

/* The first thread gets the node of the `count` leaves whose sums the first threads have. */
ACAN_FN float acan_node_of_threads(const acan_args* a, float sum, int count) {
  ACAN_SHARED_ARRAY(a, float, sums, ACAN_CHAIN_THREADS, ACAN_AT_CHAINS(ACAN_ROW_THREADS));
  const int at = ACAN_ROW_THREAD;
  int width;
  sums[at] = sum;
  ACAN_BARRIER();
  for (width = 1; width < count; width *= 2) {
    if ((at % (2 * width) == 0) & (at + width < count)) sums[at] = sums[at] + sums[at + width];
    ACAN_BARRIER();
  }
  return sums[at];
}

/* By a row's threads, each of which sums one leaf at a time: the sum of the row's terms. */
ACAN_FN float acan_sum_terms(const acan_args* a, int what, acan_i64 r, float largest) {
  ACAN_TREE_VARIABLE float levels[ACAN_TREE_LEVELS];
  const acan_i64 cols = a->m[1].cols;
  const acan_i64 leaves = (cols - 1) / a->i[0] + 1;
  acan_i64 first;
  acan_i64 nodes = 0;
  for (first = 0; first < leaves; first += ACAN_ROW_THREADS, ++nodes) {
    const int count = leaves - first < ACAN_ROW_THREADS ? (int)(leaves - first) : ACAN_ROW_THREADS;
    const float sum = acan_leaf_chain(a, what, r, first * a->i[0], count, largest);
    const float node = acan_node_of_threads(a, sum, count);
    if (ACAN_ROW_THREAD == 0) acan_tree_push(levels, nodes, node);
  }
  return acan_share_total(a, levels, nodes);
}

ACAN_FN float acan_softmax_denominator(const acan_args* a, acan_i64 r, float largest) {
  return acan_sum_terms(a, ACAN_TERM_SOFTMAX, r, largest);
}

ACAN_FN float acan_square_sum(const acan_args* a, acan_i64 r) {
  return acan_sum_terms(a, ACAN_TERM_SQUARE, r, 0.0f);
}

#else

/* The number of leaves whose chains are added side by side. An addition takes several cycles, and
 * each addition of a chain waits for the one before. */
#define ACAN_CHAINS 4

/* The next n <= ACAN_TERMS terms of a leaf: e^(x - largest) of columns c .. c + n - 1, also stored
 * in m0 if it is present. */
ACAN_FN void acan_softmax_terms(const acan_args* a, acan_i64 r, acan_i64 c, int n, float largest,
                                float* terms) {
  int t;
  if (n == ACAN_TERMS) {
    ACAN_LANE_LOOP
    for (t = 0; t < ACAN_TERMS; ++t) terms[t] = acan_exp(acan_load(&a->m[1], r, c + t) - largest);
  } else {
    for (t = 0; t < n; ++t) terms[t] = acan_exp(acan_load(&a->m[1], r, c + t) - largest);
  }
  if (!a->m[0].data) return;
  if (n == ACAN_TERMS) {
    ACAN_LANE_LOOP
    for (t = 0; t < ACAN_TERMS; ++t) acan_store(&a->m[0], r, c + t, terms[t]);
  } else {
    for (t = 0; t < n; ++t) acan_store(&a->m[0], r, c + t, terms[t]);
  }
}

/* Sum over c of e^(x[r,c] - largest); the terms are also stored in m0 if it is present. */
ACAN_FN float acan_softmax_denominator(const acan_args* a, acan_i64 r, float largest) {
  float levels[ACAN_TREE_LEVELS];
  float terms[ACAN_CHAINS][ACAN_TERMS];
  const acan_i64 cols = a->m[1].cols;
  const acan_i64 block = a->i[0];
  acan_i64 leaf = 0;
  acan_i64 begin = 0;
  acan_i64 c;
  int k;
  int t;
  /* The comparison divides, since ACAN_CHAINS * block may overflow 64 bits. */
  for (; block <= (cols - begin) / ACAN_CHAINS; begin += ACAN_CHAINS * block) {
    float sums[ACAN_CHAINS] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (c = begin; c < begin + block; c += ACAN_TERMS) {
      for (k = 0; k < ACAN_CHAINS; ++k) {
        acan_softmax_terms(a, r, c + k * block, ACAN_TERMS, largest, terms[k]);
      }
      for (t = 0; t < ACAN_TERMS; ++t) {
        for (k = 0; k < ACAN_CHAINS; ++k) sums[k] = sums[k] + terms[k][t];
      }
    }
    for (k = 0; k < ACAN_CHAINS; ++k) acan_tree_push(levels, leaf++, sums[k]);
  }
  for (; begin < cols; begin += block, ++leaf) {
    const acan_i64 end = acan_leaf_end(begin, block, cols);
    float sum = 0.0f;
    for (c = begin; c < end; c += ACAN_TERMS) {
      const int n = acan_terms(c, end);
      acan_softmax_terms(a, r, c, n, largest, terms[0]);
      for (t = 0; t < n; ++t) sum = sum + terms[0][t];
    }
    acan_tree_push(levels, leaf, sum);
  }
  return acan_tree_total(levels, leaf);
}

/* Sum over c of (outputs - targets)^2; the scaled differences are also stored in m0 if it is
 * present. */
ACAN_FN float acan_square_sum(const acan_args* a, acan_i64 r) {
  float levels[ACAN_TREE_LEVELS];
  const acan_i64 cols = a->m[1].cols;
  acan_i64 leaf = 0;
  acan_i64 begin;
  acan_i64 c;
  for (begin = 0; begin < cols; begin += a->i[0], ++leaf) {
    const acan_i64 end = acan_leaf_end(begin, a->i[0], cols);
    float sum = 0.0f;
    for (c = begin; c < end; ++c) {
      const float d = acan_load(&a->m[1], r, c) - acan_load(&a->m[2], r, c);
      /* This fma makes the leaf a chain of fma, as in the matrix products. */
      sum = ACAN_FMA(d, d, sum);
      if (a->m[0].data) acan_store(&a->m[0], r, c, d * a->f[0]);
    }
    acan_tree_push(levels, leaf, sum);
  }
  return acan_tree_total(levels, leaf);
}

#endif /* ACAN_ROW_IS_SHARED */

/* The first column with the largest logit. A NaN is the largest if it is the first element;
 * otherwise NaNs are ignored. By a row's threads, as are both losses. */
ACAN_FN acan_i64 acan_softmax_first(const acan_args* a, acan_i64 r) {
  const float first = acan_load(&a->m[1], r, 0);
  return first == first ? acan_find_largest(a, 1, r).column : 0;
}

ACAN_FN void acan_softmax_cross_entropy(const acan_args* a, acan_i64 r) {
  const acan_i64 cols = a->m[1].cols;
  const acan_i64 label = (acan_i32)ACAN_AS_U32(acan_load(&a->m[2], r, 0));
  const int valid = (label >= 0) & (label < cols);
  /* This is read before m0 is written, since m0 may be the logits' own matrix. */
  const float of_label = valid ? acan_load(&a->m[1], r, label) : ACAN_NAN;
  const acan_i64 first = acan_softmax_first(a, r);
  const float largest = acan_load(&a->m[1], r, first);
  float sum;
  float of_label_term;
  acan_i64 c;
  ACAN_ROW_BARRIER();
  sum = acan_softmax_denominator(a, r, largest);
  if (ACAN_ROW_THREAD == 0) {
    acan_store(&a->m[3], r, 0, acan_log(sum) - (of_label - largest));
    acan_store(&a->m[4], r, 0, first == label ? 1.0f : 0.0f);
  }
  if (!a->m[0].data) return;
  of_label_term = valid ? acan_load(&a->m[0], r, label) : 0.0f;
  ACAN_ROW_BARRIER();
  ACAN_INDEPENDENT
  for (c = ACAN_ROW_THREAD; c < cols; c += ACAN_ROW_THREADS) {
    acan_store(&a->m[0], r, c, ACAN_DIV(acan_load(&a->m[0], r, c), sum) * a->f[0]);
  }
  ACAN_ROW_BARRIER();
  if (valid & (ACAN_ROW_THREAD == 0)) {
    acan_store(&a->m[0], r, label, (ACAN_DIV(of_label_term, sum) - 1.0f) * a->f[0]);
  }
}

ACAN_FN void acan_squared_error(const acan_args* a, acan_i64 r) {
  const float sum = acan_square_sum(a, r);
  if (ACAN_ROW_THREAD == 0) acan_store(&a->m[3], r, 0, sum);
}

#endif /* ACAN_KERNELS_REDUCTIONS_H */
