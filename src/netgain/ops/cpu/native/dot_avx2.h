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

// Each byte of the weights times the activation's, added in pairs to 16 bits.
inline __m256i multiply(__m256i weights, const int8_t* quad) {
  return _mm256_maddubs_epi16(weights, broadcast_quad(quad));
}

// 16-bit sums of `high` and `low` products to 32 bits: 16 * high + low.
inline __m256i join(__m256i high, __m256i low) {
  return _mm256_add_epi32(_mm256_madd_epi16(high, _mm256_set1_epi16(16)), _mm256_madd_epi16(low, _mm256_set1_epi16(1)));
}

// See dot_vnni.h. Four bits: a whole block fits 16-bit sums (16 products of at most 15 * 127), so
// that widening happens once per block. Eight bits: |w| times the activation with the weight's sign,
// since unsigned weights would overflow a pair's 16-bit sum.
template <WeightFormat W, int R>
inline void dots(const uint8_t* payload, int part, const int8_t* values, const int32_t* sums, F* out) {
  const uint8_t* weights = payload + part * 32;
  __m256i total[R];
  if constexpr (W == WeightFormat::kQ8_0) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) total[r] = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int q = 0; q < 8; ++q) {
      const __m256i w = load_weights(weights + 64 * q);
      const __m256i magnitude = _mm256_abs_epi8(w);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const int8_t* quad = values + r * kBlockValues + 4 * q;
        const __m256i high = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(broadcast_quad(quad), w));
        const __m256i low = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(broadcast_quad(quad + kPlane), w));
        total[r] = _mm256_add_epi32(total[r], join(high, low));
      }
    }
  } else {
    __m256i high[R], low[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) high[r] = low[r] = _mm256_setzero_si256();
    const __m256i nibble = _mm256_set1_epi8(0x0f);
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      const __m256i both = load_weights(weights + 64 * q);
      const __m256i first = _mm256_and_si256(both, nibble);
      const __m256i second = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const int8_t* quads = values + r * kBlockValues + 8 * q;
        high[r] = _mm256_add_epi16(high[r], multiply(first, quads));
        high[r] = _mm256_add_epi16(high[r], multiply(second, quads + 4));
        low[r] = _mm256_add_epi16(low[r], multiply(first, quads + kPlane));
        low[r] = _mm256_add_epi16(low[r], multiply(second, quads + kPlane + 4));
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      total[r] = join(high[r], low[r]);
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
