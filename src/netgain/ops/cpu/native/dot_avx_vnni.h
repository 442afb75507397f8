// Products on processors with AVX-VNNI and without AVX-512: of 4-bit weights quads of bytes, of 8-bit weights
// 16-bit words.
#pragma once

namespace netgain {
namespace {

using Words = __m256i;
inline Words load_words(const uint8_t* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }
inline Words set_words(int32_t word) { return _mm256_set1_epi32(word); }
inline Words bits_of_both(Words x, Words y) { return _mm256_and_si256(x, y); }
inline Words add_words(Words x, Words y) { return _mm256_add_epi32(x, y); }
inline Words add_bytes(Words x, Words y) { return _mm256_add_epi8(x, y); }
inline Words subtract_bytes(Words x, Words y) { return _mm256_sub_epi8(x, y); }
template <int BITS>
inline Words shift_left(Words x) {
  return _mm256_slli_epi32(x, BITS);
}
template <int BITS>
inline Words shift_right(Words x) {
  return _mm256_srli_epi16(x, BITS);
}
inline Words dot_quads(Words total, Words weights, Words quads) {
  return _mm256_dpbusd_avx_epi32(total, weights, quads);
}
inline Words add_pairs(Words total, Words weights, Words pair) { return _mm256_dpwssd_avx_epi32(total, weights, pair); }

}  // namespace
}  // namespace netgain

#include "dot_quads.h"
#include "dot_words.h"
