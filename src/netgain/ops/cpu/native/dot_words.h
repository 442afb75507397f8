// Integer dot products of one block for 8 output features. 8-bit weights: pairs of 16-bit words times pairs of
// activations, added up in 32 bits by `add_pairs` of dot_avx2.h or dot_avx_vnni.h; 4-bit weights: `nibble_dots`.
#pragma once

namespace netgain {
namespace {

constexpr int kQuantizedRows = 8;

// Adds the products of words of 8-bit weights, a pair of input features, for R rows.
template <int R>
inline void add_products(__m256i words, const int8_t* pair, __m256i* total) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    int32_t bits;
    __builtin_memcpy(&bits, pair + r * kBlockValues, sizeof bits);
    total[r] = add_pairs(total[r], words, _mm256_set1_epi32(bits));
    keep_in_register(total[r]);
  }
}

// The words of a quad's four bytes are its bytes 0 and 2, then 1 and 3: hence the order of the activations. Weights
// are left 256 times too large, which is one operation less than extending their signs; the sum still fits.
template <int R>
inline void byte_dots(const uint8_t* weights, const int8_t* values, __m256i* total) {
  static_assert(int64_t{128} * 256 * kLargest * kBlock < int64_t{1} << 31, "sums fit 32 bits");
  const __m256i upper = _mm256_set1_epi16(static_cast<int16_t>(0xff00));
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) total[r] = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (int q = 0; q < 8; ++q) {
    const __m256i quads = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights + 64 * q));
    add_products<R>(_mm256_slli_epi16(quads, 8), values + 8 * q, total);
    add_products<R>(_mm256_and_si256(quads, upper), values + 8 * q + 4, total);
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) total[r] = _mm256_srai_epi32(total[r], 8);
}

// out[r] = dot product of block `payload` and row r of the activations, exact.
template <WeightFormat W, int R>
inline void dots(const uint8_t* payload, int part, const int8_t* values, const int32_t* offsets, F* out) {
  __m256i total[R];
  if constexpr (W == WeightFormat::kQ8_0) {
    byte_dots<R>(payload + part * 32, values, total);
  } else {
    nibble_dots<W, R>(payload + part * 32, values, offsets, total);
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) out[r] = _mm256_cvtepi32_ps(total[r]);
}

}  // namespace
}  // namespace netgain
