// Sixteen rows by sixteen output features at once on AMX, for steps of many rows. The rows left over are
// served by dot_avx512_vnni.h with the same bits: the integer sums are exact and each output adds its
// blocks in the same order with the same operations.
//
// While tiles are in use a core executes one 512-bit instruction a cycle instead of two, so it is their
// number that decides: the minima of Q4_1, scaled sums times minima over all blocks, are left to the
// matrix unit, in bfloat16 products of which it adds up even and odd ones apart (Intel SDM, TDPBF16PS). Weights
// count from the middle of their range there, scale * (q - 8) + (minimum + 8 * scale), so that this part
// is small; the minimum in brackets is two bfloat16 that add up to 16 bits of it.
#pragma once

#include "dot_avx512_vnni.h"
#include "tiles_amx.h"

namespace netgain {
namespace {

using LinearModes = NoDenormals;  // as the unit has none
constexpr bool kAsMatrixUnit = true;

struct Halves {
  __m512i high, low;  // the bits of bfloat16 in the upper halves
};

inline Halves minimum_halves(const uint8_t* block, F scale) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int32_t>(0xffff0000));
  const F minimum = fma(scale, set1(8.0f), load_fp16(block + 32));
  const __m512i high = _mm512_and_si512(_mm512_castps_si512(minimum), upper);
  const F rest = sub(minimum, _mm512_castsi512_ps(high));
  return {high, _mm512_and_si512(_mm512_castps_si512(rest), upper)};
}

// Sums over blocks of minimum times scaled sum, for R rows, in the order of the matrix unit.
template <int R>
class Minima {
 public:
  // Of block b, the blocks in order. `sums`: its scaled sums.
  void add_block(int64_t b, const uint8_t* block, F scale, const float* sums) {
    if (b % kSumTile == 0 && b > 0) add_up();
    const Halves halves = minimum_halves(block, scale);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const F sum = set1(sums[r]);
      even_[r] = fma(sum, _mm512_castsi512_ps(halves.high), even_[r]);
      odd_[r] = fma(sum, _mm512_castsi512_ps(halves.low), odd_[r]);
    }
  }

  void add_to(F* totals) {
    add_up();
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) totals[r] = add(totals[r], sums_[r]);
  }

 private:
  void add_up() {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      sums_[r] = add(sums_[r], add(even_[r], odd_[r]));
      even_[r] = odd_[r] = zero();
    }
  }

  F sums_[R] = {}, even_[R] = {}, odd_[R] = {};
};

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

// Products of whole groups of rows with one packed tile of quantised weights. While one lives, the unit's
// tiles are 0 to 3: sums, 4 and 5: activations, 6 and 7: weights, of 64 products (`high` times sixteenfold
// weights, then `low` times weights), or with 8-bit weights of the 32 of one plane.
class GroupProducts {
 public:
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

  // Which tile is multiplied next, by `rows` rows.
  void begin(int64_t tile, int64_t rows) {
    packed_ = args_.weight.tile(tile);
    unpacked_ = rows > kRowGroup && args_.weight.format != WeightFormat::kQ8_0;
    switch (args_.weight.format) {
      case WeightFormat::kQ8_0: return;
      case WeightFormat::kQ4_0: return begin_format<WeightFormat::kQ4_0>();
      default: return begin_format<WeightFormat::kQ4_1>();
    }
  }

  // Rows [row, row_end) of whole groups: of rows in them that nobody wrote they mean nothing.
  void multiply(int64_t row, int64_t row_end, float* out, int64_t out_stride) const {
    for (; row < row_end; row += kRowGroup, out += kRowGroup * out_stride) {
      switch (args_.weight.format) {
        case WeightFormat::kQ8_0: multiply_group<WeightFormat::kQ8_0, false>(row, out, out_stride); break;
        case WeightFormat::kQ4_0: multiply_group<WeightFormat::kQ4_0>(row, out, out_stride); break;
        default: multiply_group<WeightFormat::kQ4_1>(row, out, out_stride); break;
      }
    }
  }

 private:
  static constexpr int kMostBlocks = 256;
  static constexpr int64_t kStep = kRowGroup * kBlockValues;
  static constexpr int64_t kSums = kRowGroup * kTile;
  template <WeightFormat W>
  static constexpr int64_t kPayload = W == WeightFormat::kQ4_1 ? 64 : 32;

  // Of a group of rows: integer sums of four blocks, and weights of eight that are unpacked on the way.
  template <WeightFormat W>
  struct Stage {
    static constexpr bool two_planes = W == WeightFormat::kQ8_0;
    static constexpr int64_t size = (two_planes ? 2 : 1) * kSums;
    alignas(64) int32_t sums[4 * size];
    alignas(64) uint8_t weights[two_planes ? 1 : 8][1024];

    F dot(int64_t block, int row) const {
      const int32_t* at = sums + block % 4 * size + row * kTile;
      const Words words = _mm512_load_si512(at);
      if constexpr (!two_planes) return to_floats(words);
      return to_floats(add_sixteenfold(_mm512_load_si512(at + kSums), words));
    }
  };

  template <WeightFormat W>
  void begin_format() {
    const int64_t blocks = args_.quantized.blocks;
    const uint8_t* block = packed_;
    for (int64_t b = 0; b < blocks; ++b, block += quantized_block_bytes(W)) {
      if constexpr (W == WeightFormat::kQ4_1) {
        const Halves halves = minimum_halves(block, load_fp16(block));
        _mm512_store_si512(minima_[b], _mm512_or_si512(_mm512_srli_epi32(halves.high, 16), halves.low));
      }
      if (!unpacked_) continue;
      fetch_ahead(block, quantized_block_bytes(W));
      _mm512_store_ps(scales_[b], load_fp16(block));
      unpack_nibbles(block + kPayload<W>, weights_[b]);
    }
    if constexpr (W == WeightFormat::kQ4_1) {
      for (int64_t b = blocks; b % kSumTile != 0; ++b) _mm512_store_si512(minima_[b], no_words());
    }
  }

  template <WeightFormat W>
  void multiply_group(int64_t row, float* out, int64_t out_stride) const {
    unpacked_ ? multiply_group<W, true>(row, out, out_stride) : multiply_group<W, false>(row, out, out_stride);
  }

  // Two blocks are multiplied while the two before them are added. Weights of a single group are unpacked
  // two blocks before they are multiplied, as tiles cannot be loaded from stores under way, and never
  // leave the first-level cache.
  template <WeightFormat W, bool kUnpacked>
  void multiply_group(int64_t row, float* out, int64_t out_stride) const {
    Stage<W> stage;
    const int64_t blocks = args_.quantized.blocks, first = args_.quantized.index(row, 0);
    const int8_t* values = args_.quantized.values + first * kBlockValues;
    const float* scales = args_.quantized.scales + first;
    const auto unpack = [&](int64_t b) {
      if constexpr (!kUnpacked) unpack_ahead(b, stage);
    };
    const auto weight_scale = [&](int64_t b) {
      return kUnpacked ? load(scales_[b]) : load_fp16(packed_ + b * quantized_block_bytes(W));
    };
    alignas(64) float minima[W == WeightFormat::kQ4_1 ? kSums : 1];
    if constexpr (W == WeightFormat::kQ4_1) multiply_minima(row, minima);
    F total[kRowGroup];
#pragma GCC unroll 16
    for (int r = 0; r < kRowGroup; ++r) total[r] = zero();
    for (int64_t b = 0; b < 4; ++b) unpack(b);
    advance<0, W, kUnpacked>(values, 0, stage);
    advance<1, W, kUnpacked>(values, 1, stage);
    for (int64_t b = 0; b < blocks; b += kScaleBlocks) {
      unpack(b + 4);
      advance<0, W, kUnpacked>(values, b + 2, stage);
      advance<1, W, kUnpacked>(values, b + 3, stage);
      unpack(b + 5);
      const F scale = weight_scale(b);
      if (b + 1 < blocks) {
        const F next_scale = weight_scale(b + 1);
#pragma GCC unroll 16
        for (int r = 0; r < kRowGroup; ++r) {
          const F pair = fma(stage.dot(b + 1, r), next_scale, mul(stage.dot(b, r), scale));
          total[r] = fma(pair, set1(scales[b * kRowGroup + r]), total[r]);
        }
      } else {
#pragma GCC unroll 16
        for (int r = 0; r < kRowGroup; ++r) {
          total[r] = fma(mul(stage.dot(b, r), scale), set1(scales[b * kRowGroup + r]), total[r]);
        }
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRowGroup; ++r) {
      if constexpr (W == WeightFormat::kQ4_1) total[r] = add(total[r], load(minima + r * kTile));
      store(out + r * out_stride, total[r]);
    }
  }

  template <WeightFormat W>
  void unpack_ahead(int64_t b, Stage<W>& stage) const {
    if (b >= args_.quantized.blocks) return;
    const uint8_t* block = packed_ + b * quantized_block_bytes(W);
    fetch_ahead(block, quantized_block_bytes(W));
    if constexpr (!Stage<W>::two_planes) unpack_nibbles(block + kPayload<W>, stage.weights[b % 8]);
  }

  // Keeps the sums of block b - 2 and begins those of block b, both even (C is 0) or odd.
  template <int C, WeightFormat W, bool kUnpacked>
  void advance(const int8_t* values, int64_t b, Stage<W>& stage) const {
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
      tile_load<6 + C>(packed_ + b * quantized_block_bytes(W) + kPayload<W>, 64);
    } else {
      tile_load<6 + C>(kUnpacked ? weights_[b] : stage.weights[b % 8], 64);
    }
    tile_zero<sum>();
    tile_add_products<sum, a, 6 + C>();
    if constexpr (two_planes) {
      tile_zero<sum + 1>();
      tile_add_products<sum + 1, 5, 6 + C>();
    }
  }

  // Scaled sums times minima.
  void multiply_minima(int64_t row, float* out) const {
    const int64_t stride = args_.quantized.sum_tile_row();
    const uint32_t* sums = args_.quantized.sum_tiles + row * stride;
    tile_zero<2>();
    for (int64_t b = 0; b < stride; b += kSumTile) {
      tile_load<4>(sums + b * kRowGroup, 64);
      tile_load<6>(minima_[b], 64);
      tile_add_bf16_products<2, 4, 6>();
    }
    tile_store<2>(out, 64);
  }

  const LinearArgs& args_;
  const uint8_t* packed_ = nullptr;
  bool unpacked_ = false;
  alignas(64) uint8_t weights_[kMostBlocks][1024];
  alignas(64) float scales_[kMostBlocks][kTile];
  alignas(64) uint32_t minima_[kMostBlocks][kTile];  // two bfloat16 each
};

}  // namespace
}  // namespace netgain
