// As dot_avx512_vnni.h for 8 output features: processors with AVX-VNNI and without AVX-512.
#pragma once

namespace netgain {
namespace {

inline __m256i broadcast_quad(const int8_t* quad) {
  int32_t bits;
  __builtin_memcpy(&bits, quad, sizeof bits);
  return _mm256_set1_epi32(bits);
}

template <WeightFormat W, int R>
inline void dots(const uint8_t* payload, int part, const int8_t* values,
                 const int32_t* sums, F* out) {
  const uint8_t* weights = payload + part * 32;
  __m256i total[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    if constexpr (W == WeightFormat::kQ4_1) {
      total[r] = _mm256_setzero_si256();
    } else {
      __m256i sum = _mm256_set1_epi32(sums[r]);
      total[r] = _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_slli_epi32(sum, W == WeightFormat::kQ4_0 ? 3 : 7));
    }
  }
  if constexpr (W == WeightFormat::kQ8_0) {
    const __m256i sign = _mm256_set1_epi8(static_cast<char>(0x80));
#pragma GCC unroll 8
    for (int q = 0; q < 8; ++q) {
      __m256i w = _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights + 64 * q)), sign);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        total[r] = _mm256_dpbusd_avx_epi32(total[r], w, broadcast_quad(values + r * kBlock + 4 * q));
      }
    }
  } else {
    const __m256i nibble = _mm256_set1_epi8(0x0f);
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights + 64 * q));
      __m256i low = _mm256_and_si256(both, nibble);
      __m256i high = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const int8_t* quads = values + r * kBlock + 8 * q;
        total[r] = _mm256_dpbusd_avx_epi32(total[r], low, broadcast_quad(quads));
        total[r] = _mm256_dpbusd_avx_epi32(total[r], high, broadcast_quad(quads + 4));
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) out[r] = _mm256_cvtepi32_ps(total[r]);
}

constexpr int kQuantizedRows = 4;

}  // namespace
}  // namespace netgain
