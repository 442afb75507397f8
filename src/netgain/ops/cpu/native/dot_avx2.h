// Products on AVX2: of 4-bit weights pairs of bytes that add up in 16 bits, of 8-bit weights 16-bit words.
#pragma once

namespace netgain {
namespace {

inline __m256i add_pairs(__m256i total, __m256i weights, __m256i pair) {
  return _mm256_add_epi32(total, _mm256_madd_epi16(weights, pair));
}

// The products of a quad of input features, two sums of 16 bits for each output.
inline __m256i quad_products(__m256i weights, const int8_t* quad) {
  int32_t bits;
  __builtin_memcpy(&bits, quad, sizeof bits);
  return _mm256_maddubs_epi16(weights, _mm256_set1_epi32(bits));
}

inline void add_quad(__m256i& total, __m256i weights, const int8_t* quad) {
  total = _mm256_add_epi16(total, quad_products(weights, quad));
  keep_in_register(total);
}

// total[r] = dot product of a block and row r of the activations, which are rounded in pairs, exact.
template <WeightFormat W, int R>
inline void nibble_dots(const uint8_t* weights, const int8_t* values, const int32_t* offsets, __m256i* total) {
  static_assert(16 * 15 * 128 < 1 << 15 && 8 * (15 + 7 * 15) * 32 < 1 << 15, "sums fit 16 bits");
  const __m256i nibbles = _mm256_set1_epi8(0x0f), eights = _mm256_set1_epi8(0x78);
  __m256i shared[4];
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights + 64 * q));
    const __m256i first = _mm256_and_si256(both, nibbles);
    const __m256i second = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibbles);
    // first + 7 * second
    const __m256i eightfold = _mm256_and_si256(_mm256_srli_epi16(both, 1), eights);
    shared[q] = _mm256_add_epi8(first, _mm256_sub_epi8(eightfold, second));
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const int8_t* quads = values + r * kBlockValues + 8 * q;
      if (q == 0) {
        total[r] = quad_products(first, quads);
      } else {
        add_quad(total[r], first, quads);
      }
      add_quad(total[r], second, quads + 4);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const int8_t* quads = values + r * kBlockValues + kPlane;
    __m256i low = quad_products(shared[0], quads);
#pragma GCC unroll 4
    for (int q = 1; q < 4; ++q) add_quad(low, shared[q], quads + 4 * q);
    const __m256i high = _mm256_madd_epi16(total[r], _mm256_set1_epi16(64));
    total[r] = _mm256_add_epi32(high, _mm256_madd_epi16(low, _mm256_set1_epi16(1)));
    keep_in_register(total[r]);
    if constexpr (W == WeightFormat::kQ4_0) {  // unsigned, 8 too much
      total[r] = _mm256_add_epi32(total[r], _mm256_set1_epi32(offsets[r]));
    }
  }
}

}  // namespace
}  // namespace netgain

#include "dot_words.h"
