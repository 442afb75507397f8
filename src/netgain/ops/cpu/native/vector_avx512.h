// Sixteen floats: AVX-512. Included once per instruction set, inside an anonymous namespace, so that
// nothing compiled for one processor can be linked into the code of another.
#pragma once

#include <immintrin.h>

#include "formats.h"

namespace netgain {
namespace {

using F = __m512;
constexpr int kLanes = 16;
constexpr int kRegisters = 32;  // that hold an F

inline F zero() { return _mm512_setzero_ps(); }
inline F set1(float x) { return _mm512_set1_ps(x); }
inline F load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, F x) { _mm512_storeu_ps(p, x); }
inline F add(F a, F b) { return _mm512_add_ps(a, b); }
inline F sub(F a, F b) { return _mm512_sub_ps(a, b); }
inline F mul(F a, F b) { return _mm512_mul_ps(a, b); }
// a / b for b >= 1, within 2 units in the last place; 0 where the quotient is denormal.
inline F quotient(F a, F b) {
  const F r = _mm512_rcp14_ps(b);
  return _mm512_mul_ps(a, _mm512_mul_ps(r, _mm512_fnmadd_ps(b, r, _mm512_set1_ps(2.0f))));
}
inline F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
inline F max(F a, F b) { return _mm512_max_ps(a, b); }
inline F min(F a, F b) { return _mm512_min_ps(a, b); }
inline F abs(F a) { return _mm512_abs_ps(a); }
inline F round(F a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
// 2 ** n for whole n in [-126, 127].
inline F power_of_two(F n) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23));
}
// x * 2 ** k, where k = `counted` - kCounter is whole and the result in range: an addition of that
// constant rounds to a whole number and leaves it in the low bits.
constexpr float kCounter = 12582912.0f;  // 1.5 * 2 ** 23
inline F scale_by_counted(F x, F counted) {
  __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(counted), 23);
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x), exponent));
}
inline float reduce_max(F a) { return _mm512_reduce_max_ps(a); }

// Lanes i and i + 8, then + 4, + 2, + 1: the same order on every instruction set.
inline float reduce_add(F a) {
  __m256 low = _mm512_castps512_ps256(a), high = _mm512_extractf32x8_ps(a, 1);
  __m256 eight = _mm256_add_ps(low, high);
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// The first `count` < kLanes lanes from memory, `fill` in the others; nothing behind them is touched.
inline F load_first(const float* p, int64_t count, float fill) {
  return _mm512_mask_loadu_ps(_mm512_set1_ps(fill), static_cast<__mmask16>((1u << count) - 1), p);
}
inline void store_first(float* p, F x, int64_t count) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1), x);
}

// A truth value per lane. Comparisons with a NaN are false.
using Mask = __mmask16;
inline Mask greater(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
inline Mask greater_equal(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
inline Mask equal(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
inline Mask both(Mask a, Mask b) { return static_cast<Mask>(a & b); }
inline F keep(F x, Mask mask) { return _mm512_maskz_mov_ps(mask, x); }  // 0 in the other lanes
inline uint32_t bits(Mask mask) { return mask; }                        // bit i: lane i
// Stores the lanes of the mask next to each other and returns how many they are; what lies behind
// them, up to kLanes floats, is overwritten.
inline int compress(float* p, F x, Mask mask) {
  // To a register first: storing under a mask is slow on some processors.
  _mm512_storeu_ps(p, _mm512_maskz_compress_ps(mask, x));
  return __builtin_popcount(mask);
}

// Sums in double precision, lane by lane.
struct Sums {
  __m512d low = _mm512_setzero_pd(), high = _mm512_setzero_pd();
};
inline void accumulate(Sums& sums, F x) {
  sums.low = _mm512_add_pd(sums.low, _mm512_cvtps_pd(_mm512_castps512_ps256(x)));
  sums.high = _mm512_add_pd(sums.high, _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)));
}
inline double total(const Sums& sums) {
  __m512d eight = _mm512_add_pd(sums.low, sums.high);
  __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
  __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

inline F load_fp16(const void* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p))); }
inline F load_bf16(const void* p) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p))), 16));
}
inline F load_int8(const void* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))));
}
inline void store_fp16(void* p, F x) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
// Whole numbers in [-128, 127] to bytes.
inline void store_int8(int8_t* p, F x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x)));
}
inline int32_t reduce_add_int(F whole) { return _mm512_reduce_add_epi32(_mm512_cvtps_epi32(whole)); }
// Two vectors by quads of lanes: the first of each pair of quads, and the second.
inline void split_quads(const F* x, F* first, F* second) {
  constexpr int even = 0x88, odd = 0xdd;  // quarters of both operands
  *first = _mm512_shuffle_f32x4(x[0], x[1], even);
  *second = _mm512_shuffle_f32x4(x[0], x[1], odd);
}
// The other way round, whole numbers in [-128, 127] to 32 bytes.
inline void store_quads(int8_t* p, const F* first, const F* second) {
  const __m128i a = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(*first));
  const __m128i b = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(*second));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_unpacklo_epi32(a, b));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 16), _mm_unpackhi_epi32(a, b));
}
#define NETGAIN_STORES_PLANES 1
// Two vectors of whole numbers q in [-2039, 2039] (rounded here) as bytes: 32 of `high`, then 32 of
// `low`, where q = 16 * high + low. Returns the sum of q.
inline int32_t store_planes(int8_t* p, F first, F second) {
  const __m512i eight = _mm512_set1_epi32(8), lowest = _mm512_set1_epi32(15);
  const __m512i a = _mm512_cvtps_epi32(first), b = _mm512_cvtps_epi32(second);
  const __m512i c = _mm512_add_epi32(a, eight), d = _mm512_add_epi32(b, eight);
  const __m512i high = _mm512_packs_epi32(_mm512_srai_epi32(c, 4), _mm512_srai_epi32(d, 4));
  const __m512i low = _mm512_packs_epi32(_mm512_sub_epi32(_mm512_and_si512(c, lowest), eight),
                                         _mm512_sub_epi32(_mm512_and_si512(d, lowest), eight));
  // Packing works in lanes of 128 bits: four bytes of each of the four go side by side.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  _mm512_storeu_si512(p, _mm512_permutexvar_epi32(order, _mm512_packs_epi16(high, low)));
  return _mm512_reduce_add_epi32(_mm512_add_epi32(a, b));
}
// Nearest, ties to even.
inline void store_bf16(void* p, F x) {
  __m512i bits = _mm512_castps_si512(x);
  __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
  __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  rounded = _mm512_mask_or_epi32(rounded, nan, _mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x40));
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtepi32_epi16(rounded));
}
// Lanes begin .. end - 1 of x, elsewhere `other`; begin and end may lie outside of the lanes.
inline F keep(F x, int64_t begin, int64_t end, F other) {
  __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __mmask16 inside = _mm512_cmpge_epi32_mask(lane, _mm512_set1_epi32(static_cast<int32_t>(begin))) &
                     _mm512_cmplt_epi32_mask(lane, _mm512_set1_epi32(static_cast<int32_t>(end)));
  return _mm512_mask_blend_ps(inside, other, x);
}

}  // namespace
}  // namespace netgain
