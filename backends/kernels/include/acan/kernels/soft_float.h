/* Correctly rounded division and square root from integer operations, for devices whose own are not
 * correctly rounded. Every step is exact; the end rounds once, to nearest even, also denormal
 * results. */
#ifndef ACAN_KERNELS_SOFT_FLOAT_H
#define ACAN_KERNELS_SOFT_FLOAT_H

/* value * 2^exponent, where a set lowest bit of `value` also stands for all that is below it.
 * REQUIRES: 2^24 <= value < 2^40. */
ACAN_FN acan_u32 acan_soft_round(acan_u64 value, acan_i32 exponent) {
  acan_i32 top = 24;
  acan_i32 shift;
  acan_u64 kept;
  acan_u64 rest;
  acan_u64 midpoint;
  while (value >> (top + 1)) ++top;
  if (top + exponent > 127) return 0x7f800000u;
  shift = top - 23;
  if (top + exponent < -126) shift += -126 - (top + exponent);
  if (shift > top + 1) return 0;
  kept = value >> shift;
  midpoint = (acan_u64)1 << (shift - 1);
  rest = value & (midpoint + midpoint - 1);
  if (rest > midpoint || (rest == midpoint && (kept & 1))) ++kept;
  /* A normal number's leading bit adds one to the exponent field, as does a carry into that
   * field. */
  if (top + exponent < -126) return (acan_u32)kept;
  return ((acan_u32)(top + exponent + 126) << 23) + (acan_u32)kept;
}

/* bits = m * 2^(*exponent), 2^23 <= m < 2^24. REQUIRES: finite, not 0, sign cleared. */
ACAN_FN acan_u32 acan_soft_split(acan_u32 bits, acan_i32* exponent) {
  acan_u32 m = bits & 0x007fffffu;
  acan_i32 e = (acan_i32)(bits >> 23) - 150;
  if (bits >> 23) {
    m |= 0x00800000u;
  } else {
    e = -149;
    while (!(m & 0x00800000u)) {
      m <<= 1;
      --e;
    }
  }
  *exponent = e;
  return m;
}

ACAN_FN float acan_soft_div(float a, float b) {
  const acan_u32 sign = (ACAN_AS_U32(a) ^ ACAN_AS_U32(b)) & 0x80000000u;
  const acan_u32 x = ACAN_AS_U32(a) & 0x7fffffffu;
  const acan_u32 y = ACAN_AS_U32(b) & 0x7fffffffu;
  acan_i32 x_exponent;
  acan_i32 y_exponent;
  acan_u64 dividend;
  acan_u64 divisor;
  acan_u64 quotient;
  if (x > 0x7f800000u || y > 0x7f800000u) return ACAN_AS_F32(0x7fc00000u);
  if (x == y && (x == 0 || x == 0x7f800000u)) return ACAN_AS_F32(0x7fc00000u);
  if (x == 0 || y == 0x7f800000u) return ACAN_AS_F32(sign);
  if (y == 0 || x == 0x7f800000u) return ACAN_AS_F32(sign | 0x7f800000u);
  dividend = (acan_u64)acan_soft_split(x, &x_exponent) << 32;
  divisor = acan_soft_split(y, &y_exponent);
  quotient = dividend / divisor;
  if (quotient * divisor != dividend) quotient |= 1;
  return ACAN_AS_F32(sign | acan_soft_round(quotient, x_exponent - y_exponent - 32));
}

ACAN_FN float acan_soft_sqrt(float x) {
  const acan_u32 bits = ACAN_AS_U32(x);
  acan_i32 exponent;
  acan_u64 square;
  acan_u64 root = 0;
  acan_u64 bit;
  if ((bits & 0x7fffffffu) == 0) return x;
  if (bits == 0x7f800000u) return x;
  if (bits > 0x7f800000u) return ACAN_AS_F32(0x7fc00000u);
  square = (acan_u64)acan_soft_split(bits, &exponent) << 32;
  if (exponent & 1) {
    square <<= 1;
    --exponent;
  }
  /* The root, of 28 or 29 bits, is found bit by bit. */
  for (bit = (acan_u64)1 << 28; bit; bit >>= 1) {
    if ((root | bit) * (root | bit) <= square) root |= bit;
  }
  if (root * root != square) root |= 1;
  return ACAN_AS_F32(acan_soft_round(root, exponent / 2 - 16));
}

#endif /* ACAN_KERNELS_SOFT_FLOAT_H */
