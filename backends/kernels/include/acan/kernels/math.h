/* exp, log, tanh, the logistic function and the normal distribution for fp32, from additions,
 * multiplications, fma, correctly rounded division and bit patterns alone, so that every device
 * computes the same bits. There are no branches on data (only selects), so compilers may vectorise.
 *
 * Polynomials are minimax fits (Remez, relative error) in double, rounded to fp32; the error of
 * each fit stands beside it. Denormal results are kept. A NaN argument gives some NaN; exp and log
 * give the NaN that acan_store stores. tests/backends/kernel_math_test.cpp bounds the errors
 * against float64.
 *
 * Includers define ACAN_FN, ACAN_FMA, ACAN_DIV, ACAN_AS_U32 and ACAN_AS_F32 (see prelude.h). */
#ifndef ACAN_KERNELS_MATH_H
#define ACAN_KERNELS_MATH_H

#define ACAN_NAN ACAN_AS_F32(0x7fc00000u)

/* Adding 1.5 * 2^23 rounds to the nearest integer n, which is then in the low bits. An even number
 * added to this constant adds to n and changes no rounding. */
#define ACAN_ROUNDER 12582912.0f

/* Coefficients of (e^r - 1 - r) / r^2, 3.3e-9. */
#define ACAN_EXP_4 0.00138131471f
#define ACAN_EXP_3 0.00836941879f
#define ACAN_EXP_2 0.041668456f
#define ACAN_EXP_1 0.166665152f
#define ACAN_EXP_0 0.49999994f

/* e^(y + tail) / 2^n for a tiny tail (|tail| < 2^-10), which carries what y lost to rounding; n is
 * given as a float. In [0.7, 1.42] for |y| < 110. */
ACAN_FN float acan_exp_mantissa(float y, float tail, float n) {
  /* ln 2 in two parts; the product with the first is exact for |n| < 2^9. */
  const float r0 = ACAN_FMA(n, -0.693145752f, y);
  const float r = ACAN_FMA(n, -1.42860677e-06f, r0) + tail;
  float p = ACAN_EXP_4;
  p = ACAN_FMA(p, r, ACAN_EXP_3);
  p = ACAN_FMA(p, r, ACAN_EXP_2);
  p = ACAN_FMA(p, r, ACAN_EXP_1);
  p = ACAN_FMA(p, r, ACAN_EXP_0);
  return ACAN_FMA(p * r, r, r) + 1.0f;
}

/* x * 2^n, with n in the lower nine bits of a word, where x and the result are normal numbers. */
ACAN_FN float acan_scale_by_power(float x, acan_u32 n) {
  return ACAN_AS_F32(ACAN_AS_U32(x) + (n << 23));
}

/* e^(y + tail) for y in [-104.5, 89.5]; some NaN for NaN. */
ACAN_FN float acan_exp_in_range(float y, float tail) {
  const float shifted = ACAN_FMA(y, 1.44269502f, ACAN_ROUNDER);
  const float p = acan_exp_mantissa(y, tail, shifted - ACAN_ROUNDER);
  /* 2^n is multiplied in two exact halves, so that only the last product rounds when it is
   * denormal. The bits of ACAN_ROUNDER are even and vanish in the shift. */
  const acan_u32 n = ACAN_AS_U32(shifted);
  const acan_u32 first = n >> 1;
  return acan_scale_by_power(p, first) * acan_scale_by_power(1.0f, n - first);
}

/* The same for any x. Beyond the clamps the result is 0 or infinity in any case. */
ACAN_FN float acan_exp_with_tail(float x, float tail) {
  float y = x > 89.5f ? 89.5f : x;
  y = y < -104.5f ? -104.5f : y;
  y = acan_exp_in_range(y, tail);
  return x == x ? y : ACAN_NAN;
}

ACAN_FN float acan_abs(float x) {
  return ACAN_AS_F32(ACAN_AS_U32(x) & 0x7fffffffu);
}

/* min(|x|, most), most > 0; `most` for NaN. The values are compared as integers, which compilers
 * turn into a minimum; a select of floats becomes, with some, a select of each value that depends
 * on it. */
ACAN_FN float acan_bounded_abs(float x, float most) {
  const acan_u32 y = ACAN_AS_U32(x) & 0x7fffffffu;
  const acan_u32 bound = ACAN_AS_U32(most);
  return ACAN_AS_F32(y < bound ? y : bound);
}

/* e^(y + tail) for y in [-104.5, 0]. Only the last product rounds. */
ACAN_FN float acan_exp_of_negative(float y, float tail) {
  const float rounder = ACAN_ROUNDER + 64.0f;
  const float shifted = ACAN_FMA(y, 1.44269502f, rounder);
  const float p = acan_exp_mantissa(y, tail, shifted - rounder);
  return acan_scale_by_power(p, ACAN_AS_U32(shifted)) * 5.42101086e-20f; /* 2^-64 */
}

/* e^y for y in [0, 89.5]. */
ACAN_FN float acan_exp_of_positive(float y) {
  const float rounder = ACAN_ROUNDER - 2.0f;
  const float shifted = ACAN_FMA(y, 1.44269502f, rounder);
  const float p = acan_exp_mantissa(y, 0.0f, shifted - rounder);
  return acan_scale_by_power(p, ACAN_AS_U32(shifted)) * 4.0f;
}

ACAN_FN float acan_exp(float x) {
  return acan_exp_with_tail(x, 0.0f);
}

/* Natural logarithm: -infinity at 0, NaN below. */
ACAN_FN float acan_log(float x) {
  const int small = x < 1.17549435e-38f;
  const float scaled = small ? x * 8388608.0f : x;
  /* m in [sqrt(1/2), sqrt(2)), x = m * 2^e. */
  const acan_u32 bits = ACAN_AS_U32(scaled) - 0x3f3504f3u;
  const acan_i32 e = (acan_i32)(bits >> 23) - ((bits >> 31) ? 512 : 0) - (small ? 23 : 0);
  const float m = ACAN_AS_F32((bits & 0x007fffffu) + 0x3f3504f3u);
  const float f = m - 1.0f;
  const float e_float = (float)e;
  float p = -0.0762293264f; /* (log(1 + f) - f) / f^2, 4.1e-9 */
  float result;
  p = ACAN_FMA(p, f, 0.129063234f);
  p = ACAN_FMA(p, f, -0.132434726f);
  p = ACAN_FMA(p, f, 0.141815811f);
  p = ACAN_FMA(p, f, -0.166089997f);
  p = ACAN_FMA(p, f, 0.200019836f);
  p = ACAN_FMA(p, f, -0.250015855f);
  p = ACAN_FMA(p, f, 0.333333254f);
  p = ACAN_FMA(p, f, -0.499999881f);
  result = ACAN_FMA(e_float, 1.42860677e-06f, p * f * f);
  result = ACAN_FMA(e_float, 0.693145752f, f + result);
  result = x > 3.40282347e+38f ? x : result;
  result = x == 0.0f ? -ACAN_AS_F32(0x7f800000u) : result;
  return x >= 0.0f ? result : ACAN_NAN;
}

ACAN_FN float acan_copy_sign(float magnitude, float sign) {
  return ACAN_AS_F32(ACAN_AS_U32(magnitude) | (ACAN_AS_U32(sign) & 0x80000000u));
}

ACAN_FN float acan_tanh(float x) {
  const float y = acan_abs(x);
  const float u = x * x;
  const float bounded = acan_bounded_abs(x, 44.75f);
  const float large = 1.0f - ACAN_DIV(2.0f, acan_exp_of_positive(bounded + bounded) + 1.0f);
  float p = -0.00628252421f; /* (tanh(x) / x - 1) / x^2 in x^2, 1e-9 */
  float small;
  p = ACAN_FMA(p, u, 0.0210777987f);
  p = ACAN_FMA(p, u, -0.0538538694f);
  p = ACAN_FMA(p, u, 0.133326024f);
  p = ACAN_FMA(p, u, -0.333333194f);
  small = ACAN_FMA(p * u, y, y);
  return acan_copy_sign(y >= 0.55f ? large : small, x);
}

/* 1 / (1 + e^-x) without overflow and with its denormal tail. Some number for NaN, for callers that
 * multiply the result by x. */
ACAN_FN float acan_gate(float x) {
  const float e = acan_exp_of_negative(-acan_bounded_abs(x, 104.5f), 0.0f);
  const float numerator = x < 0.0f ? e : 1.0f;
  return ACAN_DIV(numerator, 1.0f + e);
}

/* The same, but NaN for NaN. */
ACAN_FN float acan_sigmoid(float x) {
  const float gate = acan_gate(x);
  return x == x ? gate : ACAN_NAN;
}

/* From here on e^(-x^2 / 2) is 0. */
#define ACAN_GAUSS_BOUND 14.45f

ACAN_FN float acan_gauss_bound(float x) {
  return acan_bounded_abs(x, ACAN_GAUSS_BOUND);
}

/* e^(-x^2 / 2) of a bounded |x|. The rounding of x^2 is carried along; without it the error would
 * be 2^-24 * x^2 / 2. This is acan_exp_of_negative of -u / 2, u = x^2, with everything that is
 * linear in its argument multiplied by -2, which gives the same bits and saves a product. */
ACAN_FN float acan_gauss(float bounded) {
  const float u = bounded * bounded;
  const float tail = ACAN_FMA(bounded, bounded, -u);
  const float rounder = ACAN_ROUNDER + 64.0f;
  const float shifted = ACAN_FMA(u, -0.5f * 1.44269502f, rounder);
  const float n = shifted - rounder;
  const float r0 = ACAN_FMA(n, 2.0f * 0.693145752f, u);
  const float r = ACAN_FMA(n, 2.0f * 1.42860677e-06f, r0) + tail;
  float p = ACAN_EXP_4 / -32.0f;
  p = ACAN_FMA(p, r, ACAN_EXP_3 / 16.0f);
  p = ACAN_FMA(p, r, ACAN_EXP_2 / -8.0f);
  p = ACAN_FMA(p, r, ACAN_EXP_1 / 4.0f);
  p = ACAN_FMA(p, r, ACAN_EXP_0 / -2.0f);
  p = ACAN_FMA(p * r, r, r) - 2.0f;
  return acan_scale_by_power(p, ACAN_AS_U32(shifted)) * -2.71050543e-20f; /* -2^-65 */
}

/* The normal distribution's density; some number for NaN. */
ACAN_FN float acan_normal_density(float x) {
  return 0.398942292f * acan_gauss(acan_gauss_bound(x));
}

/* Coefficients of (Phi(x) - 1/2) / x in x^2, |x| <= 1, 2.6e-10. */
#define ACAN_CENTER_5 -7.66467929e-06f
#define ACAN_CENTER_4 0.000113512659f
#define ACAN_CENTER_3 -0.00118635304f
#define ACAN_CENTER_2 0.00997333135f
#define ACAN_CENTER_1 -0.0664903596f
#define ACAN_CENTER_0 0.398942292f

/* Coefficients of (1 - Phi(y)) * e^(y^2 / 2) * (y + 2) in t = (y - 2) / (y + 2), y in [1, 14.6],
 * 1.4e-8. */
#define ACAN_RATIO_8 0.000386414584f
#define ACAN_RATIO_7 0.00134473492f
#define ACAN_RATIO_6 -0.00202609715f
#define ACAN_RATIO_5 -0.00682325847f
#define ACAN_RATIO_4 -0.000445791869f
#define ACAN_RATIO_3 0.0367236212f
#define ACAN_RATIO_2 0.0287961364f
#define ACAN_RATIO_1 -0.331404537f
#define ACAN_RATIO_0 0.672407985f

/* The normal distribution Phi(x) = (1 + erf(x / sqrt(2))) / 2, accurate in both tails; some
 * number for NaN. */
ACAN_FN float acan_normal_cdf(float x) {
  const float bounded = acan_gauss_bound(x);
  const float inverse = ACAN_DIV(1.0f, bounded + 2.0f);
  const float t = (bounded - 2.0f) * inverse;
  const float u = bounded * bounded;
  float center = ACAN_CENTER_5;
  float ratio = ACAN_RATIO_8;
  /* 1 for x >= 0, else 0, computed without a comparison, which compilers would repeat for each
   * use. */
  const acan_i32 bits = (acan_i32)ACAN_AS_U32(x);
  const float one = ACAN_AS_F32(0x3f800000u & ~(acan_u32)(bits >> 31));
  float upper;
  center = ACAN_FMA(center, u, ACAN_CENTER_4);
  center = ACAN_FMA(center, u, ACAN_CENTER_3);
  center = ACAN_FMA(center, u, ACAN_CENTER_2);
  center = ACAN_FMA(center, u, ACAN_CENTER_1);
  center = ACAN_FMA(center, u, ACAN_CENTER_0);
  ratio = ACAN_FMA(ratio, t, ACAN_RATIO_7);
  ratio = ACAN_FMA(ratio, t, ACAN_RATIO_6);
  ratio = ACAN_FMA(ratio, t, ACAN_RATIO_5);
  ratio = ACAN_FMA(ratio, t, ACAN_RATIO_4);
  ratio = ACAN_FMA(ratio, t, ACAN_RATIO_3);
  ratio = ACAN_FMA(ratio, t, ACAN_RATIO_2);
  ratio = ACAN_FMA(ratio, t, ACAN_RATIO_1);
  ratio = ACAN_FMA(ratio, t, ACAN_RATIO_0);
  upper = acan_copy_sign(ratio * inverse * acan_gauss(bounded), x);
  return bounded < 1.0f ? ACAN_FMA(center, x, 0.5f) : one - upper;
}

#endif /* ACAN_KERNELS_MATH_H */
