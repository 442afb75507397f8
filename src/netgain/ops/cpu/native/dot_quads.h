// Integer dot products of one block of 4-bit weights by VNNI, which multiplies unsigned weights by signed
// activations and sums quads of them into 32 bits: over the words of dot_avx512_vnni.h or dot_avx_vnni.h.
#pragma once

namespace netgain {
namespace {

// Adds the products of a quad of input features, R rows of activations.
template <int R>
inline void add_quads(Words weights, const int8_t* quad, Words* total) {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    int32_t bits;
    __builtin_memcpy(&bits, quad + r * kBlockValues, sizeof bits);
    total[r] = dot_quads(total[r], weights, set_words(bits));
  }
}

// total[r] = dot product of a block and row r of the activations, which are rounded in pairs, exact.
template <WeightFormat W, int R>
inline void nibble_dots(const uint8_t* weights, const int8_t* values, const int32_t* offsets, Words* total) {
  const Words nibbles = set_words(0x0f0f0f0f), eights = set_words(0x78787878);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) total[r] = set_words(0);
  Words shared[4];
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    const Words both = load_words(weights + 64 * q);
    const Words first = bits_of_both(both, nibbles), second = bits_of_both(shift_right<4>(both), nibbles);
    // first + 7 * second
    shared[q] = add_bytes(first, subtract_bytes(bits_of_both(shift_right<1>(both), eights), second));
    add_quads<R>(first, values + 8 * q, total);
    add_quads<R>(second, values + 8 * q + 4, total);
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) total[r] = shift_left<6>(total[r]);
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) add_quads<R>(shared[q], values + kPlane + 4 * q, total);
  if constexpr (W == WeightFormat::kQ4_0) {  // unsigned, 8 too much
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) total[r] = add_words(total[r], set_words(offsets[r]));
  }
}

}  // namespace
}  // namespace netgain
