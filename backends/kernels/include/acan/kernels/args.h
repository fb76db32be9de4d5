/* The arguments of every kernel and the access to its operands. The rows of
 * acan/core/operators/operators.inc define m, f and i for each kernel. */
#ifndef ACAN_KERNELS_ARGS_H
#define ACAN_KERNELS_ARGS_H

typedef struct {
  ACAN_GLOBAL float* data; /* element (r, c) is data[r * stride + c]; null: operand absent */
  acan_i64 rows;
  acan_i64 cols;
  acan_i64 stride;
} acan_matrix;

typedef struct {
  acan_matrix m[ACAN_KERNEL_MATRICES];
  float f[ACAN_KERNEL_FLOATS];
  acan_i64 i[ACAN_KERNEL_INTEGERS];
#ifdef ACAN_SHARED_IN_ARGS
  ACAN_LOCAL acan_i64* shared; /* the group's memory, in the order of sums/shared_words.h */
#endif
} acan_args;

ACAN_FN float acan_load(const acan_matrix* m, acan_i64 r, acan_i64 c) {
  return m->data[r * m->stride + c];
}

/* Stores every NaN with the same bits, because devices differ in the bits of a NaN from an
 * addition. */
ACAN_FN void acan_store(const acan_matrix* m, acan_i64 r, acan_i64 c, float value) {
  m->data[r * m->stride + c] = value == value ? value : ACAN_NAN;
}

/* Elements of an int32 operand's only column. They are not floats, so no bits are replaced by those
 * of the stored NaN. */
ACAN_FN acan_i64 acan_load_int(const acan_matrix* m, acan_i64 r) {
  return (acan_i32)ACAN_AS_U32(m->data[r * m->stride]);
}

ACAN_FN void acan_store_int(const acan_matrix* m, acan_i64 r, acan_i64 value) {
  m->data[r * m->stride] = ACAN_AS_F32((acan_u32)value);
}

/* The canonical tree over the leaf sums of a reduction, as a binary counter: levels[h] holds the
 * node of level h that waits for its right sibling. Leaves are pushed in ascending order. */
#define ACAN_TREE_LEVELS 40

ACAN_FN void acan_tree_push(float* levels, acan_i64 leaf, float sum) {
  int level = 0;
  while (leaf & 1) {
    sum = levels[level] + sum;
    leaf >>= 1;
    ++level;
  }
  levels[level] = sum;
}

/* REQUIRES: leaves > 0 pushed. A missing right child passes the left one through. */
ACAN_FN float acan_tree_total(const float* levels, acan_i64 leaves) {
  int level = 0;
  float sum;
  while (!(leaves & 1)) {
    leaves >>= 1;
    ++level;
  }
  sum = levels[level];
  for (leaves >>= 1, ++level; leaves; leaves >>= 1, ++level) {
    if (leaves & 1) sum = levels[level] + sum;
  }
  return sum;
}

#endif /* ACAN_KERNELS_ARGS_H */
