// Words for dot_vnni.h: sixteen output features.
#pragma once

namespace netgain {
namespace {

using Words = __m512i;
constexpr int kPartBytes = 64;
constexpr int kQuantizedRows = 8;

inline Words no_words() { return _mm512_setzero_si512(); }
inline Words load_words(const uint8_t* at) { return _mm512_loadu_si512(at); }
inline Words minus_shifted(int32_t word, int bits) {
  return _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32(_mm512_set1_epi32(word), bits));
}
inline Words flip_signs(Words x) { return _mm512_xor_si512(x, _mm512_set1_epi8(static_cast<char>(0x80))); }
inline Words low_nibbles(Words x) { return _mm512_and_si512(x, _mm512_set1_epi8(0x0f)); }
inline Words high_nibbles(Words x) { return low_nibbles(_mm512_srli_epi16(x, 4)); }
inline Words high_nibbles_times_16(Words x) { return _mm512_and_si512(x, _mm512_set1_epi8(static_cast<char>(0xf0))); }
inline Words low_nibbles_times_16(Words x) { return high_nibbles_times_16(_mm512_slli_epi16(x, 4)); }
inline Words add_sixteenfold(Words x, Words y) { return _mm512_add_epi32(x, _mm512_slli_epi32(y, 4)); }
inline Words add_quads(Words total, Words weights, const int8_t* quad) {
  int32_t bits;
  __builtin_memcpy(&bits, quad, sizeof bits);
  return _mm512_dpbusd_epi32(total, weights, _mm512_set1_epi32(bits));
}
inline F to_floats(Words x) { return _mm512_cvtepi32_ps(x); }

}  // namespace
}  // namespace netgain

#include "dot_vnni.h"
