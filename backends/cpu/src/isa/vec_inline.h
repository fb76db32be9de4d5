// Vec: a vector register of floats, and the largest tile whose sums fit into the registers.

#if defined(__AVX512F__)

struct Vec {
  static constexpr int kWidth = 16;
  __m512 v;
  ACAN_METHOD Vec Zero() { return {_mm512_setzero_ps()}; }
  ACAN_METHOD Vec Load(const float* from) { return {_mm512_loadu_ps(from)}; }
  ACAN_METHOD void Store(float* to, Vec x) { _mm512_storeu_ps(to, x.v); }
  ACAN_METHOD Vec Broadcast(const float* from) { return {_mm512_set1_ps(*from)}; }
  // From the intrinsic, gcc 12 makes code that moves sums between registers and spills some of
  // them. That costs up to a tenth of the speed, and with AVX2, where gcc also loads factors once
  // for each use, up to a fifth.
  ACAN_METHOD void Fma(Vec& sum, Vec a, Vec b) {
    asm("vfmadd231ps %2, %1, %0" : "+v"(sum.v) : "v"(a.v), "v"(b.v));
  }
  ACAN_METHOD Vec Add(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
  ACAN_METHOD Vec Canonical(Vec x) {
    const __mmask16 nan = _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q);
    return {_mm512_mask_mov_ps(x.v, nan, _mm512_set1_ps(ACAN_NAN))};
  }
};
constexpr int kTileRows = 12;
constexpr int kTileVecs = 2;

#elif defined(__AVX2__)

struct Vec {
  static constexpr int kWidth = 8;
  __m256 v;
  ACAN_METHOD Vec Zero() { return {_mm256_setzero_ps()}; }
  ACAN_METHOD Vec Load(const float* from) { return {_mm256_loadu_ps(from)}; }
  ACAN_METHOD void Store(float* to, Vec x) { _mm256_storeu_ps(to, x.v); }
  ACAN_METHOD Vec Broadcast(const float* from) { return {_mm256_broadcast_ss(from)}; }
  ACAN_METHOD void Fma(Vec& sum, Vec a, Vec b) {
    asm("vfmadd231ps %2, %1, %0" : "+x"(sum.v) : "x"(a.v), "x"(b.v));
  }
  ACAN_METHOD Vec Add(Vec a, Vec b) { return {_mm256_add_ps(a.v, b.v)}; }
  ACAN_METHOD Vec Canonical(Vec x) {
    const __m256 nan = _mm256_cmp_ps(x.v, x.v, _CMP_UNORD_Q);
    return {_mm256_blendv_ps(x.v, _mm256_set1_ps(ACAN_NAN), nan)};
  }
};
// Seven loads for twelve fma; six rows of two vectors would take eight.
constexpr int kTileRows = 4;
constexpr int kTileVecs = 3;

#else

// One float. Without an fma instruction, each fma is a call of the C library's fmaf, which is
// exact.
struct Vec {
  static constexpr int kWidth = 1;
  float v;
  ACAN_METHOD Vec Zero() { return {0.0f}; }
  ACAN_METHOD Vec Load(const float* from) { return {*from}; }
  ACAN_METHOD void Store(float* to, Vec x) { *to = x.v; }
  ACAN_METHOD Vec Broadcast(const float* from) { return {*from}; }
  ACAN_METHOD void Fma(Vec& sum, Vec a, Vec b) { sum.v = __builtin_fmaf(a.v, b.v, sum.v); }
  ACAN_METHOD Vec Add(Vec a, Vec b) { return {a.v + b.v}; }
  ACAN_METHOD Vec Canonical(Vec x) { return {x.v == x.v ? x.v : ACAN_NAN}; }
};
constexpr int kTileRows = 4;
constexpr int kTileVecs = 2;

#endif

constexpr int kTileCols = kTileVecs * Vec::kWidth;
constexpr int kTileFloats = kTileRows * kTileCols;
constexpr int64_t kChunk = 256;             // most k of one pass over packed panels; a power of two
constexpr int kInnerLevels = 4;             // kChunk / 16 leaves
constexpr int64_t kRowPitch = kChunk + 16;  // of P by rows: neighbours are in other cache sets
