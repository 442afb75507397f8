// What kernels of every instruction set share, over the vector functions of one. Included inside
// each instruction set's own translation unit.
#pragma once

namespace netgain {
namespace {

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// A vector, or its first `count` > 0 floats where that is less; the others are loaded as 0.
inline F load_at_most(const float* p, int64_t count) { return count < kLanes ? load_first(p, count, 0.0f) : load(p); }
inline void store_at_most(float* p, F x, int64_t count) {
  return count < kLanes ? store_first(p, x, count) : store(p, x);
}

// How far ahead of its use a weight is asked for. Loads and hardware prefetching alone keep too few
// cache lines under way to draw what memory can give (see docs/decisions/cpu-backend.md).
constexpr int64_t kAheadBytes = 12 * 1024;

// Brings `bytes` weights far behind `at` to the second-level cache; past the matrix does no harm.
inline void fetch_ahead(const uint8_t* at, int64_t bytes) {
#pragma GCC unroll 16
  for (int64_t byte = 0; byte < bytes; byte += 64) __builtin_prefetch(at + kAheadBytes + byte, 0, 2);
}

// e ** x, within 2 units in the last place, for x clamped to [-87, 88]: a masked score of -infinity
// still gives 1e-38, so whoever masks sets the weight to 0.
// Polynomial of Cephes' expf after reduction by ln 2 in two parts.
inline F exponential(F x) {
  F clamped = min(max(x, set1(-87.0f)), set1(88.0f));
  F n = round(mul(clamped, set1(1.44269504088896341f)));
  F r = fma(n, set1(-0.693359375f), clamped);
  r = fma(n, set1(2.12194440e-4f), r);
  F p = set1(1.9875691500e-4f);
  p = fma(p, r, set1(1.3981999507e-3f));
  p = fma(p, r, set1(8.3334519073e-3f));
  p = fma(p, r, set1(4.1665795894e-2f));
  p = fma(p, r, set1(1.6666665459e-1f));
  p = fma(p, r, set1(5.0000001201e-1f));
  p = add(fma(mul(r, r), p, r), set1(1.0f));
  return mul(p, power_of_two(n));
}

#if defined(NETGAIN_MATRIX_UNIT)
// Rounds up to kScaleBlocks blocks to bfloat16, see formats.h: nearest, ties to even, denormal numbers to
// zero. `block` is the first of them, x its kBlock / kLanes vectors and those of the next one, unless it is
// a row's last.
inline void quantize_blocks(const F* x, int64_t row, int64_t block, const QuantizedRows& out) {
  static_assert(kBlock == 2 * kLanes && kBlockValues == 2 * kBlock, "two vectors are a block");
  const int64_t blocks = smaller(kScaleBlocks, out.blocks - block);
  for (int64_t b = 0; b < blocks; ++b) {
    const __m512i values = to_bf16(x[2 * b], x[2 * b + 1]);
    if (out.pair_rows) {
      const __m512i pairs = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
      const __m512i places = _mm512_mullo_epi32(pairs, _mm512_set1_epi32(static_cast<int32_t>(out.pair_rows)));
      _mm512_i32scatter_epi32(out.values + (block + b) * out.pair_rows * kBlockValues + row * 4, places, values, 4);
    } else {
      _mm512_storeu_si512(out.values + out.index(row, block + b) * kBlockValues, values);
    }
  }
}
#else
inline F clamp(F x, float limit) { return max(min(x, set1(limit)), set1(-limit)); }

// One block of `q = x * inverse`, rounded to twelve bits, see formats.h: nearest, ties to even. Returns the sum of q.
inline int32_t store_twelve_bits(int8_t* values, const F* x, F inverse) {
  const auto whole = [&](F value) { return clamp(mul(value, inverse), kLargest); };
#if defined(NETGAIN_STORES_PLANES)
  static_assert(kBlock == 2 * kLanes && kPlane == kBlock, "two vectors are a block");
  return store_planes(values, whole(x[0]), whole(x[1]));
#elif defined(NETGAIN_STORES_WORDS)
  static_assert(kBlock == 4 * kLanes, "four vectors are a block");
  return store_words(values, whole(x[0]), whole(x[1]), whole(x[2]), whole(x[3]));
#else
  F sums = zero();
  for (int i = 0; i < kBlock / kLanes; ++i) {
    F q = round(whole(x[i]));
    F high = round(mul(q, set1(1.0f / 16.0f)));
    store_int8(values + i * kLanes, high);
    store_int8(values + kPlane + i * kLanes, fma(high, set1(-16.0f), q));
    sums = add(sums, q);
  }
  return reduce_add_int(sums);
#endif
}

// The same, rounded in pairs. The whole numbers are small: no operation on them rounds.
inline int32_t store_pairs(int8_t* values, const F* x, F inverse) {
  constexpr int vectors = kBlock / 2 / kLanes;
  F scaled[2 * vectors], first[vectors], second[vectors], high_first[vectors], high_second[vectors];
  for (int i = 0; i < 2 * vectors; ++i) scaled[i] = clamp(mul(x[i], inverse), kLargestOfPair);
  split_quads(scaled, first, second);
  F sums = zero();
  for (int i = 0; i < vectors; ++i) {
    // How often (1, 7) and (9, -1) fit: the coordinates of the pair, each rounded.
    const F s = round(mul(add(first[i], mul(second[i], set1(9.0f))), set1(1.0f / 64.0f)));
    const F t = round(mul(sub(mul(first[i], set1(7.0f)), second[i]), set1(1.0f / 64.0f)));
    const F p = fma(t, set1(9.0f), s), r = sub(mul(s, set1(7.0f)), t);
    high_first[i] = round(mul(p, set1(1.0f / 64.0f)));
    const F shared = fma(high_first[i], set1(-64.0f), p);
    high_second[i] = mul(fma(shared, set1(-7.0f), r), set1(1.0f / 64.0f));
    store_int8(values + kPlane + i * kLanes, shared);
    sums = add(sums, add(s, t));
  }
  store_quads(values, high_first, high_second);
  return 8 * reduce_add_int(sums);  // p + r = 8 * (s + t)
}

// Quantises the blocks that share a scale, see formats.h. `block` is the first of them, x its kBlock / kLanes
// vectors and those of the next one, unless it is a row's last. Values too small for their scale's inverse to be
// finite become 0.
inline void quantize_blocks(const F* x, int64_t row, int64_t block, const QuantizedRows& out) {
  constexpr int vectors = kBlock / kLanes;
  const int64_t blocks = smaller(kScaleBlocks, out.blocks - block);
  F largest = abs(x[0]);
  for (int i = 1; i < vectors; ++i) largest = max(largest, abs(x[i]));
  if (blocks == kScaleBlocks) {
    for (int i = vectors; i < kScaleBlocks * vectors; ++i) largest = max(largest, abs(x[i]));
  }
  const float most = reduce_max(largest);
  const bool any = most > 1e-30f, pairs = out.rounding == Rounding::kPairs;
  const float limit = pairs ? kLargestOfPair : kLargest;
  const float scale = any ? most * (pairs ? 1.0f / kLargestOfPair : 1.0f / kLargest) : 0.0f;
  const F inverse = set1(any ? limit / most : 0.0f);
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t at = out.index(row, block + b);
    int8_t* values = out.values + at * kBlockValues;
    const F* from = x + b * vectors;
    const int32_t sum = pairs ? store_pairs(values, from, inverse) : store_twelve_bits(values, from, inverse);
    out.scales[at] = scale;
    out.offsets[at] = -8 * sum;
    out.scaled_sums[at] = scale * static_cast<float>(sum);
  }
}
#endif

}  // namespace
}  // namespace netgain
