// Words for dot_vnni.h: eight output features, on processors with AVX-VNNI and without AVX-512.
#pragma once

namespace netgain {
namespace {

using Words = __m256i;
constexpr int kPartBytes = 32;
constexpr int kQuantizedRows = 4;

inline Words no_words() { return _mm256_setzero_si256(); }
inline Words load_words(const uint8_t* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }
inline Words minus_shifted(int32_t word, int bits) {
  return _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_slli_epi32(_mm256_set1_epi32(word), bits));
}
inline Words flip_signs(Words x) { return _mm256_xor_si256(x, _mm256_set1_epi8(static_cast<char>(0x80))); }
inline Words low_nibbles(Words x) { return _mm256_and_si256(x, _mm256_set1_epi8(0x0f)); }
inline Words high_nibbles(Words x) { return low_nibbles(_mm256_srli_epi16(x, 4)); }
inline Words high_nibbles_times_16(Words x) { return _mm256_and_si256(x, _mm256_set1_epi8(static_cast<char>(0xf0))); }
inline Words low_nibbles_times_16(Words x) { return high_nibbles_times_16(_mm256_slli_epi16(x, 4)); }
inline Words add_sixteenfold(Words x, Words y) { return _mm256_add_epi32(x, _mm256_slli_epi32(y, 4)); }
inline Words add_quads(Words total, Words weights, const int8_t* quad) {
  int32_t bits;
  __builtin_memcpy(&bits, quad, sizeof bits);
  return _mm256_dpbusd_avx_epi32(total, weights, _mm256_set1_epi32(bits));
}
inline F to_floats(Words x) { return _mm256_cvtepi32_ps(x); }

}  // namespace
}  // namespace netgain

#include "dot_vnni.h"
