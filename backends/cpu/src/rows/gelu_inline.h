// gelu with AVX-512. Included once, inside the anonymous namespace of that instruction set's unit.
// The single source (acan_normal_cdf in kernels/math.h) defines what is computed; this computes the
// same bits.
//
// What takes time are the two units that multiply and compare. So one chain of fma serves both
// polynomials, where each lane has the coefficients of its own, and other units do what they can:
// they bound |z| and scale by the power of two.
//
//   lanes with |z| >= 1   ratio_8  ratio_7  ratio_6  ratio_5  ratio_4   ..  ratio_0    in t
//   the others            center_5    -        -        -     center_4  ..  center_0   in z^2
//
// Two vectors are computed side by side, while the next two are divided, since everything else
// waits for the division.

constexpr int kGeluVecs = 2;
constexpr int64_t kGeluFloats = kGeluVecs * Vec::kWidth;

// All lanes, for intrinsics whose plain form makes gcc 12 warn of an uninitialised operand.
constexpr __mmask16 kLanes = 0xffff;

ACAN_INLINE __m512 All(float x) {
  return _mm512_set1_ps(x);
}
ACAN_INLINE __m512i Bits(__m512 x) {
  return _mm512_castps_si512(x);
}

// Everything up to the division.
struct GeluHead {
  __m512 z[kGeluVecs];
  __m512 bounded[kGeluVecs];
  __m512 inverse[kGeluVecs];
};

ACAN_INLINE GeluHead HeadOfGelu(const float* z) {
  constexpr int kLessMagnitude = 0b1010;  // the other operand for NaN
  GeluHead h;
  ACAN_UNROLL for (int i = 0; i < kGeluVecs; ++i) {
    h.z[i] = _mm512_loadu_ps(z + i * Vec::kWidth);
    h.bounded[i] = _mm512_range_ps(h.z[i], All(ACAN_GAUSS_BOUND), kLessMagnitude);
    h.inverse[i] = _mm512_div_ps(All(1.0f), _mm512_add_ps(h.bounded[i], All(2.0f)));
  }
  return h;
}

struct GeluSums {
  __mmask16 small[kGeluVecs];  // lanes with |z| < 1
  __m512 u[kGeluVecs];         // z^2
  __m512 at[kGeluVecs];        // t, later z^2 in small lanes
  __m512 value[kGeluVecs];     // of the polynomials in t and z^2
  __m512 r[kGeluVecs];         // as in acan_gauss
  __m512 gauss[kGeluVecs];
};

ACAN_INLINE void StepRatio(GeluSums& s, float ratio) {
  ACAN_UNROLL for (int i = 0; i < kGeluVecs; ++i) {
    s.value[i] = _mm512_mask_fmadd_ps(s.value[i], _mm512_knot(s.small[i]), s.at[i], All(ratio));
  }
}
ACAN_INLINE void StepBoth(GeluSums& s, float ratio, float center) {
  ACAN_UNROLL for (int i = 0; i < kGeluVecs; ++i) {
    const __m512 next = _mm512_mask_blend_ps(s.small[i], All(ratio), All(center));
    s.value[i] = _mm512_fmadd_ps(s.value[i], s.at[i], next);
  }
}
ACAN_INLINE void StepGauss(GeluSums& s, float coefficient) {
  ACAN_UNROLL for (int i = 0; i < kGeluVecs; ++i) {
    s.gauss[i] = _mm512_fmadd_ps(s.gauss[i], s.r[i], All(coefficient));
  }
}

// -e^(-z^2 / 2) in `gauss`, as acan_gauss computes it, and both polynomials in `value`.
ACAN_INLINE void SumGelu(const GeluHead& h, GeluSums& s) {
  constexpr float kRounder = ACAN_ROUNDER + 64.0f;
  __m512 shifted[kGeluVecs];
  ACAN_UNROLL for (int i = 0; i < kGeluVecs; ++i) {
    s.u[i] = _mm512_mul_ps(h.bounded[i], h.bounded[i]);
    s.small[i] = _mm512_cmp_ps_mask(h.bounded[i], All(1.0f), _CMP_LT_OQ);
    shifted[i] = _mm512_fmadd_ps(s.u[i], All(-0.5f * 1.44269502f), All(kRounder));
    s.at[i] = _mm512_mul_ps(_mm512_sub_ps(h.bounded[i], All(2.0f)), h.inverse[i]);
    s.value[i] = _mm512_mask_blend_ps(s.small[i], All(ACAN_RATIO_8), All(ACAN_CENTER_5));
  }
  StepRatio(s, ACAN_RATIO_7);
  StepRatio(s, ACAN_RATIO_6);
  StepRatio(s, ACAN_RATIO_5);
  ACAN_UNROLL for (int i = 0; i < kGeluVecs; ++i) {
    const __m512 n = _mm512_sub_ps(shifted[i], All(kRounder));
    const __m512 r0 = _mm512_fmadd_ps(n, All(2.0f * 0.693145752f), s.u[i]);
    const __m512 tail = _mm512_fmsub_ps(h.bounded[i], h.bounded[i], s.u[i]);
    s.r[i] = _mm512_add_ps(_mm512_fmadd_ps(n, All(2.0f * 1.42860677e-06f), r0), tail);
    s.at[i] = _mm512_mask_mov_ps(s.at[i], s.small[i], s.u[i]);
    s.gauss[i] = All(ACAN_EXP_4 / -32.0f);
  }
  StepBoth(s, ACAN_RATIO_4, ACAN_CENTER_4);
  StepGauss(s, ACAN_EXP_3 / 16.0f);
  StepBoth(s, ACAN_RATIO_3, ACAN_CENTER_3);
  StepGauss(s, ACAN_EXP_2 / -8.0f);
  StepBoth(s, ACAN_RATIO_2, ACAN_CENTER_2);
  StepGauss(s, ACAN_EXP_1 / 4.0f);
  StepBoth(s, ACAN_RATIO_1, ACAN_CENTER_1);
  StepGauss(s, ACAN_EXP_0 / -2.0f);
  StepBoth(s, ACAN_RATIO_0, ACAN_CENTER_0);
  ACAN_UNROLL for (int i = 0; i < kGeluVecs; ++i) {
    const __m512 r = s.r[i];
    const __m512 p = _mm512_fmadd_ps(_mm512_mul_ps(s.gauss[i], r), r, r);
    // p - 2 is -2 times the mantissa.
    s.gauss[i] = _mm512_maskz_scalef_ps(kLanes, _mm512_sub_ps(p, All(2.0f)),
                                        _mm512_sub_ps(shifted[i], All(kRounder + 1.0f)));
  }
}

ACAN_INLINE void FinishGelu(const GeluHead& h, float* out) {
  constexpr int kMagnitudeAndSign = 0xd8;  // the first operand with the second one's sign
  const __m512i sign = _mm512_set1_epi32(INT32_MIN);
  GeluSums s;
  SumGelu(h, s);
  ACAN_UNROLL for (int i = 0; i < kGeluVecs; ++i) {
    const __m512 tail = _mm512_mul_ps(_mm512_mul_ps(s.value[i], h.inverse[i]), s.gauss[i]);
    const __m512 upper = _mm512_castsi512_ps(
        _mm512_ternarylogic_epi32(Bits(tail), Bits(h.z[i]), sign, kMagnitudeAndSign));
    const __m512i negative = _mm512_maskz_srai_epi32(kLanes, Bits(h.z[i]), 31);
    const __m512 one =
        _mm512_castsi512_ps(_mm512_maskz_andnot_epi32(kLanes, negative, Bits(All(1.0f))));
    const __m512 center = _mm512_fmadd_ps(s.value[i], h.z[i], All(0.5f));
    const __m512 cdf = _mm512_mask_mov_ps(_mm512_sub_ps(one, upper), s.small[i], center);
    Vec::Store(out + i * Vec::kWidth, Vec::Canonical({_mm512_mul_ps(h.z[i], cdf)}));
  }
}

// out = gelu(z), in place or apart.
void GeluOfRow(const float* z, float* out, int64_t count) {
  int64_t c = 0;
  if (count >= kGeluFloats) {
    GeluHead head = HeadOfGelu(z);
    for (; c + 2 * kGeluFloats <= count; c += kGeluFloats) {
      const GeluHead next = HeadOfGelu(z + c + kGeluFloats);
      // Otherwise gcc moves the division behind what does not need it.
      asm volatile("" : : "v"(next.inverse[0]), "v"(next.inverse[1]));
      FinishGelu(head, out + c);
      head = next;
    }
    FinishGelu(head, out + c);
    c += kGeluFloats;
  }
  if (c == count) return;
  alignas(64) float rest[kGeluFloats] = {};
  Copy(rest, z + c, count - c);
  FinishGelu(HeadOfGelu(rest), rest);
  Copy(out + c, rest, count - c);
}

// The call of kActivation for gelu, over a region.
void RunGelu(const acan_args& a, const Region& region) {
  const acan_matrix& out = a.m[0];
  const acan_matrix& z = a.m[1];
  const int64_t count = region.col_end - region.col_begin;
  for (int64_t r = region.row_begin; r < region.row_end; ++r) {
    GeluOfRow(z.data + r * z.stride + region.col_begin,
              out.data + r * out.stride + region.col_begin, count);
  }
}
