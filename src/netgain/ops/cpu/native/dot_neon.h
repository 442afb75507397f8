// Integer dot products of one block for 4 output features: the dot product instructions multiply
// signed quads and sum them into 32 bits.
#pragma once

namespace netgain {
namespace {

template <int QUAD>
inline int32x4_t add_quads(int32x4_t total, const uint8_t* weights, int8x16_t values) {
  return vdotq_laneq_s32(total, vld1q_s8(reinterpret_cast<const int8_t*>(weights)), values, QUAD);
}

// Quads 2 PAIR and 2 PAIR + 1 of the sixteen values. Four bits: the offset of 8 is taken off the
// weights, which costs one subtraction for all rows, so offsets are not needed.
template <WeightFormat W, int PAIR, int R>
inline void add_nibbles(const uint8_t* weights, const int8x16_t* values, int32x4_t* total) {
  uint8x16_t both = vld1q_u8(weights);
  int8x16_t low = vreinterpretq_s8_u8(vandq_u8(both, vdupq_n_u8(0x0f)));
  int8x16_t high = vreinterpretq_s8_u8(vshrq_n_u8(both, 4));
  if constexpr (W == WeightFormat::kQ4_0) {
    low = vsubq_s8(low, vdupq_n_s8(8));
    high = vsubq_s8(high, vdupq_n_s8(8));
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    total[r] = vdotq_laneq_s32(total[r], low, values[r], 2 * PAIR);
    total[r] = vdotq_laneq_s32(total[r], high, values[r], 2 * PAIR + 1);
  }
}

// Adds one plane of the activations.
template <WeightFormat W, int R>
inline void add_plane(const uint8_t* payload, int part, const int8_t* values, int32x4_t* total) {
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    int8x16_t of_row[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) of_row[r] = vld1q_s8(values + r * kBlockValues + 16 * half);
    if constexpr (W == WeightFormat::kQ8_0) {
      const uint8_t* weights = payload + 16 * part + 64 * 4 * half;
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        total[r] = add_quads<0>(total[r], weights, of_row[r]);
        total[r] = add_quads<1>(total[r], weights + 64, of_row[r]);
        total[r] = add_quads<2>(total[r], weights + 128, of_row[r]);
        total[r] = add_quads<3>(total[r], weights + 192, of_row[r]);
      }
    } else {
      const uint8_t* weights = payload + 16 * part + 64 * 2 * half;
      add_nibbles<W, 0, R>(weights, of_row, total);
      add_nibbles<W, 1, R>(weights + 64, of_row, total);
    }
  }
}

// As in dot_avx512_vnni.h, for the four output features of `part`.
template <WeightFormat W, int R>
inline void dots(const uint8_t* payload, int part, const int8_t* values, const int32_t* /*offsets*/, F* out) {
  int32x4_t total[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) total[r] = vdupq_n_s32(0);
  add_plane<W, R>(payload, part, values, total);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) total[r] = vshlq_n_s32(total[r], 4);
  add_plane<W, R>(payload, part, values + kPlane, total);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) out[r] = vcvtq_f32_s32(total[r]);
}

constexpr int kQuantizedRows = 8;

}  // namespace
}  // namespace netgain
