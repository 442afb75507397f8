// Integer dot products of one block for 8 output features: pairs of 16-bit words times pairs of
// activations, added up in 32 bits by `add_pairs` of dot_avx2.h or dot_avx_vnni.h.
#pragma once

namespace netgain {
namespace {

constexpr int kQuantizedRows = 8;

// One product at a time: left alone, gcc adds products up in pairs, and keeps all of them on the
// stack until it does.
inline void keep_in_register(__m256i& sum) { __asm__("" : "+x"(sum)); }

// Adds the products of `words` weights, one pair of input features each, for R rows.
template <int R, int N>
inline void add_products(const __m256i (&words)[N], const int8_t* values, int first_pair, __m256i* total) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      int32_t pair;
      __builtin_memcpy(&pair, values + r * kBlockValues + 4 * (first_pair + n), sizeof pair);
      total[r] = add_pairs(total[r], words[n], _mm256_set1_epi32(pair));
      keep_in_register(total[r]);
    }
  }
}

// out[r] = dot product of block `payload` and row r of the activations, exact. The words of a quad's
// four bytes are its bytes 0 and 2, then 1 and 3: hence the order of the activations. Weights of 8
// bits are left 256 times too large, which is one operation less than extending their signs; the sum
// still fits.
template <WeightFormat W, int R>
inline void dots(const uint8_t* payload, int part, const int8_t* values, const int32_t* offsets, F* out) {
  const uint8_t* weights = payload + part * 32;
  const auto load_quads = [&](int at) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights + 64 * at));
  };
  __m256i total[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) total[r] = _mm256_setzero_si256();
  if constexpr (W == WeightFormat::kQ8_0) {
    static_assert(int64_t{128} * 256 * kLargest * kBlock < int64_t{1} << 31, "sums fit 32 bits");
    const __m256i upper = _mm256_set1_epi16(static_cast<int16_t>(0xff00));
#pragma GCC unroll 8
    for (int q = 0; q < 8; ++q) {
      const __m256i quads = load_quads(q);
      const __m256i words[] = {_mm256_slli_epi16(quads, 8), _mm256_and_si256(quads, upper)};
      add_products<R>(words, values, 2 * q, total);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) total[r] = _mm256_srai_epi32(total[r], 8);
  } else {
    const __m256i nibble = _mm256_set1_epi16(0x000f);
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      const __m256i quads = load_quads(q);
      const __m256i words[] = {_mm256_and_si256(quads, nibble), _mm256_and_si256(_mm256_srli_epi16(quads, 8), nibble),
                               _mm256_and_si256(_mm256_srli_epi16(quads, 4), nibble), _mm256_srli_epi16(quads, 12)};
      add_products<R>(words, values, 4 * q, total);
    }
    if constexpr (W == WeightFormat::kQ4_0) {  // unsigned, 8 too much
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        total[r] = _mm256_add_epi32(total[r], _mm256_set1_epi32(offsets[r]));
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) out[r] = _mm256_cvtepi32_ps(total[r]);
}

}  // namespace
}  // namespace netgain
