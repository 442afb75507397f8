// Integer dot products of one block for 8 output features, without VNNI.
#pragma once

namespace netgain {
namespace {

inline __m256i broadcast_quad(const int8_t* quad) {
  int32_t bits;
  __builtin_memcpy(&bits, quad, sizeof bits);
  return _mm256_set1_epi32(bits);
}

inline __m256i load_weights(const uint8_t* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }

// See dot_avx512_vnni.h. Four bits: a whole block fits 16-bit sums (16 products of at most
// 15 * 127), so that widening happens once per block. Eight bits: |w| times the activation with
// the weight's sign, since unsigned weights would overflow a pair's 16-bit sum.
template <WeightFormat W, int R>
inline void dots(const uint8_t* payload, int part, const int8_t* values,
                 const int32_t* sums, F* out) {
  const __m256i ones = _mm256_set1_epi16(1);
  const uint8_t* weights = payload + part * 32;
  __m256i total[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) total[r] = _mm256_setzero_si256();
  if constexpr (W == WeightFormat::kQ8_0) {
#pragma GCC unroll 8
    for (int q = 0; q < 8; ++q) {
      __m256i w = load_weights(weights + 64 * q);
      __m256i magnitude = _mm256_abs_epi8(w);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        __m256i signed_values = _mm256_sign_epi8(broadcast_quad(values + r * kBlock + 4 * q), w);
        total[r] = _mm256_add_epi32(total[r], _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, signed_values), ones));
      }
    }
  } else {
    const __m256i nibble = _mm256_set1_epi8(0x0f);
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      __m256i both = load_weights(weights + 64 * q);
      __m256i low = _mm256_and_si256(both, nibble);
      __m256i high = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const int8_t* quads = values + r * kBlock + 8 * q;
        total[r] = _mm256_add_epi16(total[r], _mm256_maddubs_epi16(low, broadcast_quad(quads)));
        total[r] = _mm256_add_epi16(total[r], _mm256_maddubs_epi16(high, broadcast_quad(quads + 4)));
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      total[r] = _mm256_madd_epi16(total[r], ones);
      if constexpr (W == WeightFormat::kQ4_0) {
        total[r] = _mm256_sub_epi32(total[r], _mm256_slli_epi32(_mm256_set1_epi32(sums[r]), 3));
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) out[r] = _mm256_cvtepi32_ps(total[r]);
}

constexpr int kQuantizedRows = 4;

}  // namespace
}  // namespace netgain
