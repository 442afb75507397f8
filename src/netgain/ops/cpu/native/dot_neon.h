// Integer dot products of one block for 4 output features: the dot product instructions multiply
// signed quads and sum them into 32 bits.
#pragma once

namespace netgain {
namespace {

template <int QUAD, int R>
inline void add_quads(int8x16_t weights, const int8x16_t* values, int32x4_t* total) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) total[r] = vdotq_laneq_s32(total[r], weights, values[r], QUAD);
}

template <int R>
inline void load_rows(const int8_t* values, int8x16_t* to) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) to[r] = vld1q_s8(values + r * kBlockValues);
}

// 8-bit weights: adds one plane of the activations.
template <int R>
inline void add_plane(const uint8_t* weights, const int8_t* values, int32x4_t* total) {
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const auto load_quads = [&](int quad) {
      return vld1q_s8(reinterpret_cast<const int8_t*>(weights + 64 * (4 * half + quad)));
    };
    int8x16_t of_row[R];
    load_rows<R>(values + 16 * half, of_row);
    add_quads<0, R>(load_quads(0), of_row, total);
    add_quads<1, R>(load_quads(1), of_row, total);
    add_quads<2, R>(load_quads(2), of_row, total);
    add_quads<3, R>(load_quads(3), of_row, total);
  }
}

// 4-bit weights of a pair of quads. The offset of 8 is taken off the weights, which costs one
// subtraction for all rows, so offsets are not needed.
struct Nibbles {
  int8x16_t first, second;
};
template <WeightFormat W>
inline Nibbles load_nibbles(const uint8_t* weights) {
  const uint8x16_t both = vld1q_u8(weights);
  const int8x16_t first = vreinterpretq_s8_u8(vandq_u8(both, vdupq_n_u8(0x0f)));
  const int8x16_t second = vreinterpretq_s8_u8(vshrq_n_u8(both, 4));
  if constexpr (W != WeightFormat::kQ4_0) return {first, second};
  return {vsubq_s8(first, vdupq_n_s8(8)), vsubq_s8(second, vdupq_n_s8(8))};
}

template <WeightFormat W, int R>
inline void nibble_dots(const uint8_t* weights, const int8_t* values, int32x4_t* total) {
  Nibbles nibbles[4];
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) nibbles[q] = load_nibbles<W>(weights + 64 * q);
  int8x16_t of_row[R];
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    load_rows<R>(values + 16 * half, of_row);
    add_quads<0, R>(nibbles[2 * half].first, of_row, total);
    add_quads<1, R>(nibbles[2 * half].second, of_row, total);
    add_quads<2, R>(nibbles[2 * half + 1].first, of_row, total);
    add_quads<3, R>(nibbles[2 * half + 1].second, of_row, total);
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) total[r] = vshlq_n_s32(total[r], 6);
  load_rows<R>(values + kPlane, of_row);
  const auto shared = [&](int q) { return vmlaq_s8(nibbles[q].first, nibbles[q].second, vdupq_n_s8(7)); };
  add_quads<0, R>(shared(0), of_row, total);
  add_quads<1, R>(shared(1), of_row, total);
  add_quads<2, R>(shared(2), of_row, total);
  add_quads<3, R>(shared(3), of_row, total);
}

// out[r] = dot product of block `payload` and row r of the activations, exact, for the four output features of `part`.
template <WeightFormat W, int R>
inline void dots(const uint8_t* payload, int part, const int8_t* values, const int32_t* /*offsets*/, F* out) {
  const uint8_t* weights = payload + 16 * part;
  int32x4_t total[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) total[r] = vdupq_n_s32(0);
  if constexpr (W == WeightFormat::kQ8_0) {
    add_plane<R>(weights, values, total);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) total[r] = vshlq_n_s32(total[r], 4);
    add_plane<R>(weights, values + kPlane, total);
  } else {
    nibble_dots<W, R>(weights, values, total);
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) out[r] = vcvtq_f32_s32(total[r]);
}

constexpr int kQuantizedRows = 8;

}  // namespace
}  // namespace netgain
