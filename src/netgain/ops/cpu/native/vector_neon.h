// Four floats: NEON. See vector_avx512.h.
#pragma once

#include <arm_neon.h>

#include <cstring>

#include "formats.h"

namespace netgain {
namespace {

using F = float32x4_t;
constexpr int kLanes = 4;
constexpr int kRegisters = 32;

inline F zero() { return vdupq_n_f32(0.0f); }
inline F set1(float x) { return vdupq_n_f32(x); }
inline F load(const float* p) { return vld1q_f32(p); }
inline void store(float* p, F x) { vst1q_f32(p, x); }
inline F add(F a, F b) { return vaddq_f32(a, b); }
inline F sub(F a, F b) { return vsubq_f32(a, b); }
inline F mul(F a, F b) { return vmulq_f32(a, b); }
inline F quotient(F a, F b) { return vdivq_f32(a, b); }  // for b >= 1
inline F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
// As on x86, b where either is a NaN; vmaxq would give the NaN.
inline F max(F a, F b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
inline F min(F a, F b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
inline F abs(F a) { return vabsq_f32(a); }
inline F round(F a) { return vrndnq_f32(a); }
inline F power_of_two(F n) {
  return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127)), 23));
}
constexpr float kCounter = 12582912.0f;
inline F scale_by_counted(F x, F counted) {
  uint32x4_t exponent = vshlq_n_u32(vreinterpretq_u32_f32(counted), 23);
  return vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(x), exponent));
}
inline float reduce_max(F a) { return vmaxvq_f32(a); }
inline float reduce_add(F a) {
  float32x2_t two = vadd_f32(vget_low_f32(a), vget_high_f32(a));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

inline F load_first(const float* p, int64_t count, float fill) {
  float lanes[kLanes] = {fill, fill, fill, fill};
  for (int64_t i = 0; i < count; ++i) lanes[i] = p[i];
  return vld1q_f32(lanes);
}
inline void store_first(float* p, F x, int64_t count) {
  float lanes[kLanes];
  vst1q_f32(lanes, x);
  for (int64_t i = 0; i < count; ++i) p[i] = lanes[i];
}

using Mask = uint32x4_t;
inline Mask greater(F a, F b) { return vcgtq_f32(a, b); }
inline Mask greater_equal(F a, F b) { return vcgeq_f32(a, b); }
inline Mask equal(F a, F b) { return vceqq_f32(a, b); }
inline Mask both(Mask a, Mask b) { return vandq_u32(a, b); }
inline F keep(F x, Mask mask) { return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), mask)); }
inline uint32_t bits(Mask mask) {
  constexpr uint32_t bit_of_lane[kLanes] = {1, 2, 4, 8};
  return vaddvq_u32(vandq_u32(mask, vld1q_u32(bit_of_lane)));
}

// For each mask, the bytes of its lanes in order.
struct CompressedLanes {
  uint8_t of[16][16] = {};
  constexpr CompressedLanes() {
    for (int mask = 0; mask < 16; ++mask) {
      int count = 0;
      for (int lane = 0; lane < kLanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        for (int byte = 0; byte < 4; ++byte) of[mask][4 * count + byte] = static_cast<uint8_t>(4 * lane + byte);
        ++count;
      }
    }
  }
};
constexpr CompressedLanes kCompressedLanes;

inline int compress(float* p, F x, Mask mask) {
  uint32_t chosen = bits(mask);
  uint8x16_t lanes = vqtbl1q_u8(vreinterpretq_u8_f32(x), vld1q_u8(kCompressedLanes.of[chosen]));
  vst1q_f32(p, vreinterpretq_f32_u8(lanes));
  return __builtin_popcount(chosen);
}

struct Sums {
  float64x2_t low = vdupq_n_f64(0.0), high = vdupq_n_f64(0.0);
};
inline void accumulate(Sums& sums, F x) {
  sums.low = vaddq_f64(sums.low, vcvt_f64_f32(vget_low_f32(x)));
  sums.high = vaddq_f64(sums.high, vcvt_high_f64_f32(x));
}
inline double total(const Sums& sums) { return vaddvq_f64(vaddq_f64(sums.low, sums.high)); }

inline F load_fp16(const void* p) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(static_cast<const uint16_t*>(p))));
}
inline F load_bf16(const void* p) {
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(static_cast<const uint16_t*>(p)), 16));
}
inline F load_int8(const void* p) {
  uint32_t four;
  std::memcpy(&four, p, sizeof four);
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(four))))));
}
inline void store_fp16(void* p, F x) { vst1_u16(static_cast<uint16_t*>(p), vreinterpret_u16_f16(vcvt_f16_f32(x))); }
inline void store_int8(int8_t* p, F x) {
  int16x4_t halves = vqmovn_s32(vcvtnq_s32_f32(x));
  int8x8_t bytes = vqmovn_s16(vcombine_s16(halves, halves));
  uint32_t four = vget_lane_u32(vreinterpret_u32_s8(bytes), 0);
  std::memcpy(p, &four, sizeof four);
}
// Eight vectors, each a quad: the first of each pair, and the second.
inline void split_quads(const F* x, F* first, F* second) {
  for (int i = 0; i < 4; ++i) {
    first[i] = x[2 * i];
    second[i] = x[2 * i + 1];
  }
}
// The other way round, whole numbers in [-128, 127] to 32 bytes.
inline void store_quads(int8_t* p, const F* first, const F* second) {
  for (int i = 0; i < 4; ++i) {
    store_int8(p + 8 * i, first[i]);
    store_int8(p + 8 * i + 4, second[i]);
  }
}
inline int32_t reduce_add_int(F whole) { return vaddvq_s32(vcvtnq_s32_f32(whole)); }
inline void store_bf16(void* p, F x) {
  uint32x4_t all = vreinterpretq_u32_f32(x), high = vshrq_n_u32(all, 16);
  uint32x4_t odd = vandq_u32(high, vdupq_n_u32(1));
  uint32x4_t rounded = vshrq_n_u32(vaddq_u32(all, vaddq_u32(odd, vdupq_n_u32(0x7fff))), 16);
  uint32x4_t number = vceqq_f32(x, x);
  vst1_u16(static_cast<uint16_t*>(p), vmovn_u32(vbslq_u32(number, rounded, vorrq_u32(high, vdupq_n_u32(0x40)))));
}
inline F keep(F x, int64_t begin, int64_t end, F other) {
  float lanes[kLanes], others[kLanes];
  store(lanes, x);
  store(others, other);
  for (int i = 0; i < kLanes; ++i) lanes[i] = i >= begin && i < end ? lanes[i] : others[i];
  return load(lanes);
}

}  // namespace
}  // namespace netgain
