/* One row per kernel: X(enumerator, function, iteration space, operands, variants).
 *
 * Iteration space:  ELEMENT  function(args, r, c)         for every element of the first operand
 *                            whose shape is e
 *                   ROW      function(args, r)            for every row of it
 *                   COLUMN   function(args, c, lanes)     for columns c .. c + lanes - 1 of it
 * Operands, in the order of m[]: r reads or w writes, then the shape: e [rows, cols], v [1, cols],
 * s [rows, 1]; "?" marks an optional one. The first e that is not optional fixes rows and cols.
 * Variants: how many values i[0] can take (0 .. variants - 1) that a backend may compile apart. */
#ifndef ACAN_KERNELS_TABLE_H
#define ACAN_KERNELS_TABLE_H

#define ACAN_ACTIVATION_COUNT 6

#define ACAN_KERNEL_TABLE(X)                                                                   \
  X(kAdd, acan_add, ELEMENT, "we re re", 1)                                                    \
  X(kFill, acan_fill, ELEMENT, "we", 1)                                                        \
  X(kUniform, acan_uniform, ELEMENT, "we", 1)                                                  \
  X(kBiasActivation, acan_bias_activation, ELEMENT, "we re rv we?", ACAN_ACTIVATION_COUNT)     \
  X(kActivationGradient, acan_activation_gradient, ELEMENT, "we re re", ACAN_ACTIVATION_COUNT) \
  X(kSoftmaxCrossEntropy, acan_softmax_cross_entropy, ROW, "we? re rs ws ws", 1)               \
  X(kSquaredError, acan_squared_error, ROW, "we? re re ws", 1)                                 \
  X(kColumnSums, acan_column_sums, COLUMN, "wv re", 1)                                         \
  X(kSgd, acan_sgd, ELEMENT, "we re re", 1)                                                    \
  X(kMomentum, acan_momentum, ELEMENT, "we we re re re", 1)                                    \
  X(kAdamW, acan_adamw, ELEMENT, "we we we re re re re", 1)

#endif /* ACAN_KERNELS_TABLE_H */
