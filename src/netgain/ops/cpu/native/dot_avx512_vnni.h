// Integer dot products of one block for sixteen output features: VNNI multiplies unsigned weights by
// signed activations and sums quads of them into 32 bits.
#pragma once

namespace netgain {
namespace {

using Words = __m512i;
constexpr int kPartBytes = 64;
constexpr int kQuantizedRows = 8;
inline Words no_words() { return _mm512_setzero_si512(); }
inline Words load_words(const uint8_t* at) { return _mm512_loadu_si512(at); }
inline Words set_words(int32_t word) { return _mm512_set1_epi32(word); }
inline Words flip_signs(Words x) { return _mm512_xor_si512(x, _mm512_set1_epi8(static_cast<char>(0x80))); }
inline Words low_nibbles(Words x) { return _mm512_and_si512(x, _mm512_set1_epi8(0x0f)); }
inline Words high_nibbles_times_16(Words x) { return _mm512_and_si512(x, _mm512_set1_epi8(static_cast<char>(0xf0))); }
inline Words high_nibbles(Words x) { return low_nibbles(_mm512_srli_epi16(x, 4)); }
inline Words low_nibbles_times_16(Words x) { return high_nibbles_times_16(_mm512_slli_epi16(x, 4)); }
inline Words add_sixteenfold(Words x, Words y) { return _mm512_add_epi32(x, _mm512_slli_epi32(y, 4)); }
inline Words add_quads(Words total, Words weights, const int8_t* quad) {
  int32_t bits;
  __builtin_memcpy(&bits, quad, sizeof bits);
  return _mm512_dpbusd_epi32(total, weights, _mm512_set1_epi32(bits));
}
inline F to_floats(Words x) { return _mm512_cvtepi32_ps(x); }

// out[r] = dot product of block `payload` and row r of the activations, exact.
template <WeightFormat W, int R>
inline void dots(const uint8_t* payload, int part, const int8_t* values, const int32_t* offsets, F* out) {
  const uint8_t* weights = payload + part * kPartBytes;
  Words total[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    // Unsigned weights carry 8 or 128 too much per activation.
    if constexpr (W == WeightFormat::kQ4_1) {
      total[r] = no_words();
    } else {
      total[r] = set_words(W == WeightFormat::kQ8_0 ? 16 * offsets[r] : offsets[r]);
    }
  }
  if constexpr (W == WeightFormat::kQ8_0) {
    Words high[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) high[r] = no_words();
#pragma GCC unroll 8
    for (int q = 0; q < 8; ++q) {
      Words w = flip_signs(load_words(weights + 64 * q));
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const int8_t* quad = values + r * kBlockValues + 4 * q;
        high[r] = add_quads(high[r], w, quad);
        total[r] = add_quads(total[r], w, quad + kPlane);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) total[r] = add_sixteenfold(total[r], high[r]);
  } else {
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      // Sixteen times a 4-bit weight still fits 8 bits, so both planes add up in one place.
      const Words both = load_words(weights + 64 * q);
      const Words first = low_nibbles(both), first16 = low_nibbles_times_16(both);
      const Words second = high_nibbles(both), second16 = high_nibbles_times_16(both);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const int8_t* quads = values + r * kBlockValues + 8 * q;
        total[r] = add_quads(total[r], first16, quads);
        total[r] = add_quads(total[r], first, quads + kPlane);
        total[r] = add_quads(total[r], second16, quads + 4);
        total[r] = add_quads(total[r], second, quads + kPlane + 4);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) out[r] = to_floats(total[r]);
}

}  // namespace
}  // namespace netgain
