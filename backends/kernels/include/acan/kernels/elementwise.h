/* Kernels that compute each element on its own. */
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

/* (1 + tanh(k)) / 2, k = sqrt(2 / pi) * (z + 0.044715 * z^3), computed as the logistic function of
 * 2 k, which is accurate also where the result is almost 0. */
ACAN_FN float acan_gelu_tanh_gate(float z) {
  return acan_gate(z * ACAN_FMA(0.0713548162f, z * z, 1.59576912f));
}

ACAN_FN float acan_activate(acan_i64 activation, float bound, float z) {
  if (activation == ACAN_RELU) return z <= 0.0f ? 0.0f : z;
  if (activation == ACAN_CLIPPED_RELU) return ((z > 0.0f) & (z <= bound)) ? z : 0.0f;
  if (activation == ACAN_TANH) return acan_tanh(z);
  if (activation == ACAN_SIGMOID) return acan_sigmoid(z);
  if (activation == ACAN_GELU) return z * acan_normal_cdf(z);
  if (activation == ACAN_GELU_TANH) return z * acan_gelu_tanh_gate(z);
  if (activation == ACAN_SILU) return z * acan_gate(z);
  return z;
}

ACAN_FN void acan_bias_activation(const acan_args* a, acan_i64 r, acan_i64 c) {
  const float z = acan_load(&a->m[1], r, c) + acan_load(&a->m[2], 0, c);
  if (a->m[3].data) acan_store(&a->m[3], r, c, z);
  acan_store(&a->m[0], r, c, acan_activate(a->i[0], a->f[0], z));
}

/* The derivative of z * gate: gate + z * gate * (1 - gate) * d(2 k)/dz. Beyond +-16 the gate is 0
 * or 1 to the last bit, so z is clamped there, lest z^3 overflow. */
ACAN_FN float acan_gelu_tanh_slope(float z) {
  const float above = z > 16.0f ? 16.0f : z;
  const float y = above < -16.0f ? -16.0f : above;
  const float gate = acan_gelu_tanh_gate(y);
  const float inner = ACAN_FMA(0.214064449f, y * y, 1.59576912f);
  return ACAN_FMA(y * inner, gate * (1.0f - gate), gate);
}

ACAN_FN float acan_silu_slope(float z) {
  const float u = acan_gate(z);
  return u * ACAN_FMA(z, 1.0f - u, 1.0f);
}

/* gradient * act'; y is the activation's output, or its input where the table says so. Where the
 * derivative is 0 or 1, the code selects and never multiplies by 0, so that an infinite gradient
 * behind a closed relu becomes 0. */
ACAN_FN float acan_activate_gradient(acan_i64 activation, float bound, float gradient, float y) {
  if (activation == ACAN_RELU) return y <= 0.0f ? 0.0f : gradient;
  if (activation == ACAN_CLIPPED_RELU) return ((y > 0.0f) & (y <= bound)) ? gradient : 0.0f;
  if (activation == ACAN_TANH) return gradient * ACAN_FMA(-y, y, 1.0f);
  if (activation == ACAN_SIGMOID) return gradient * (y * (1.0f - y));
  if (activation == ACAN_GELU) {
    return gradient * ACAN_FMA(y, acan_normal_density(y), acan_normal_cdf(y));
  }
  if (activation == ACAN_GELU_TANH) return gradient * acan_gelu_tanh_slope(y);
  if (activation == ACAN_SILU) return gradient * acan_silu_slope(y);
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
  /* beta * old + (1 - beta) * new, exact where new equals old. PyTorch's lerp has this form where
   * 1 - beta is below 0.5, and otherwise new - (new - old) * beta. For a small beta1, m therefore
   * has fewer digits here if g is small beside m0. Taking lerp's other form would change the bits
   * of existing trainings. */
  const float m = ACAN_FMA(a->f[1], g - m0, m0);
  /* For a small beta2, the difference g * g - v0 would lose the new square beside a large old one.
   * Taking the other form for every beta2 would change the bits of existing trainings. */
  const float rate = a->f[2];
  const float v = rate > 0.5f ? ACAN_FMA(rate * g, g, (1.0f - rate) * v0)
                              : ACAN_FMA(rate, ACAN_FMA(g, g, -v0), v0);
  const float decayed = ACAN_FMA(-(a->f[0] * a->f[4]), w, w);
  const float denominator = ACAN_DIV(ACAN_SQRT(v), a->f[6]) + a->f[3];
  const float step = ACAN_DIV(a->f[0], a->f[5]);
  acan_store(&a->m[1], r, c, m);
  acan_store(&a->m[2], r, c, v);
  acan_store(&a->m[0], r, c, ACAN_FMA(-step, ACAN_DIV(m, denominator), decayed));
}

ACAN_FN void acan_activation(const acan_args* a, acan_i64 r, acan_i64 c) {
  acan_store(&a->m[0], r, c, acan_activate(a->i[0], a->f[0], acan_load(&a->m[1], r, c)));
}

ACAN_FN void acan_multiply(const acan_args* a, acan_i64 r, acan_i64 c) {
  acan_store(&a->m[0], r, c, acan_load(&a->m[1], r, c) * acan_load(&a->m[2], r, c));
}

ACAN_FN void acan_scale(const acan_args* a, acan_i64 r, acan_i64 c) {
  acan_store(&a->m[0], r, c, acan_load(&a->m[1], r, c) * a->f[0]);
}

ACAN_FN void acan_scale_by(const acan_args* a, acan_i64 r, acan_i64 c) {
  acan_store(&a->m[0], r, c, acan_load(&a->m[1], r, c) * acan_load(&a->m[2], 0, 0));
}

ACAN_FN void acan_scale_columns(const acan_args* a, acan_i64 r, acan_i64 c) {
  acan_store(&a->m[0], r, c, acan_load(&a->m[1], r, c) * acan_load(&a->m[2], 0, c));
}

ACAN_FN void acan_swiglu(const acan_args* a, acan_i64 r, acan_i64 c) {
  const float gate = acan_load(&a->m[1], r, c);
  acan_store(&a->m[0], r, c, (gate * acan_gate(gate)) * acan_load(&a->m[2], r, c));
}

ACAN_FN void acan_swiglu_gradient(const acan_args* a, acan_i64 r, acan_i64 c) {
  const float gate = acan_load(&a->m[2], r, c);
  const float up = acan_load(&a->m[3], r, c);
  const float dy = acan_load(&a->m[4], r, c);
  const float u = acan_gate(gate);
  acan_store(&a->m[0], r, c, (dy * up) * (u * ACAN_FMA(gate, 1.0f - u, 1.0f)));
  acan_store(&a->m[1], r, c, dy * (gate * u));
}

/* Adds a linear operator's bias, then the residual, as two additions. */
ACAN_FN void acan_bias_residual(const acan_args* a, acan_i64 r, acan_i64 c) {
  const float z = acan_load(&a->m[1], r, c) + acan_load(&a->m[2], 0, c);
  acan_store(&a->m[0], r, c, z + acan_load(&a->m[3], r, c));
}

/* Element (r, c) of the result. */
ACAN_FN void acan_transpose(const acan_args* a, acan_i64 r, acan_i64 c) {
  acan_store(&a->m[0], r, c, acan_load(&a->m[1], c, r));
}

ACAN_FN void acan_divide(const acan_args* a, acan_i64 r, acan_i64 c) {
  acan_store(&a->m[0], r, c, ACAN_DIV(acan_load(&a->m[1], r, c), a->f[0]));
}

ACAN_FN void acan_inverse_root(const acan_args* a, acan_i64 r, acan_i64 c) {
  const float root = ACAN_SQRT(acan_load(&a->m[1], r, c) + a->f[0]);
  acan_store(&a->m[0], r, c, ACAN_DIV(1.0f, root));
}

ACAN_FN void acan_blend(const acan_args* a, acan_i64 r, acan_i64 c) {
  const float left = acan_load(&a->m[1], r, c) * a->f[0];
  acan_store(&a->m[0], r, c, ACAN_FMA(acan_load(&a->m[2], r, c), a->f[1], left));
}

/* h of a norm whose statistics (mean, inverse) are those of the column. */
ACAN_FN float acan_column_h(const acan_args* a, acan_i64 r, acan_i64 c) {
  return (acan_load(&a->m[1], r, c) - acan_load(&a->m[2], 0, c)) * acan_load(&a->m[2], 1, c);
}

ACAN_FN void acan_column_norm(const acan_args* a, acan_i64 r, acan_i64 c) {
  const float h = acan_column_h(a, r, c);
  acan_store(&a->m[0], r, c, ACAN_FMA(h, acan_load(&a->m[3], 0, c), acan_load(&a->m[4], 0, c)));
}

ACAN_FN void acan_column_norm_gradient(const acan_args* a, acan_i64 r, acan_i64 c) {
  const float factor = acan_load(&a->m[4], 0, c) * acan_load(&a->m[2], 1, c);
  const float g = acan_load(&a->m[3], r, c) - acan_load(&a->m[6], 0, c);
  acan_store(&a->m[0], r, c,
             ACAN_FMA(-acan_column_h(a, r, c), acan_load(&a->m[5], 0, c), g) * factor);
}

/* min(1, limit / (norm + epsilon)); a NaN stays NaN. */
ACAN_FN void acan_clip_factor(const acan_args* a, acan_i64 r, acan_i64 c) {
  const float norm = ACAN_SQRT(acan_load(&a->m[1], r, c));
  const float factor = ACAN_DIV(a->f[0], norm + a->f[1]);
  acan_store(&a->m[0], r, c, factor >= 1.0f ? 1.0f : factor);
}

#endif /* ACAN_KERNELS_ELEMENTWISE_H */
