// Integer dot products of one block for 16 output features: VNNI multiplies unsigned weights by
// signed activations and sums quads of them into 32 bits.
#pragma once

namespace netgain {
namespace {

inline __m512i broadcast_quad(const int8_t* quad) {
  int32_t bits;
  __builtin_memcpy(&bits, quad, sizeof bits);
  return _mm512_set1_epi32(bits);
}

// out[r] = dot product of block `payload` and row r of the activations, exact.
// What unsigned weights carry too much (8 or 128 per activation) is taken off by the block's sum.
template <WeightFormat W, int R>
inline void dots(const uint8_t* payload, int /*part*/, const int8_t* values,
                 const int32_t* sums, F* out) {
  __m512i total[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    if constexpr (W == WeightFormat::kQ4_1) {
      total[r] = _mm512_setzero_si512();
    } else {
      __m512i sum = _mm512_set1_epi32(sums[r]);
      total[r] = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32(sum, W == WeightFormat::kQ4_0 ? 3 : 7));
    }
  }
  if constexpr (W == WeightFormat::kQ8_0) {
    const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
#pragma GCC unroll 8
    for (int q = 0; q < 8; ++q) {
      __m512i weights = _mm512_xor_si512(_mm512_loadu_si512(payload + 64 * q), sign);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        total[r] = _mm512_dpbusd_epi32(total[r], weights, broadcast_quad(values + r * kBlock + 4 * q));
      }
    }
  } else {
    const __m512i nibble = _mm512_set1_epi8(0x0f);
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      __m512i both = _mm512_loadu_si512(payload + 64 * q);
      __m512i low = _mm512_and_si512(both, nibble);
      __m512i high = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const int8_t* quads = values + r * kBlock + 8 * q;
        total[r] = _mm512_dpbusd_epi32(total[r], low, broadcast_quad(quads));
        total[r] = _mm512_dpbusd_epi32(total[r], high, broadcast_quad(quads + 4));
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) out[r] = _mm512_cvtepi32_ps(total[r]);
}

constexpr int kQuantizedRows = 8;

}  // namespace
}  // namespace netgain
