// Sixteen floats without intrinsics: any processor, by the compiler's own vectors.
#pragma once

#include <cmath>
#include <cstring>

#include "formats.h"
#include "half.h"

namespace netgain {
namespace {

typedef float F __attribute__((vector_size(64)));
typedef int32_t Words __attribute__((vector_size(64)));
constexpr int kLanes = 16;
constexpr int kRegisters = 4;  // of a processor with sixteen of four floats

inline F set1(float x) { return F{} + x; }
inline F zero() { return F{}; }
inline F load(const float* p) {
  F x;
  std::memcpy(&x, p, sizeof x);
  return x;
}
inline void store(float* p, F x) { std::memcpy(p, &x, sizeof x); }
inline F add(F a, F b) { return a + b; }
inline F sub(F a, F b) { return a - b; }
inline F mul(F a, F b) { return a * b; }
inline F div(F a, F b) { return a / b; }
inline F fma(F a, F b, F c) { return a * b + c; }  // two roundings: the instruction may be missing
inline F max(F a, F b) { return a > b ? a : b; }
inline F min(F a, F b) { return a < b ? a : b; }
inline F abs(F a) { return a < 0.0f ? -a : a; }
// Adding and taking away 1.5 * 2 ** 23 leaves the nearest whole number, ties to even.
inline F round(F a) { return abs(a) < 4194304.0f ? (a + 12582912.0f) - 12582912.0f : a; }
inline F sqrt(F a) {
  for (int i = 0; i < kLanes; ++i) a[i] = std::sqrt(a[i]);
  return a;
}
inline F power_of_two(F n) {
  Words bits = (__builtin_convertvector(n, Words) + 127) << 23;
  F x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
constexpr float kCounter = 12582912.0f;
inline F scale_by_counted(F x, F counted) {
  typedef uint32_t Bits __attribute__((vector_size(64)));
  Bits of_x, of_counted;
  std::memcpy(&of_x, &x, sizeof x);
  std::memcpy(&of_counted, &counted, sizeof counted);
  of_x += of_counted << 23;
  std::memcpy(&x, &of_x, sizeof x);
  return x;
}
inline float reduce_max(F a) {
  float largest = a[0];
  for (int i = 1; i < kLanes; ++i) largest = a[i] > largest ? a[i] : largest;
  return largest;
}
inline float reduce_add(F a) {
  float sums[kLanes];
  store(sums, a);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) sums[i] += sums[i + width];
  }
  return sums[0];
}

inline F load_some(const float* p, int64_t count, float fill) {
  F x = set1(fill);
  std::memcpy(&x, p, static_cast<size_t>(count) * sizeof(float));
  return x;
}
inline void store_some(float* p, F x, int64_t count) { std::memcpy(p, &x, static_cast<size_t>(count) * sizeof(float)); }

using Mask = Words;  // -1 or 0
inline Mask greater(F a, F b) { return a > b; }
inline Mask greater_equal(F a, F b) { return a >= b; }
inline Mask equal(F a, F b) { return a == b; }
inline Mask both(Mask a, Mask b) { return a & b; }
inline F keep(F x, Mask mask) { return mask ? x : F{}; }
inline uint32_t bits(Mask mask) {
  uint32_t chosen = 0;
  for (int i = 0; i < kLanes; ++i) chosen |= static_cast<uint32_t>(mask[i] & 1) << i;
  return chosen;
}
inline int compress(float* p, F x, Mask mask) {
  int count = 0;
  for (int i = 0; i < kLanes; ++i) {
    p[count] = x[i];
    count -= mask[i];
  }
  return count;
}

struct Sums {
  double lanes[kLanes] = {};
};
inline void accumulate(Sums& sums, F x) {
  for (int i = 0; i < kLanes; ++i) sums.lanes[i] += x[i];
}
inline double total(const Sums& sums) {
  double sum = 0.0;
  for (int i = 0; i < kLanes; ++i) sum += sums.lanes[i];
  return sum;
}

inline F load_fp16(const void* p) {
  uint16_t halves[kLanes];
  std::memcpy(halves, p, sizeof halves);
  F x;
  for (int i = 0; i < kLanes; ++i) x[i] = fp16_to_float(halves[i]);
  return x;
}
inline F load_bf16(const void* p) {
  uint16_t halves[kLanes];
  std::memcpy(halves, p, sizeof halves);
  F x;
  for (int i = 0; i < kLanes; ++i) x[i] = bf16_to_float(halves[i]);
  return x;
}
inline F load_int8(const void* p) {
  const int8_t* bytes = static_cast<const int8_t*>(p);
  F x;
  for (int i = 0; i < kLanes; ++i) x[i] = bytes[i];
  return x;
}
inline void store_fp16(void* p, F x) {
  uint16_t halves[kLanes];
  for (int i = 0; i < kLanes; ++i) halves[i] = float_to_fp16(x[i]);
  std::memcpy(p, halves, sizeof halves);
}
inline void store_int8(int8_t* p, F x) {
  for (int i = 0; i < kLanes; ++i) p[i] = static_cast<int8_t>(x[i]);
}
inline int32_t reduce_add_int(F whole) {
  int32_t sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += static_cast<int32_t>(whole[i]);
  return sum;
}
inline void store_bf16(void* p, F x) {
  uint16_t halves[kLanes];
  for (int i = 0; i < kLanes; ++i) halves[i] = float_to_bf16(x[i]);
  std::memcpy(p, halves, sizeof halves);
}
inline F keep(F x, int64_t begin, int64_t end, F other) {
  Words lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return ((lane >= static_cast<int32_t>(begin)) & (lane < static_cast<int32_t>(end))) ? x : other;
}

}  // namespace
}  // namespace netgain
