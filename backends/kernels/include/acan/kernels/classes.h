/* Cross entropy over classes that may be cut at nodes of the tree: the maximum of each node and of
 * all, then three sums of each node (of e^(x - largest) in lane order, the label's x - largest, and
 * of x - largest in lane order) and of all, then loss and gradient. An element that is NaN is none
 * for the maximum; through the sums it makes the row's loss NaN. */
#ifndef ACAN_KERNELS_CLASSES_H
#define ACAN_KERNELS_CLASSES_H

ACAN_FN void acan_class_maxima(const acan_args* a, acan_i64 r) {
  const float largest = acan_row_largest(&a->m[2], r);
  acan_store(&a->m[0], r, 0, largest);
  acan_store_int(&a->m[1], r, a->i[0] + acan_first_column(&a->m[2], r, largest));
}

ACAN_FN void acan_combine_maxima(const acan_args* a, acan_i64 r, acan_i64 c) {
  const float left = acan_load(&a->m[2], r, c);
  const float right = acan_load(&a->m[4], r, c);
  const acan_i64 first = acan_load_int(right > left ? &a->m[5] : &a->m[3], r);
  acan_store(&a->m[0], r, c, right > left ? right : left);
  acan_store_int(&a->m[1], r, first);
}

ACAN_FN void acan_class_sums(const acan_args* a, acan_i64 r) {
  float exponentials[ACAN_TREE_LEVELS];
  float differences[ACAN_TREE_LEVELS];
  float x[ACAN_LANE_LEAF];
  float e[ACAN_LANE_LEAF];
  const acan_i64 cols = a->m[1].cols;
  const acan_i64 label = acan_load_int(&a->m[3], r) - a->i[0];
  const float largest = acan_load(&a->m[2], r, 0);
  const int here = (label >= 0) & (label < cols);
  const float of_label = here ? acan_load(&a->m[1], r, label) - largest : 0.0f;
  acan_i64 leaf = 0;
  acan_i64 begin;
  int t;
  for (begin = 0; begin < cols; begin += ACAN_LANE_LEAF, ++leaf) {
    const int n = acan_leaf_size(begin, cols);
    acan_load_leaf(&a->m[1], r, begin, n, largest, x);
    for (t = 0; t < ACAN_LANE_LEAF; ++t) e[t] = acan_exp(x[t]);
    acan_end_leaf(n, e);
    acan_tree_push(exponentials, leaf, acan_leaf_sum(e));
    acan_tree_push(differences, leaf, acan_leaf_sum(x));
  }
  acan_store(&a->m[0], r, 0, acan_tree_total(exponentials, leaf));
  acan_store(&a->m[0], r, 1, of_label);
  acan_store(&a->m[0], r, 2, acan_tree_total(differences, leaf));
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
  const int correct = !ignored & (acan_load_int(&a->m[3], r) == label);
  acan_store(&a->m[0], r, c, ignored ? 0.0f : valid ? loss : ACAN_NAN);
  acan_store(&a->m[1], r, c, correct ? 1.0f : 0.0f);
}

ACAN_FN void acan_cross_entropy_gradient(const acan_args* a, acan_i64 r) {
  float x[ACAN_LANE_LEAF];
  const acan_i64 cols = a->m[0].cols;
  const acan_i64 label = acan_load_int(&a->m[4], r);
  const acan_i64 at = label - a->i[0];
  const int ignored = label == a->i[2];
  const float largest = acan_load(&a->m[2], r, 0);
  const float sum = acan_load(&a->m[3], r, 0);
  const float on = 1.0f - a->f[1];
  const float off = ACAN_DIV(a->f[1], (float)a->i[1]);
  /* Read before m0, which may be the logits' own matrix, is written. */
  const int here = (at >= 0) & (at < cols) & !ignored;
  const float of_label = here ? acan_load(&a->m[1], r, at) : 0.0f;
  acan_i64 begin;
  int t;
  for (begin = 0; begin < cols; begin += ACAN_LANE_LEAF) {
    const int n = acan_leaf_size(begin, cols);
    acan_load_leaf(&a->m[1], r, begin, n, largest, x);
    for (t = 0; t < ACAN_LANE_LEAF; ++t) {
      const float p = ACAN_DIV(acan_exp(x[t]), sum);
      x[t] = ignored ? 0.0f : (p - off) * a->f[0];
    }
    acan_store_leaf(&a->m[0], r, begin, n, x);
  }
  if (here) {
    const float p = ACAN_DIV(acan_exp(of_label - largest), sum);
    acan_store(&a->m[0], r, at, ((p - on) - off) * a->f[0]);
  }
}

/* For the norm of all gradients: the sum of the squares of a row, in lane order. */
ACAN_FN void acan_row_squares(const acan_args* a, acan_i64 r) {
  const float sum = acan_row_square_sum(&a->m[1], r, 0.0f);
  if (ACAN_ROW_THREAD == 0) acan_store(&a->m[0], r, 0, sum);
}

#endif /* ACAN_KERNELS_CLASSES_H */
