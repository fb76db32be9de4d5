/* Cross entropy over classes that may be cut at nodes of the tree. The kernels find the maximum of
 * each node and of the whole row; then three sums of each node and of the whole row: e^(x -
 * largest) in lane order, the label's x - largest, and x - largest in lane order; then the loss and
 * the gradient. The maximum ignores NaN; through the sums, a NaN makes the row's loss NaN. Nodes of
 * NaNs only have the column -1, so that a -infinity in another node is met first however classes
 * are cut. */
#ifndef ACAN_KERNELS_CLASSES_H
#define ACAN_KERNELS_CLASSES_H

ACAN_FN void acan_class_maxima(const acan_args* a, acan_i64 r) {
  const acan_largest largest = acan_find_largest(a, 2, r);
  if (ACAN_ROW_THREAD != 0) return;
  acan_store(&a->m[0], r, 0, largest.value);
  acan_store_int(&a->m[1], r, largest.column < 0 ? -1 : a->i[0] + largest.column);
}

ACAN_FN void acan_combine_maxima(const acan_args* a, acan_i64 r, acan_i64 c) {
  const float left = acan_load(&a->m[2], r, c);
  const float right = acan_load(&a->m[4], r, c);
  const acan_i64 left_column = acan_load_int(&a->m[3], r);
  const acan_i64 right_column = acan_load_int(&a->m[5], r);
  const int is_right = (right > left) | (left_column < 0);
  acan_store(&a->m[0], r, c, is_right ? right : left);
  acan_store_int(&a->m[1], r, is_right ? right_column : left_column);
}

#if ACAN_ROW_IS_SHARED

/* By a row's threads: the sums of e^(x - largest) and of x - largest. */
ACAN_FN void acan_class_totals(const acan_args* a, acan_i64 r, float largest, float* sum_of_e,
                               float* sum_of_x) {
  ACAN_TREE_VARIABLE float exponentials[ACAN_TREE_LEVELS];
  ACAN_TREE_VARIABLE float differences[ACAN_TREE_LEVELS];
  const acan_matrix* m = &a->m[1];
  const acan_i64 leaves = acan_leaves_of(m->cols);
  acan_i64 first;
  int j;
  for (first = 0; first < leaves; first += ACAN_ROW_LEAVES) {
    const acan_lane_place at = acan_place_of_thread(first, m->cols);
    const ACAN_GLOBAL float* from = m->data + r * m->stride + at.begin;
    float e = 0.0f;
    float x = 0.0f;
    ACAN_UNROLL for (j = 0; j < ACAN_LANE_LEAF; j += ACAN_LANES) {
      const int there = j + at.lane < at.n;
      const float d = there ? from[j + at.lane] - largest : 0.0f;
      e = e + (there ? acan_exp(d) : 0.0f);
      x = x + d;
    }
    acan_push_lanes(a, e, first, leaves, exponentials);
    acan_push_lanes(a, x, first, leaves, differences);
  }
  *sum_of_e = acan_share_lanes(a, exponentials, leaves);
  *sum_of_x = acan_share_lanes(a, differences, leaves);
}

#else

ACAN_FN void acan_class_totals(const acan_args* a, acan_i64 r, float largest, float* sum_of_e,
                               float* sum_of_x) {
  float exponentials[ACAN_TREE_LEVELS];
  float differences[ACAN_TREE_LEVELS];
  const acan_matrix* m = &a->m[1];
  float x[ACAN_LANE_LEAF];
  float e[ACAN_LANE_LEAF];
  acan_i64 leaf = 0;
  acan_i64 begin;
  int t;
  for (begin = 0; begin < m->cols; begin += ACAN_LANE_LEAF, ++leaf) {
    const int n = acan_leaf_size(begin, m->cols);
    acan_load_leaf(m, r, begin, n, largest, x);
    for (t = 0; t < ACAN_LANE_LEAF; ++t) e[t] = acan_exp(x[t]);
    acan_end_leaf(n, e);
    acan_tree_push(exponentials, leaf, acan_leaf_sum(e));
    acan_tree_push(differences, leaf, acan_leaf_sum(x));
  }
  *sum_of_e = acan_tree_total(exponentials, leaf);
  *sum_of_x = acan_tree_total(differences, leaf);
}

#endif /* ACAN_ROW_IS_SHARED */

ACAN_FN void acan_class_sums(const acan_args* a, acan_i64 r) {
  const acan_i64 label = acan_load_int(&a->m[3], r) - a->i[0];
  const float largest = acan_load(&a->m[2], r, 0);
  const int here = (label >= 0) & (label < a->m[1].cols);
  const float of_label = here ? acan_load(&a->m[1], r, label) - largest : 0.0f;
  float sum_of_e;
  float sum_of_x;
  acan_class_totals(a, r, largest, &sum_of_e, &sum_of_x);
  if (ACAN_ROW_THREAD != 0) return;
  acan_store(&a->m[0], r, 0, sum_of_e);
  acan_store(&a->m[0], r, 1, of_label);
  acan_store(&a->m[0], r, 2, sum_of_x);
}

ACAN_FN void acan_cross_entropy_loss(const acan_args* a, acan_i64 r, acan_i64 c) {
  const acan_i64 label = acan_load_int(&a->m[4], r);
  const float log_sum = acan_log(acan_load(&a->m[2], r, 0));
  const float of_label = log_sum - acan_load(&a->m[2], r, 1);
  const float of_all = log_sum - ACAN_DIV(acan_load(&a->m[2], r, 2), (float)a->i[0]);
  const float smooth = a->f[0];
  const float both = ACAN_FMA(smooth, of_all, (1.0f - smooth) * of_label);
  const float loss = smooth > 0.0f ? both : of_label;
  const int valid = (label >= 0) & (label < a->i[0]);
  const int ignored = label == a->i[1];
  /* The answer of a row of NaNs only is class 0. */
  const acan_i64 column = acan_load_int(&a->m[3], r);
  const int correct = !ignored & ((column < 0 ? 0 : column) == label);
  acan_store(&a->m[0], r, c, ignored ? 0.0f : valid ? loss : ACAN_NAN);
  acan_store(&a->m[1], r, c, correct ? 1.0f : 0.0f);
}

/* What the gradient of a row needs. */
typedef struct {
  float largest;
  float sum;
  float on;  /* the target of the label's class beyond `off` */
  float off; /* the target of every class */
  float scale;
  int ignored;
  acan_i64 label; /* its column in this part; may be outside the part */
} acan_class_row;

/* The gradient of a class with e = p * sum, which is the label or not. */
ACAN_FN float acan_class_gradient(const acan_class_row* of, float e, int is_label) {
  const float p = ACAN_DIV(e, of->sum);
  const float less = is_label ? p - of->on : p;
  return of->ignored ? 0.0f : (less - of->off) * of->scale;
}

#if ACAN_ROW_IS_SHARED

/* By a row's threads. Each thread reads an element before it writes it, since out may be the
 * logits. */
ACAN_FN void acan_class_gradients(const acan_args* a, acan_i64 r, const acan_class_row* of) {
  acan_i64 c;
  for (c = ACAN_ROW_THREAD; c < a->m[0].cols; c += ACAN_ROW_THREADS) {
    const float e = acan_exp(acan_load(&a->m[1], r, c) - of->largest);
    acan_store(&a->m[0], r, c, acan_class_gradient(of, e, c == of->label));
  }
}

#else

ACAN_FN void acan_class_gradients(const acan_args* a, acan_i64 r, const acan_class_row* of) {
  float x[ACAN_LANE_LEAF];
  const acan_i64 cols = a->m[0].cols;
  const int here = (of->label >= 0) & (of->label < cols);
  /* This is read before m0 is written, since m0 may be the logits' own matrix. */
  const float of_label = here ? acan_load(&a->m[1], r, of->label) : 0.0f;
  acan_i64 begin;
  int t;
  for (begin = 0; begin < cols; begin += ACAN_LANE_LEAF) {
    const int n = acan_leaf_size(begin, cols);
    acan_load_leaf(&a->m[1], r, begin, n, of->largest, x);
    for (t = 0; t < ACAN_LANE_LEAF; ++t) x[t] = acan_class_gradient(of, acan_exp(x[t]), 0);
    acan_store_leaf(&a->m[0], r, begin, n, x);
  }
  if (here) {
    const float e = acan_exp(of_label - of->largest);
    acan_store(&a->m[0], r, of->label, acan_class_gradient(of, e, 1));
  }
}

#endif /* ACAN_ROW_IS_SHARED */

ACAN_FN void acan_cross_entropy_gradient(const acan_args* a, acan_i64 r) {
  const acan_i64 label = acan_load_int(&a->m[4], r);
  acan_class_row of;
  of.largest = acan_load(&a->m[2], r, 0);
  of.sum = acan_load(&a->m[3], r, 0);
  of.on = 1.0f - a->f[1];
  of.off = ACAN_DIV(a->f[1], (float)a->i[1]);
  of.scale = a->f[0];
  of.ignored = label == a->i[2];
  of.label = label - a->i[0];
  acan_class_gradients(a, r, &of);
}

/* For the norm of all gradients: the sum of the squares of a row, in lane order. */
ACAN_FN void acan_row_squares(const acan_args* a, acan_i64 r) {
  const float sum = acan_row_square_sum(a, 1, r, 0.0f);
  if (ACAN_ROW_THREAD == 0) acan_store(&a->m[0], r, 0, sum);
}

#endif /* ACAN_KERNELS_CLASSES_H */
