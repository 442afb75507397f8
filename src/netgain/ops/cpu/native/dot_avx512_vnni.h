// Integer dot products of one block for sixteen output features: VNNI multiplies unsigned weights by
// signed activations and sums quads of them into 32 bits.
#pragma once

namespace netgain {
namespace {

using Words = __m512i;
constexpr int kPartBytes = 64;
constexpr int kQuantizedRows = 8;
inline Words load_words(const uint8_t* at) { return _mm512_loadu_si512(at); }
inline Words set_words(int32_t word) { return _mm512_set1_epi32(word); }
inline Words bits_of_both(Words x, Words y) { return _mm512_and_si512(x, y); }
inline Words add_words(Words x, Words y) { return _mm512_add_epi32(x, y); }
inline Words add_bytes(Words x, Words y) { return _mm512_add_epi8(x, y); }
inline Words subtract_bytes(Words x, Words y) { return _mm512_sub_epi8(x, y); }
template <int BITS>
inline Words shift_left(Words x) {
  return _mm512_slli_epi32(x, BITS);
}
template <int BITS>
inline Words shift_right(Words x) {
  return _mm512_srli_epi16(x, BITS);
}
inline Words dot_quads(Words total, Words weights, Words quads) { return _mm512_dpbusd_epi32(total, weights, quads); }

}  // namespace
}  // namespace netgain

#include "dot_quads.h"

namespace netgain {
namespace {

// total[r] = dot product of a block of 8-bit weights and row r of the activations, in planes of twelve bits, exact.
template <int R>
inline void byte_dots(const uint8_t* weights, const int8_t* values, const int32_t* offsets, Words* total) {
  Words high[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    high[r] = set_words(0);
    total[r] = set_words(16 * offsets[r]);  // unsigned weights are 128 too much
  }
#pragma GCC unroll 8
  for (int q = 0; q < 8; ++q) {
    const Words w = _mm512_xor_si512(load_words(weights + 64 * q), set_words(static_cast<int32_t>(0x80808080)));
    add_quads<R>(w, values + 4 * q, high);
    add_quads<R>(w, values + kPlane + 4 * q, total);
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) total[r] = add_words(total[r], shift_left<4>(high[r]));
}

// out[r] = dot product of block `payload` and row r of the activations, exact.
template <WeightFormat W, int R>
inline void dots(const uint8_t* payload, int part, const int8_t* values, const int32_t* offsets, F* out) {
  Words total[R];
  if constexpr (W == WeightFormat::kQ8_0) {
    byte_dots<R>(payload + part * kPartBytes, values, offsets, total);
  } else {
    nibble_dots<W, R>(payload + part * kPartBytes, values, offsets, total);
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) out[r] = _mm512_cvtepi32_ps(total[r]);
}

}  // namespace
}  // namespace netgain
