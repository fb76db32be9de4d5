/* Kernels of one element each. */
#ifndef ACAN_KERNELS_ELEMENTWISE_H
#define ACAN_KERNELS_ELEMENTWISE_H

ACAN_FN void acan_add(const acan_args* a, acan_i64 r, acan_i64 c) {
  acan_store(&a->m[0], r, c, acan_load(&a->m[1], r, c) + acan_load(&a->m[2], r, c));
}

ACAN_FN void acan_fill(const acan_args* a, acan_i64 r, acan_i64 c) {
  acan_store(&a->m[0], r, c, a->f[0]);
}

ACAN_FN void acan_uniform(const acan_args* a, acan_i64 r, acan_i64 c) {
  const acan_u64 place = (acan_u64)((a->i[2] + r) * a->i[4] + a->i[3] + c);
  const acan_philox4 words = acan_philox((acan_u64)a->i[0], place, (acan_u64)a->i[1]);
  acan_store(&a->m[0], r, c, ACAN_FMA(a->f[1] - a->f[0], acan_unit_float(words.v[0]), a->f[0]));
}

ACAN_FN float acan_activate(acan_i64 activation, float bound, float z) {
  if (activation == ACAN_RELU) return z <= 0.0f ? 0.0f : z;
  if (activation == ACAN_CLIPPED_RELU) return ((z > 0.0f) & (z <= bound)) ? z : 0.0f;
  if (activation == ACAN_TANH) return acan_tanh(z);
  if (activation == ACAN_SIGMOID) return acan_sigmoid(z);
  if (activation == ACAN_GELU) return z * acan_normal_cdf(z);
  return z;
}

ACAN_FN void acan_bias_activation(const acan_args* a, acan_i64 r, acan_i64 c) {
  const float z = acan_load(&a->m[1], r, c) + acan_load(&a->m[2], 0, c);
  if (a->m[3].data) acan_store(&a->m[3], r, c, z);
  acan_store(&a->m[0], r, c, acan_activate(a->i[0], a->f[0], z));
}

/* gradient * act'; y is the activation's output, for gelu its input. A select, never a product with
 * 0, where the derivative is 0 or 1: an infinite gradient behind a closed relu stays out. */
ACAN_FN float acan_activate_gradient(acan_i64 activation, float bound, float gradient, float y) {
  if (activation == ACAN_RELU) return y <= 0.0f ? 0.0f : gradient;
  if (activation == ACAN_CLIPPED_RELU) return ((y > 0.0f) & (y <= bound)) ? gradient : 0.0f;
  if (activation == ACAN_TANH) return gradient * ACAN_FMA(-y, y, 1.0f);
  if (activation == ACAN_SIGMOID) return gradient * (y * (1.0f - y));
  if (activation == ACAN_GELU) {
    return gradient * ACAN_FMA(y, acan_normal_density(y), acan_normal_cdf(y));
  }
  return gradient;
}

ACAN_FN void acan_activation_gradient(const acan_args* a, acan_i64 r, acan_i64 c) {
  const float gradient = acan_load(&a->m[1], r, c);
  const float y = acan_load(&a->m[2], r, c);
  acan_store(&a->m[0], r, c, acan_activate_gradient(a->i[0], a->f[0], gradient, y));
}

ACAN_FN void acan_sgd(const acan_args* a, acan_i64 r, acan_i64 c) {
  const float w = acan_load(&a->m[1], r, c);
  const float g = ACAN_FMA(a->f[1], w, acan_load(&a->m[2], r, c));
  acan_store(&a->m[0], r, c, ACAN_FMA(-a->f[0], g, w));
}

ACAN_FN void acan_momentum(const acan_args* a, acan_i64 r, acan_i64 c) {
  const float w = acan_load(&a->m[2], r, c);
  const float g = ACAN_FMA(a->f[2], w, acan_load(&a->m[4], r, c));
  const float v = ACAN_FMA(a->f[1], acan_load(&a->m[3], r, c), g);
  acan_store(&a->m[1], r, c, v);
  acan_store(&a->m[0], r, c, ACAN_FMA(-a->f[0], v, w));
}

ACAN_FN void acan_adamw(const acan_args* a, acan_i64 r, acan_i64 c) {
  const float w = acan_load(&a->m[3], r, c);
  const float m0 = acan_load(&a->m[4], r, c);
  const float v0 = acan_load(&a->m[5], r, c);
  const float g = acan_load(&a->m[6], r, c);
  /* beta * old + (1 - beta) * new as PyTorch's lerp: exact where new equals old. */
  const float m = ACAN_FMA(a->f[1], g - m0, m0);
  const float v = ACAN_FMA(a->f[2], ACAN_FMA(g, g, -v0), v0);
  const float decayed = ACAN_FMA(-(a->f[0] * a->f[4]), w, w);
  const float denominator = ACAN_DIV(ACAN_SQRT(v), a->f[6]) + a->f[3];
  const float step = ACAN_DIV(a->f[0], a->f[5]);
  acan_store(&a->m[1], r, c, m);
  acan_store(&a->m[2], r, c, v);
  acan_store(&a->m[0], r, c, ACAN_FMA(-step, ACAN_DIV(m, denominator), decayed));
}

#endif /* ACAN_KERNELS_ELEMENTWISE_H */
