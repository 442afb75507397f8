// Sixteen rows by sixteen output features at once on AMX, for steps of many rows. The rows left over are
// served by dot_avx512_vnni.h with the same bits: the integer sums are exact and each output adds its
// blocks in the same order with the same operations.
#pragma once

#include "dot_avx512_vnni.h"
#include "tiles_amx.h"

namespace netgain {
namespace {

class Unpacked {
 public:
  Unpacked() {
    // Tiles 0 and 3: activations, 1 and 4: weights, 2 and 5: sums, of 64 products: `high` times
    // sixteenfold weights, then `low` times weights. Tiles 6 and 7: one plane and 8-bit weights.
    static constexpr TileConfig config = {1, 0, {}, {64, 64, 64, 64, 64, 64, 32, 64}, {16, 16, 16, 16, 16, 16, 16, 8}};
    tile_configure(config);
  }
  ~Unpacked() { _tile_release(); }

  static bool fits(const LinearArgs& args, int64_t rows) {
    return rows >= kRowGroup && is_quantized(args.weight.format) && args.quantized.blocks <= kMostBlocks;
  }

  // Weights of one tile as bytes, and their scales as float32.
  void unpack(const LinearArgs& args, int64_t tile) {
    switch (args.weight.format) {
      case WeightFormat::kQ8_0: return unpack_format<WeightFormat::kQ8_0>(args, tile);
      case WeightFormat::kQ4_0: return unpack_format<WeightFormat::kQ4_0>(args, tile);
      default: return unpack_format<WeightFormat::kQ4_1>(args, tile);
    }
  }

  // As TileKernel, for kRowGroup rows.
  void multiply(const LinearArgs& args, int64_t row, int64_t /*tile*/, float* out, int64_t out_stride) const {
    switch (args.weight.format) {
      case WeightFormat::kQ8_0: return multiply_format<WeightFormat::kQ8_0>(args, row, out, out_stride);
      case WeightFormat::kQ4_0: return multiply_format<WeightFormat::kQ4_0>(args, row, out, out_stride);
      default: return multiply_format<WeightFormat::kQ4_1>(args, row, out, out_stride);
    }
  }

 private:
  static constexpr int kMostBlocks = 256;
  static constexpr int64_t kStep = kRowGroup * kBlockValues;

  // Four bits: quads 0 to 7 sixteenfold, then plain. Q4_1 unsigned, Q4_0 signed.
  template <WeightFormat W>
  void unpack_format(const LinearArgs& args, int64_t tile) {
    const uint8_t* block = args.weight.tile(tile);
    const __m512i nibble = _mm512_set1_epi8(0x0f), upper = _mm512_set1_epi8(static_cast<char>(0xf0));
    const __m512i offset = _mm512_set1_epi8(W == WeightFormat::kQ4_0 ? 8 : 0);
    const __m512i offset16 = _mm512_set1_epi8(static_cast<char>(W == WeightFormat::kQ4_0 ? 128 : 0));
    for (int64_t b = 0; b < args.quantized.blocks; ++b, block += quantized_block_bytes(W)) {
      fetch_ahead(block, quantized_block_bytes(W));
      _mm512_store_ps(scales_[b], load_fp16(block));
      if constexpr (W == WeightFormat::kQ4_1) _mm512_store_ps(minima_[b], load_fp16(block + 32));
      const uint8_t* payload = block + (W == WeightFormat::kQ4_1 ? 64 : 32);
      if constexpr (W == WeightFormat::kQ8_0) {
        for (int q = 0; q < 8; ++q) _mm512_store_si512(weights_[b] + 64 * q, _mm512_loadu_si512(payload + 64 * q));
      } else {
        for (int q = 0; q < 4; ++q) {
          const __m512i both = _mm512_loadu_si512(payload + 64 * q);
          const __m512i low = _mm512_and_si512(both, nibble);
          const __m512i high = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
          const __m512i low16 = _mm512_slli_epi16(low, 4), high16 = _mm512_and_si512(both, upper);
          uint8_t* to = weights_[b] + 128 * q;
          _mm512_store_si512(to, _mm512_sub_epi8(low16, offset16));
          _mm512_store_si512(to + 64, _mm512_sub_epi8(high16, offset16));
          _mm512_store_si512(to + 512, _mm512_sub_epi8(low, offset));
          _mm512_store_si512(to + 576, _mm512_sub_epi8(high, offset));
        }
      }
    }
  }

  // Integer sums of blocks `block` and, with `pair`, of the next one.
  template <WeightFormat W>
  void dots(const int8_t* values, int64_t block, bool pair, int32_t* sums) const {
    if constexpr (W == WeightFormat::kQ8_0) {
      // `low` sums behind the `high` ones.
      for (int64_t b = block; b <= block + (pair ? 1 : 0); ++b, sums += 2 * kRowGroup * kTile) {
        _tile_zero(2);
        _tile_zero(5);
        NETGAIN_TILE_LOAD(7, weights_[b], 64);
        NETGAIN_TILE_LOAD(6, values + b * kStep, kBlockValues);
        _tile_dpbssd(2, 6, 7);
        NETGAIN_TILE_LOAD(6, values + b * kStep + kPlane, kBlockValues);
        _tile_dpbssd(5, 6, 7);
        NETGAIN_TILE_STORE(2, sums, 64);
        NETGAIN_TILE_STORE(5, sums + kRowGroup * kTile, 64);
      }
    } else {
      _tile_zero(2);
      NETGAIN_TILE_LOAD(0, values + block * kStep, kBlockValues);
      NETGAIN_TILE_LOAD(1, weights_[block], 64);
      if constexpr (W == WeightFormat::kQ4_0) _tile_dpbssd(2, 0, 1);
      if constexpr (W == WeightFormat::kQ4_1) _tile_dpbsud(2, 0, 1);
      if (pair) {
        _tile_zero(5);
        NETGAIN_TILE_LOAD(3, values + (block + 1) * kStep, kBlockValues);
        NETGAIN_TILE_LOAD(4, weights_[block + 1], 64);
        if constexpr (W == WeightFormat::kQ4_0) _tile_dpbssd(5, 3, 4);
        if constexpr (W == WeightFormat::kQ4_1) _tile_dpbsud(5, 3, 4);
      }
      NETGAIN_TILE_STORE(2, sums, 64);
      if (pair) NETGAIN_TILE_STORE(5, sums + kRowGroup * kTile, 64);
    }
  }

  template <WeightFormat W>
  void multiply_format(const LinearArgs& args, int64_t row, float* out, int64_t out_stride) const {
    constexpr bool two_planes = W == WeightFormat::kQ8_0;
    constexpr int64_t size = (two_planes ? 2 : 1) * kRowGroup * kTile;
    // The matrix unit works a pair of blocks ahead of the additions.
    alignas(64) int32_t sums[4 * size];
    const int64_t blocks = args.quantized.blocks, first = args.quantized.index(row, 0);
    const int8_t* values = args.quantized.values + first * kBlockValues;
    const float* scales = args.quantized.scales + first;
    const float* scaled_sums = args.quantized.scaled_sums + first;
    F total[kRowGroup];
#pragma GCC unroll 16
    for (int r = 0; r < kRowGroup; ++r) total[r] = zero();
    dots<W>(values, 0, blocks > 1, sums);
    for (int64_t b = 0; b < blocks; ++b) {
      if (b % 2 == 0 && b + 2 < blocks) dots<W>(values, b + 2, b + 3 < blocks, sums + (b + 2) % 4 * size);
      const int32_t* dot = sums + b % 4 * size;
      const F scale = _mm512_load_ps(scales_[b]);
#pragma GCC unroll 16
      for (int r = 0; r < kRowGroup; ++r) {
        __m512i words = _mm512_load_si512(dot + r * kTile);
        if constexpr (two_planes) {
          words = _mm512_add_epi32(_mm512_slli_epi32(words, 4), _mm512_load_si512(dot + (kRowGroup + r) * kTile));
        }
        const F value = _mm512_cvtepi32_ps(words);
        total[r] = fma(value, mul(scale, set1(scales[b * kRowGroup + r])), total[r]);
      }
      if constexpr (W == WeightFormat::kQ4_1) {
        const F minimum = _mm512_load_ps(minima_[b]);
#pragma GCC unroll 16
        for (int r = 0; r < kRowGroup; ++r) total[r] = fma(minimum, set1(scaled_sums[b * kRowGroup + r]), total[r]);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRowGroup; ++r) store(out + r * out_stride, total[r]);
  }

  alignas(64) uint8_t weights_[kMostBlocks][1024];
  alignas(64) float scales_[kMostBlocks][kTile];
  alignas(64) float minima_[kMostBlocks][kTile];
};

}  // namespace
}  // namespace netgain
