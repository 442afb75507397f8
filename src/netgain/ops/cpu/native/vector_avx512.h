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
inline F div(F a, F b) { return _mm512_div_ps(a, b); }
inline F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
inline F max(F a, F b) { return _mm512_max_ps(a, b); }
inline F min(F a, F b) { return _mm512_min_ps(a, b); }
inline F abs(F a) { return _mm512_abs_ps(a); }
inline F round(F a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline F sqrt(F a) { return _mm512_sqrt_ps(a); }
// 2 ** n for whole n in [-126, 127].
inline F power_of_two(F n) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23));
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
// x * 2 ** n, n being what was added to 1.5 * 2 ** 23 to give `shifted`; both x and the result are normal.
inline F add_exponent(F x, F shifted) {
  return _mm512_castsi512_ps(
      _mm512_add_epi32(_mm512_castps_si512(x), _mm512_slli_epi32(_mm512_castps_si512(shifted), 23)));
}

}  // namespace
}  // namespace netgain
