// Sixteen floats without intrinsics: any processor, by the compiler's own vectors.
#pragma once

#include <cstring>

#include "formats.h"
#include "half.h"

namespace netgain {
namespace {

typedef float Quarter __attribute__((vector_size(16)));
typedef int32_t Words __attribute__((vector_size(16)));
typedef uint32_t Bits __attribute__((vector_size(16)));

// Four of the vectors that such a processor mostly has: what is wider than its own the compiler would
// take to pieces of one float.
struct F {
  Quarter quarters[4];
};
constexpr int kLanes = 16;
constexpr int kRegisters = 4;  // of a processor with sixteen of four floats

template <class Each>
inline F each_quarter(const Each& each) {
  return {{each(0), each(1), each(2), each(3)}};
}

inline F set1(float x) {
  return each_quarter([&](int) { return Quarter{x, x, x, x}; });
}
inline F zero() { return F{}; }
inline F load(const float* p) {
  F x;
  std::memcpy(&x, p, sizeof x);
  return x;
}
inline void store(float* p, F x) { std::memcpy(p, &x, sizeof x); }
inline F add(F a, F b) {
  return each_quarter([&](int i) { return a.quarters[i] + b.quarters[i]; });
}
inline F sub(F a, F b) {
  return each_quarter([&](int i) { return a.quarters[i] - b.quarters[i]; });
}
inline F mul(F a, F b) {
  return each_quarter([&](int i) { return a.quarters[i] * b.quarters[i]; });
}
inline F quotient(F a, F b) {  // for b >= 1
  return each_quarter([&](int i) { return a.quarters[i] / b.quarters[i]; });
}
inline F fma(F a, F b, F c) { return add(mul(a, b), c); }  // two roundings: the instruction may be missing
inline F max(F a, F b) {
  return each_quarter([&](int i) { return a.quarters[i] > b.quarters[i] ? a.quarters[i] : b.quarters[i]; });
}
inline F min(F a, F b) {
  return each_quarter([&](int i) { return a.quarters[i] < b.quarters[i] ? a.quarters[i] : b.quarters[i]; });
}

inline Bits bits_of(Quarter x) {
  Bits bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline Quarter of_bits(Bits bits) {
  Quarter x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

inline F abs(F a) {
  return each_quarter([&](int i) { return of_bits(bits_of(a.quarters[i]) & 0x7fffffffu); });
}
// Adding and taking away 1.5 * 2 ** 23 leaves the nearest whole number, ties to even.
constexpr float kCounter = 12582912.0f;
inline F round(F a) {
  const F magnitude = abs(a);
  return each_quarter([&](int i) {
    return magnitude.quarters[i] < 4194304.0f ? (a.quarters[i] + kCounter) - kCounter : a.quarters[i];
  });
}
inline F scale_by_counted(F x, F counted) {
  return each_quarter([&](int i) { return of_bits(bits_of(x.quarters[i]) + (bits_of(counted.quarters[i]) << 23)); });
}
inline F power_of_two(F n) { return scale_by_counted(set1(1.0f), add(n, set1(kCounter))); }
inline float reduce_max(F a) {
  float lanes[kLanes];
  store(lanes, a);
  float largest = lanes[0];
  for (int i = 1; i < kLanes; ++i) largest = lanes[i] > largest ? lanes[i] : largest;
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

inline F load_first(const float* p, int64_t count, float fill) {
  F x = set1(fill);
  std::memcpy(&x, p, static_cast<size_t>(count) * sizeof(float));
  return x;
}
inline void store_first(float* p, F x, int64_t count) {
  std::memcpy(p, &x, static_cast<size_t>(count) * sizeof(float));
}

struct Mask {
  Words quarters[4];  // -1 or 0
};
inline Mask greater(F a, F b) {
  Mask mask;
  for (int i = 0; i < 4; ++i) mask.quarters[i] = a.quarters[i] > b.quarters[i];
  return mask;
}
inline Mask greater_equal(F a, F b) {
  Mask mask;
  for (int i = 0; i < 4; ++i) mask.quarters[i] = a.quarters[i] >= b.quarters[i];
  return mask;
}
inline Mask equal(F a, F b) {
  Mask mask;
  for (int i = 0; i < 4; ++i) mask.quarters[i] = a.quarters[i] == b.quarters[i];
  return mask;
}
inline Mask both(Mask a, Mask b) {
  for (int i = 0; i < 4; ++i) a.quarters[i] &= b.quarters[i];
  return a;
}
inline F keep(F x, Mask mask) {
  return each_quarter(
      [&](int i) { return of_bits(bits_of(x.quarters[i]) & reinterpret_cast<Bits>(mask.quarters[i])); });
}
inline uint32_t bits(Mask mask) {
  const Words bit_of_lane = {1, 2, 4, 8};
  Words chosen = {};
  for (int i = 0; i < 4; ++i) chosen |= mask.quarters[i] & (bit_of_lane << 4 * i);
  return static_cast<uint32_t>(chosen[0] | chosen[1] | chosen[2] | chosen[3]);
}
inline int compress(float* p, F x, Mask mask) {
  int32_t chosen[kLanes];
  float lanes[kLanes];
  std::memcpy(chosen, &mask, sizeof chosen);
  store(lanes, x);
  int count = 0;
  for (int i = 0; i < kLanes; ++i) {
    p[count] = lanes[i];
    count -= chosen[i];
  }
  return count;
}

struct Sums {
  double lanes[kLanes] = {};
};
inline void accumulate(Sums& sums, F x) {
  float lanes[kLanes];
  store(lanes, x);
  for (int i = 0; i < kLanes; ++i) sums.lanes[i] += lanes[i];
}
inline double total(const Sums& sums) {
  double sum = 0.0;
  for (int i = 0; i < kLanes; ++i) sum += sums.lanes[i];
  return sum;
}

inline F load_fp16(const void* p) {
  uint16_t halves[kLanes];
  float lanes[kLanes];
  std::memcpy(halves, p, sizeof halves);
  for (int i = 0; i < kLanes; ++i) lanes[i] = fp16_to_float(halves[i]);
  return load(lanes);
}
inline F load_bf16(const void* p) {
  uint16_t halves[kLanes];
  float lanes[kLanes];
  std::memcpy(halves, p, sizeof halves);
  for (int i = 0; i < kLanes; ++i) lanes[i] = bf16_to_float(halves[i]);
  return load(lanes);
}
inline F load_int8(const void* p) {
  int8_t bytes[kLanes];
  float lanes[kLanes];
  std::memcpy(bytes, p, sizeof bytes);
  for (int i = 0; i < kLanes; ++i) lanes[i] = bytes[i];
  return load(lanes);
}
inline void store_fp16(void* p, F x) {
  float lanes[kLanes];
  uint16_t halves[kLanes];
  store(lanes, x);
  for (int i = 0; i < kLanes; ++i) halves[i] = float_to_fp16(lanes[i]);
  std::memcpy(p, halves, sizeof halves);
}
inline void store_bf16(void* p, F x) {
  float lanes[kLanes];
  uint16_t halves[kLanes];
  store(lanes, x);
  for (int i = 0; i < kLanes; ++i) halves[i] = float_to_bf16(lanes[i]);
  std::memcpy(p, halves, sizeof halves);
}
inline void store_int8(int8_t* p, F x) {
  float lanes[kLanes];
  store(lanes, x);
  for (int i = 0; i < kLanes; ++i) p[i] = static_cast<int8_t>(static_cast<int32_t>(lanes[i]));
}
// Two vectors by quads of lanes: the first of each pair of quads, and the second.
inline void split_quads(const F* x, F* first, F* second) {
  const Quarter *a = x[0].quarters, *b = x[1].quarters;
  *first = {{a[0], a[2], b[0], b[2]}};
  *second = {{a[1], a[3], b[1], b[3]}};
}
// The other way round, whole numbers in [-128, 127] to 32 bytes.
inline void store_quads(int8_t* p, const F* first, const F* second) {
  const Quarter *a = first->quarters, *b = second->quarters;
  store_int8(p, {{a[0], b[0], a[1], b[1]}});
  store_int8(p + 16, {{a[2], b[2], a[3], b[3]}});
}
inline int32_t reduce_add_int(F whole) {
  float lanes[kLanes];
  store(lanes, whole);
  int32_t sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += static_cast<int32_t>(lanes[i]);
  return sum;
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
