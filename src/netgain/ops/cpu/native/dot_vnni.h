// Integer dot products of one block for kLanes output features: VNNI multiplies unsigned weights by
// signed activations and sums quads of them into 32 bits. Over the few functions that
// dot_avx512_vnni.h and dot_avx_vnni.h define on their vectors of 32-bit words.
#pragma once

namespace netgain {
namespace {

// out[r] = dot product of block `payload` and row r of the activations, exact.
template <WeightFormat W, int R>
inline void dots(const uint8_t* payload, int part, const int8_t* values, const int32_t* sums, F* out) {
  const uint8_t* weights = payload + part * kPartBytes;
  Words total[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    // Unsigned weights carry 8 or 128 too much per activation.
    if constexpr (W == WeightFormat::kQ4_1) {
      total[r] = no_words();
    } else {
      total[r] = minus_shifted(sums[r], W == WeightFormat::kQ4_0 ? 3 : 7);
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
