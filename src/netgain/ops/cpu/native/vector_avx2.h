// Eight floats: AVX2 with FMA and F16C. See vector_avx512.h.
#pragma once

#include <immintrin.h>

#include "formats.h"

namespace netgain {
namespace {

using F = __m256;
constexpr int kLanes = 8;
constexpr int kRegisters = 16;

inline F zero() { return _mm256_setzero_ps(); }
inline F set1(float x) { return _mm256_set1_ps(x); }
inline F load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, F x) { _mm256_storeu_ps(p, x); }
inline F add(F a, F b) { return _mm256_add_ps(a, b); }
inline F sub(F a, F b) { return _mm256_sub_ps(a, b); }
inline F mul(F a, F b) { return _mm256_mul_ps(a, b); }
inline F quotient(F a, F b) { return _mm256_div_ps(a, b); }  // for b >= 1
inline F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
inline F max(F a, F b) { return _mm256_max_ps(a, b); }
inline F min(F a, F b) { return _mm256_min_ps(a, b); }
inline F abs(F a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
inline F round(F a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline F power_of_two(F n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}
constexpr float kCounter = 12582912.0f;
inline F scale_by_counted(F x, F counted) {
  __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(counted), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), exponent));
}
inline float reduce_max(F a) {
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline float reduce_add(F a) {
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

inline __m256i first_lanes(int64_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline F load_first(const float* p, int64_t count, float fill) {
  __m256i mask = first_lanes(count);
  return _mm256_blendv_ps(_mm256_set1_ps(fill), _mm256_maskload_ps(p, mask), _mm256_castsi256_ps(mask));
}
inline void store_first(float* p, F x, int64_t count) { _mm256_maskstore_ps(p, first_lanes(count), x); }

using Mask = __m256;
inline Mask greater(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_GT_OQ); }
inline Mask greater_equal(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_GE_OQ); }
inline Mask equal(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
inline Mask both(Mask a, Mask b) { return _mm256_and_ps(a, b); }
inline F keep(F x, Mask mask) { return _mm256_and_ps(x, mask); }
inline uint32_t bits(Mask mask) { return static_cast<uint32_t>(_mm256_movemask_ps(mask)); }

// For each mask, its lanes in order, one a byte.
struct CompressedLanes {
  uint64_t of[256] = {};
  constexpr CompressedLanes() {
    for (int mask = 0; mask < 256; ++mask) {
      int count = 0;
      for (uint64_t lane = 0; lane < 8; ++lane) {
        if (mask >> lane & 1) of[mask] |= lane << 8 * count++;
      }
    }
  }
};
constexpr CompressedLanes kCompressedLanes;

inline int compress(float* p, F x, Mask mask) {
  uint32_t chosen = bits(mask);
  __m256i lanes = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(kCompressedLanes.of[chosen])));
  _mm256_storeu_ps(p, _mm256_permutevar8x32_ps(x, lanes));
  return __builtin_popcount(chosen);
}

struct Sums {
  __m256d low = _mm256_setzero_pd(), high = _mm256_setzero_pd();
};
inline void accumulate(Sums& sums, F x) {
  sums.low = _mm256_add_pd(sums.low, _mm256_cvtps_pd(_mm256_castps256_ps128(x)));
  sums.high = _mm256_add_pd(sums.high, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)));
}
inline double total(const Sums& sums) {
  __m256d four = _mm256_add_pd(sums.low, sums.high);
  __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

inline F load_fp16(const void* p) { return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p))); }
inline F load_bf16(const void* p) {
  return _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))), 16));
}
inline F load_int8(const void* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p))));
}
inline void store_fp16(void* p, F x) {
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline void store_int8(int8_t* p, F x) {
  __m256i words = _mm256_cvtps_epi32(x);
  __m128i halves = _mm_packs_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(halves, halves));
}
// What is added up so adds one product at a time: left alone, gcc adds products up in pairs, and keeps all of
// them on the stack until it does.
inline void keep_in_register(__m256i& sum) { __asm__("" : "+x"(sum)); }
// Four vectors by quads of lanes: the first of each pair of quads, and the second.
inline void split_quads(const F* x, F* first, F* second) {
  for (int i = 0; i < 2; ++i) {
    first[i] = _mm256_permute2f128_ps(x[2 * i], x[2 * i + 1], 0x20);
    second[i] = _mm256_permute2f128_ps(x[2 * i], x[2 * i + 1], 0x31);
  }
}
// The other way round, whole numbers in [-128, 127] to 32 bytes.
inline void store_quads(int8_t* p, const F* first, const F* second) {
  // Packing works in lanes of 128 bits, so both quads of a pair stay together.
  const __m256i low = _mm256_packs_epi32(_mm256_cvtps_epi32(first[0]), _mm256_cvtps_epi32(second[0]));
  const __m256i high = _mm256_packs_epi32(_mm256_cvtps_epi32(first[1]), _mm256_cvtps_epi32(second[1]));
  const __m256i pairs = _mm256_packs_epi16(low, high);  // 0, 2, 1, 3
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(pairs, 0xd8));
}
inline int32_t reduce_add_words(__m256i x) {
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}
inline int32_t reduce_add_int(F whole) { return reduce_add_words(_mm256_cvtps_epi32(whole)); }
#define NETGAIN_STORES_WORDS 1
// Four vectors of whole numbers q in [-2039, 2039] (rounded here) as 16-bit words in the order of
// formats.h: 0 2 1 3, 4 6 5 7, ... Returns the sum of q.
inline int32_t store_words(int8_t* p, F first, F second, F third, F fourth) {
  const __m256i a = _mm256_cvtps_epi32(first), b = _mm256_cvtps_epi32(second);
  const __m256i c = _mm256_cvtps_epi32(third), d = _mm256_cvtps_epi32(fourth);
  const __m256i order =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
  const auto put = [&](int8_t* to, __m256i x, __m256i y) {
    // Packing works in lanes of 128 bits: the middle quarters change places.
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x, y), 0xd8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_shuffle_epi8(words, order));
  };
  put(p, a, b);
  put(p + 32, c, d);
  return reduce_add_words(_mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d)));
}
inline void store_bf16(void* p, F x) {
  __m256i bits = _mm256_castps_si256(x);
  __m256i high = _mm256_srli_epi32(bits, 16);
  __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
  __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  rounded = _mm256_blendv_epi8(rounded, _mm256_or_si256(high, _mm256_set1_epi32(0x40)), nan);
  _mm_storeu_si128(static_cast<__m128i*>(p),
                   _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1)));
}
inline F keep(F x, int64_t begin, int64_t end, F other) {
  __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  __m256i before = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(begin)), lane);
  __m256i inside = _mm256_andnot_si256(before, _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(end)), lane));
  return _mm256_blendv_ps(other, x, _mm256_castsi256_ps(inside));
}

}  // namespace
}  // namespace netgain
