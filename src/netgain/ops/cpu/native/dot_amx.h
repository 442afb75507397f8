// Sixteen rows by sixteen output features at once on AMX, for steps of many rows. The rows left over are
// served by dot_avx512_vnni.h with the same bits: the integer sums are exact and each output adds its
// blocks in the same order with the same operations.
//
// While tiles are in use a core executes one 512-bit instruction a cycle instead of two, so it is their
// number that decides: the minima of Q4_1, scaled sums times minima over all blocks, are left to the
// matrix unit, in bfloat16 products of which it adds up even and odd ones apart (Intel SDM, TDPBF16PS). Weights
// count from the middle of their range there, scale * (q - 8) + (minimum + 8 * scale), so that this part
// is small; the minimum in brackets is two bfloat16 that add up to it.
#pragma once

#include <cstring>

#include "dot_avx512_vnni.h"
#include "tiles_amx.h"

namespace netgain {
namespace {

using LinearModes = NoDenormals;  // as the unit has none
constexpr bool kMinimaApart = true;

struct Halves {
  __m512i high, low;  // the bits of bfloat16 in the upper halves
};

inline Halves minimum_halves(const uint8_t* block) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int32_t>(0xffff0000));
  const F minimum = fma(load_fp16(block), set1(8.0f), load_fp16(block + 32));
  const __m512i high = _mm512_and_si512(_mm512_castps_si512(minimum), upper);
  const F rest = sub(minimum, _mm512_castsi512_ps(high));
  return {high, _mm512_and_si512(_mm512_castps_si512(rest), upper)};
}

// out[r] = sum over blocks of minimum times scaled sum, in the order of the matrix unit.
template <int R>
inline void minima(const uint8_t* block, int64_t blocks, const float* scaled_sums, F* out) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) out[r] = zero();
  for (int64_t begin = 0; begin < blocks; begin += kSumTile) {
    F even[R], odd[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) even[r] = odd[r] = zero();
    const int64_t end = smaller(blocks, begin + kSumTile);
    for (int64_t b = begin; b < end; ++b, block += quantized_block_bytes(WeightFormat::kQ4_1)) {
      const Halves halves = minimum_halves(block);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const F sum = set1(scaled_sums[b * kRowGroup + r]);
        even[r] = fma(sum, _mm512_castsi512_ps(halves.high), even[r]);
        odd[r] = fma(sum, _mm512_castsi512_ps(halves.low), odd[r]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) out[r] = add(out[r], add(even[r], odd[r]));
  }
}

// The bytes that the unit multiplies: quads 0 to 7 sixteenfold, then plain, both less 8.
inline void unpack_nibbles(const uint8_t* payload, uint8_t* to) {
  // Bit matrices, the row of an output bit's byte 7 - i: the low nibble to the upper half, and either
  // nibble with its upper bit, which becomes the sign, drawn out. The constants turn that bit round.
  const __m512i raise = _mm512_set1_epi64(0x0000000001020408), low_signed = _mm512_set1_epi64(0x0102040808080808),
                high_signed = _mm512_set1_epi64(0x1020408080808080);
  constexpr int upper_bit = 0x80, sign = 0xf8;
  const __m512i upper = _mm512_set1_epi8(static_cast<char>(0xf0)), top = _mm512_set1_epi8(static_cast<char>(0x80));
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q, to += 128) {
    const __m512i both = _mm512_loadu_si512(payload + 64 * q);
    _mm512_store_si512(to, _mm512_gf2p8affine_epi64_epi8(both, raise, upper_bit));
    _mm512_store_si512(to + 64, _mm512_xor_si512(_mm512_and_si512(both, upper), top));
    _mm512_store_si512(to + 512, _mm512_gf2p8affine_epi64_epi8(both, low_signed, sign));
    _mm512_store_si512(to + 576, _mm512_gf2p8affine_epi64_epi8(both, high_signed, sign));
  }
}

// Products of whole groups of rows with a few tiles of quantised weights. While one lives, its thread's
// tiles are 0 to 3: sums, 4 and 5: activations, 6 and 7: weights, of 64 products (`high` times
// sixteenfold weights, then `low` times weights), or with 8-bit weights of the 32 of one plane.
class GroupProducts {
 public:
  static constexpr int kMostTiles = 2;
  static constexpr int64_t kFewRows = 8;  // that other kernels multiply as fast as a group

  explicit GroupProducts(const LinearArgs& args) : args_(args) {
    static constexpr TileConfig both = {1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    static constexpr TileConfig one = {1, 0, {}, {64, 64, 64, 64, 32, 32, 64, 64}, {16, 16, 16, 16, 16, 16, 8, 8}};
    tile_configure(args.weight.format == WeightFormat::kQ8_0 ? one : both);
  }
  GroupProducts(const GroupProducts&) = delete;
  GroupProducts& operator=(const GroupProducts&) = delete;
  ~GroupProducts() { _tile_release(); }

  static bool fits(const LinearArgs& args) {
    return is_quantized(args.weight.format) && args.quantized.blocks <= kMostBlocks;
  }

  // What is multiplied next: `count` packed tiles by `rows` rows.
  void begin(int64_t tile, int64_t count, int64_t rows) {
    tile_ = tile, count_ = count;
    switch (args_.weight.format) {
      case WeightFormat::kQ8_0: return begin_format<WeightFormat::kQ8_0>(rows);
      case WeightFormat::kQ4_0: return begin_format<WeightFormat::kQ4_0>(rows);
      default: return begin_format<WeightFormat::kQ4_1>(rows);
    }
  }

  // The products of `rows` rows, a multiple of kRowGroup, side by side: of rows that nobody wrote they mean nothing.
  void multiply(int64_t row, int64_t rows, float* out, int64_t out_stride) const {
    switch (args_.weight.format) {
      case WeightFormat::kQ8_0: return multiply_format<WeightFormat::kQ8_0>(row, rows, out, out_stride);
      case WeightFormat::kQ4_0: return multiply_format<WeightFormat::kQ4_0>(row, rows, out, out_stride);
      default: return multiply_format<WeightFormat::kQ4_1>(row, rows, out, out_stride);
    }
  }

 private:
  static constexpr int kMostBlocks = 256;
  static constexpr int64_t kStep = kRowGroup * kBlockValues;
  static constexpr int64_t kSums = kRowGroup * kTile;
  static constexpr int64_t kPair = 2 * kRowGroup;  // rows that are multiplied with unpacked tiles

  struct alignas(64) Unpacked {
    uint8_t weights[kMostBlocks][1024];
    float scales[kMostBlocks][kTile];
  };

  template <WeightFormat W>
  void begin_format(int64_t rows) {
    const int64_t blocks = args_.quantized.blocks;
    for (int64_t place = 0; place < count_; ++place) {
      const uint8_t* block = args_.weight.tile(tile_ + place);
      if constexpr (W == WeightFormat::kQ4_1) {
        for (int64_t b = 0; b < blocks; ++b) {
          const Halves halves = minimum_halves(block + b * quantized_block_bytes(W));
          const __m512i pairs = _mm512_or_si512(_mm512_srli_epi32(halves.high, 16), halves.low);
          _mm512_store_si512(minima_[place][b], pairs);
        }
        for (int64_t b = blocks; b % kSumTile != 0; ++b) _mm512_store_si512(minima_[place][b], no_words());
      }
      if (W == WeightFormat::kQ8_0 || rows < kPair) continue;
      Unpacked& to = unpacked_[place];
      for (int64_t b = 0; b < blocks; ++b, block += quantized_block_bytes(W)) {
        fetch_ahead(block, quantized_block_bytes(W));
        _mm512_store_ps(to.scales[b], load_fp16(block));
        unpack_nibbles(block + kPayload<W>, to.weights[b]);
      }
    }
  }

  template <WeightFormat W>
  void multiply_format(int64_t row, int64_t rows, float* out, int64_t out_stride) const {
    if constexpr (W != WeightFormat::kQ8_0) {
      for (; rows >= kPair; rows -= kPair, row += kPair, out += kPair * out_stride) {
        count_ == 2 ? multiply_pair<W, 2>(row, out, out_stride) : multiply_pair<W, 1>(row, out, out_stride);
      }
    }
    for (; rows > 0; rows -= kRowGroup, row += kRowGroup, out += kRowGroup * out_stride) {
      for (int64_t place = 0; place < count_; ++place) multiply_group<W>(row, place, out + place * kTile, out_stride);
    }
  }

  template <WeightFormat W>
  static constexpr int64_t kPayload = W == WeightFormat::kQ4_1 ? 64 : 32;

  static F dot(const int32_t* sums) { return to_floats(_mm512_load_si512(sums)); }
  static F dot_of_planes(const int32_t* high) {
    return to_floats(add_sixteenfold(_mm512_load_si512(high + kSums), _mm512_load_si512(high)));
  }

  // --- One group of rows by one tile, whose weights are unpacked on the way and never leave the
  // first-level cache: two blocks before they are multiplied, as tiles cannot be loaded from stores under
  // way, and they are multiplied two blocks before they are added.

  template <WeightFormat W>
  struct Stage {
    static constexpr bool two_planes = W == WeightFormat::kQ8_0;
    static constexpr int64_t size = (two_planes ? 2 : 1) * kSums;
    alignas(64) int32_t sums[4 * size];
    alignas(64) uint8_t weights[two_planes ? 1 : 8][1024];
  };

  template <WeightFormat W>
  void unpack_ahead(const uint8_t* packed, int64_t b, Stage<W>& stage) const {
    if (b >= args_.quantized.blocks) return;
    const uint8_t* block = packed + b * quantized_block_bytes(W);
    fetch_ahead(block, quantized_block_bytes(W));
    if constexpr (W != WeightFormat::kQ8_0) unpack_nibbles(block + kPayload<W>, stage.weights[b % 8]);
  }

  // Keeps the sums of block b - 2 and begins those of block b, both even (C is 0) or odd.
  template <int C, WeightFormat W>
  void advance(const uint8_t* packed, const int8_t* values, int64_t b, Stage<W>& stage) const {
    constexpr bool two_planes = Stage<W>::two_planes;
    constexpr int sum = two_planes ? 2 * C : C, a = two_planes ? 4 : 4 + C;
    const int64_t blocks = args_.quantized.blocks;
    int32_t* done = stage.sums + (b + 2) % 4 * stage.size;
    if (b >= 2 && b < blocks + 2) {
      tile_store<sum>(done, 64);
      if constexpr (two_planes) tile_store<sum + 1>(done + kSums, 64);
    }
    if (b >= blocks) return;
    tile_load<a>(values + b * kStep, kBlockValues);
    if constexpr (two_planes) {
      tile_load<5>(values + b * kStep + kPlane, kBlockValues);
      tile_load<6 + C>(packed + b * quantized_block_bytes(W) + kPayload<W>, 64);
    } else {
      tile_load<6 + C>(stage.weights[b % 8], 64);
    }
    tile_zero<sum>();
    tile_add_products<sum, a, 6 + C>();
    if constexpr (two_planes) {
      tile_zero<sum + 1>();
      tile_add_products<sum + 1, 5, 6 + C>();
    }
  }

  template <WeightFormat W>
  void multiply_group(int64_t row, int64_t place, float* out, int64_t out_stride) const {
    Stage<W> stage;
    const int64_t blocks = args_.quantized.blocks, first = args_.quantized.index(row, 0);
    const int8_t* values = args_.quantized.values + first * kBlockValues;
    const float* scales = args_.quantized.scales + first;
    const uint8_t* packed = args_.weight.tile(tile_ + place);
    const auto dots = [&](int64_t b, int r) __attribute__((always_inline)) {
      const int32_t* at = stage.sums + b % 4 * stage.size + r * kTile;
      return Stage<W>::two_planes ? dot_of_planes(at) : dot(at);
    };
    F total[kRowGroup];
#pragma GCC unroll 16
    for (int r = 0; r < kRowGroup; ++r) total[r] = zero();
    for (int64_t b = 0; b < 4; ++b) unpack_ahead(packed, b, stage);
    advance<0>(packed, values, 0, stage);
    advance<1>(packed, values, 1, stage);
    for (int64_t b = 0; b < blocks; b += kScaleBlocks) {
      unpack_ahead(packed, b + 4, stage);
      advance<0>(packed, values, b + 2, stage);
      advance<1>(packed, values, b + 3, stage);
      unpack_ahead(packed, b + 5, stage);
      const uint8_t* block = packed + b * quantized_block_bytes(W);
      const F scale = load_fp16(block);
      if (b + 1 < blocks) {
        const F next_scale = load_fp16(block + quantized_block_bytes(W));
#pragma GCC unroll 16
        for (int r = 0; r < kRowGroup; ++r) {
          const F pair = fma(dots(b + 1, r), next_scale, mul(dots(b, r), scale));
          total[r] = fma(pair, set1(scales[b * kRowGroup + r]), total[r]);
        }
      } else {
#pragma GCC unroll 16
        for (int r = 0; r < kRowGroup; ++r) {
          total[r] = fma(mul(dots(b, r), scale), set1(scales[b * kRowGroup + r]), total[r]);
        }
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRowGroup; ++r) store(out + r * out_stride, total[r]);
    if constexpr (W == WeightFormat::kQ4_1) add_minima(row, place, out, out_stride);
  }

  // --- Two groups of rows by T unpacked tiles: half as many tiles to load. Four totals do not fit the
  // registers.

  template <int T>
  struct PairStage {
    alignas(64) int32_t sums[4][2][T][kSums];
    alignas(64) float totals[2][T][kSums];
  };

  // Keeps the sums of group G and block b - 1, and begins those of block b.
  template <int G, int T>
  void advance_pair(const int8_t* values, int64_t b, PairStage<T>& stage) const {
    const int64_t blocks = args_.quantized.blocks;
    if (b > blocks) return;
    const bool more = b < blocks;
    auto& done = stage.sums[(b + 3) % 4][G];
    if (more) {
      tile_load<4 + G>(values + (G * blocks + b) * kStep, kBlockValues);
      if constexpr (G == 0) tile_load<6>(unpacked_[0].weights[b], 64);
      if constexpr (G == 0 && T == 2) tile_load<7>(unpacked_[1].weights[b], 64);
    }
    // A tile of sums is emptied just before it is filled anew: by then its products are there.
    if (b > 0) tile_store<G * T>(done[0], 64);
    if (more) tile_zero<G * T>(), tile_add_products<G * T, 4 + G, 6>();
    if constexpr (T == 2) {
      if (b > 0) tile_store<G * T + 1>(done[1], 64);
      if (more) tile_zero<G * T + 1>(), tile_add_products<G * T + 1, 4 + G, 7>();
    }
  }

  // Adds blocks b and b + 1, or the last one.
  template <int G, int P, int T>
  void add_pair(int64_t b, const float* scales, PairStage<T>& stage) const {
    const int64_t blocks = args_.quantized.blocks;
    const int32_t *sums = stage.sums[b % 4][G][P], *next_sums = stage.sums[(b + 1) % 4][G][P];
    float* total = stage.totals[G][P];
    scales += (G * blocks + b) * kRowGroup;
    const F scale = load(unpacked_[P].scales[b]);
    if (b + 1 < blocks) {
      const F next_scale = load(unpacked_[P].scales[b + 1]);
#pragma GCC unroll 16
      for (int r = 0; r < kRowGroup; ++r, total += kTile) {
        const F pair = fma(dot(next_sums + r * kTile), next_scale, mul(dot(sums + r * kTile), scale));
        store(total, fma(pair, set1(scales[r]), load(total)));
      }
    } else {
#pragma GCC unroll 16
      for (int r = 0; r < kRowGroup; ++r, total += kTile) {
        store(total, fma(mul(dot(sums + r * kTile), scale), set1(scales[r]), load(total)));
      }
    }
  }

  // The matrix unit works two blocks ahead of the additions, its instructions spread among them.
  template <WeightFormat W, int T>
  void multiply_pair(int64_t row, float* out, int64_t out_stride) const {
    PairStage<T> stage;
    std::memset(stage.totals, 0, sizeof stage.totals);
    const int64_t blocks = args_.quantized.blocks, first = args_.quantized.index(row, 0);
    const int8_t* values = args_.quantized.values + first * kBlockValues;
    const float* scales = args_.quantized.scales + first;
    for (int64_t b = 0; b < 2; ++b) {
      advance_pair<0>(values, b, stage);
      advance_pair<1>(values, b, stage);
    }
    for (int64_t b = 0; b < blocks; b += kScaleBlocks) {
      advance_pair<0>(values, b + 2, stage);
      add_pair<0, 0>(b, scales, stage);
      advance_pair<1>(values, b + 2, stage);
      if constexpr (T == 2) add_pair<0, 1>(b, scales, stage);
      advance_pair<0>(values, b + 3, stage);
      add_pair<1, 0>(b, scales, stage);
      advance_pair<1>(values, b + 3, stage);
      if constexpr (T == 2) add_pair<1, 1>(b, scales, stage);
    }
    for (int64_t group = 0; group < 2; ++group, row += kRowGroup, out += kRowGroup * out_stride) {
      for (int64_t place = 0; place < T; ++place) {
        float* to = out + place * kTile;
        const float* total = stage.totals[group][place];
        for (int r = 0; r < kRowGroup; ++r) store(to + r * out_stride, load(total + r * kTile));
        if constexpr (W == WeightFormat::kQ4_1) add_minima(row, place, to, out_stride);
      }
    }
  }

  // Scaled sums times minima of one group and tile.
  void add_minima(int64_t row, int64_t place, float* out, int64_t out_stride) const {
    const int64_t stride = args_.quantized.sum_tile_row();
    const uint32_t* sums = args_.quantized.sum_tiles + row * stride;
    alignas(64) float minima[kSums];
    tile_zero<0>();
    for (int64_t b = 0; b < stride; b += kSumTile) {
      tile_load<4>(sums + b * kRowGroup, 64);
      tile_load<6>(minima_[place][b], 64);
      tile_add_bf16_products<0, 4, 6>();
    }
    tile_store<0>(minima, 64);
    for (int r = 0; r < kRowGroup; ++r, out += out_stride) store(out, add(load(out), load(minima + r * kTile)));
  }

  const LinearArgs& args_;
  int64_t tile_ = 0, count_ = 0;
  alignas(64) uint32_t minima_[kMostTiles][kMostBlocks][kTile];  // two bfloat16 each
  Unpacked unpacked_[kMostTiles];
};

}  // namespace
}  // namespace netgain
