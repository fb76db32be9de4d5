/* Normally distributed random numbers, for initial weights. */
#ifndef ACAN_KERNELS_NORMAL_H
#define ACAN_KERNELS_NORMAL_H

/* cos(2 pi u) for u in [0, 1]: by the nearest quarter turn and Taylor's polynomial (2e-9) of the
 * remainder, which is exact and at most 1/8. */
ACAN_FN float acan_cos_of_turns(float u) {
  /* NOLINTNEXTLINE(bugprone-incorrect-roundings): u is not negative */
  const acan_i32 quarter = (acan_i32)(u * 4.0f + 0.5f);
  const float v = u - (float)quarter * 0.25f;
  const float w = v * v;
  float sine = 42.0586939f;
  float cosine = -26.4262568f;
  sine = ACAN_FMA(sine, w, -76.7058598f);
  sine = ACAN_FMA(sine, w, 81.6052493f);
  sine = ACAN_FMA(sine, w, -41.3417022f);
  sine = ACAN_FMA(sine, w, 6.28318531f) * v;
  cosine = ACAN_FMA(cosine, w, 60.2446414f);
  cosine = ACAN_FMA(cosine, w, -85.4568172f);
  cosine = ACAN_FMA(cosine, w, 64.939394f);
  cosine = ACAN_FMA(cosine, w, -19.7392088f);
  cosine = ACAN_FMA(cosine, w, 1.0f);
  {
    const float magnitude = (quarter & 1) ? sine : cosine;
    /* cos(x + pi/2) = -sin x, cos(x + pi) = -cos x, cos(x + 3 pi/2) = sin x. */
    return (((quarter + 1) & 2) != 0) ? -magnitude : magnitude;
  }
}

/* G. E. P. Box and M. E. Muller, A note on the generation of random normal deviates, 1958. */
ACAN_FN float acan_normal_of(acan_u32 radius, acan_u32 angle) {
  const float u = 1.0f - acan_unit_float(radius); /* in (0, 1] */
  return ACAN_SQRT(-2.0f * acan_log(u)) * acan_cos_of_turns(acan_unit_float(angle));
}

ACAN_FN void acan_normal(const acan_args* a, acan_i64 r, acan_i64 c) {
  const acan_u64 place = (acan_u64)((a->i[2] + r) * a->i[4] + a->i[3] + c);
  const acan_philox4 words = acan_philox((acan_u64)a->i[0], place, (acan_u64)a->i[1]);
  acan_store(&a->m[0], r, c, ACAN_FMA(a->f[1], acan_normal_of(words.v[0], words.v[1]), a->f[0]));
}

/* The largest number of draws; then the nearest end of the range is taken. */
#define ACAN_MOST_DRAWS 64

ACAN_FN void acan_truncated_normal(const acan_args* a, acan_i64 r, acan_i64 c) {
  const acan_u64 place = (acan_u64)((a->i[2] + r) * a->i[4] + a->i[3] + c);
  const float low = a->f[2], high = a->f[3];
  float x = 0.0f;
  int draw;
  for (draw = 0; draw < ACAN_MOST_DRAWS; ++draw) {
    const acan_u64 high_counter = (acan_u64)a->i[1] + ((acan_u64)draw << 32);
    const acan_philox4 words = acan_philox((acan_u64)a->i[0], place, high_counter);
    x = ACAN_FMA(a->f[1], acan_normal_of(words.v[0], words.v[1]), a->f[0]);
    if ((x >= low) & (x <= high)) break;
  }
  x = x < low ? low : x;
  acan_store(&a->m[0], r, c, x > high ? high : x);
}

#endif /* ACAN_KERNELS_NORMAL_H */
