// Sixteen rows by sixteen output features at once on AMX, for steps of many rows. Included after
// dot_avx512_vnni.h, which serves the rows left over with the same bits: the integer sums are exact
// and each output adds its blocks in the same order with the same operations.
#pragma once

#define NETGAIN_MATRIX_UNIT 1

namespace netgain {
namespace {

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16];
  uint8_t rows[16];
};

// The compiler's own intrinsics for these do not say that they read memory (gcc 12), so stores
// before them may come too late.
inline void tile_configure(const TileConfig& config) { asm volatile("ldtilecfg %0" ::"m"(config)); }
#define NETGAIN_TILE_LOAD(tile, base, stride) \
  asm volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(base), "r"(static_cast<int64_t>(stride)) : "memory")
#define NETGAIN_TILE_STORE(tile, base, stride) \
  asm volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(base), "r"(static_cast<int64_t>(stride)) : "memory")

class Unpacked {
 public:
  static constexpr int kRows = 16;

  Unpacked() {
    // Tiles 0 and 3: activations, 1 and 4: weights, 2 and 5: sums. A block's 32 input features are
    // 8 quads.
    static constexpr TileConfig config = {1, 0, {}, {32, 64, 64, 32, 64, 64}, {16, 8, 16, 16, 8, 16}};
    tile_configure(config);
  }
  ~Unpacked() { _tile_release(); }

  static bool fits(const LinearArgs& args, int64_t rows) {
    return rows >= kRows && is_quantized(args.weight.format) && args.quantized.blocks <= kMostBlocks;
  }

  // Weights of one tile as signed bytes, and their scales as float32.
  void unpack(const LinearArgs& args, int64_t tile) {
    switch (args.weight.format) {
      case WeightFormat::kQ8_0: return unpack_format<WeightFormat::kQ8_0>(args, tile);
      case WeightFormat::kQ4_0: return unpack_format<WeightFormat::kQ4_0>(args, tile);
      default: return unpack_format<WeightFormat::kQ4_1>(args, tile);
    }
  }

  // As TileKernel, for kRows rows.
  void multiply(const LinearArgs& args, int64_t row, int64_t /*tile*/, float* out, int64_t out_stride) const {
    if (args.weight.format == WeightFormat::kQ4_1) return multiply_format<true>(args, row, out, out_stride);
    multiply_format<false>(args, row, out, out_stride);
  }

 private:
  static constexpr int kMostBlocks = 256;

  template <WeightFormat W>
  void unpack_format(const LinearArgs& args, int64_t tile) {
    const uint8_t* block = args.weight.tile(tile);
    const __m512i nibble = _mm512_set1_epi8(0x0f), eight = _mm512_set1_epi8(8);
    for (int64_t b = 0; b < args.quantized.blocks; ++b, block += quantized_block_bytes(W)) {
      _mm512_store_ps(scales_[b], load_fp16(block));
      if constexpr (W == WeightFormat::kQ4_1) _mm512_store_ps(minima_[b], load_fp16(block + 32));
      const uint8_t* payload = block + (W == WeightFormat::kQ4_1 ? 64 : 32);
      for (int q = 0; q < 4; ++q) {
        if constexpr (W == WeightFormat::kQ8_0) {
          for (int half = 0; half < 2; ++half) {
            const int at = 2 * q + half;
            _mm512_store_si512(weights_[b] + 64 * at, _mm512_loadu_si512(payload + 64 * at));
          }
        } else {
          __m512i both = _mm512_loadu_si512(payload + 64 * q);
          __m512i low = _mm512_and_si512(both, nibble);
          __m512i high = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
          if constexpr (W == WeightFormat::kQ4_0) {
            low = _mm512_sub_epi8(low, eight);
            high = _mm512_sub_epi8(high, eight);
          }
          _mm512_store_si512(weights_[b] + 128 * q, low);
          _mm512_store_si512(weights_[b] + 128 * q + 64, high);
        }
      }
    }
  }

  // Integer sums of blocks `block` and, with `pair`, of the next one.
  void dots(const int8_t* values, int64_t block, bool pair, int32_t* sums) const {
    constexpr int64_t step = kRowGroup * kBlock;
    _tile_zero(2);
    NETGAIN_TILE_LOAD(0, values + block * step, kBlock);
    NETGAIN_TILE_LOAD(1, weights_[block], 64);
    _tile_dpbssd(2, 0, 1);
    if (pair) {
      _tile_zero(5);
      NETGAIN_TILE_LOAD(3, values + (block + 1) * step, kBlock);
      NETGAIN_TILE_LOAD(4, weights_[block + 1], 64);
      _tile_dpbssd(5, 3, 4);
    }
    NETGAIN_TILE_STORE(2, sums, 64);
    if (pair) NETGAIN_TILE_STORE(5, sums + kRows * kTile, 64);
  }

  template <bool has_minimum>
  void multiply_format(const LinearArgs& args, int64_t row, float* out, int64_t out_stride) const {
    // The matrix unit works a pair of blocks ahead of the additions.
    alignas(64) int32_t sums[4][kRows * kTile];
    const int64_t blocks = args.quantized.blocks, first = args.quantized.index(row, 0);
    const int8_t* values = args.quantized.values + first * kBlock;
    const float* scales = args.quantized.scales + first;
    const float* scaled_sums = args.quantized.scaled_sums + first;
    F total[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) total[r] = zero();
    dots(values, 0, blocks > 1, sums[0]);
    for (int64_t b = 0; b < blocks; ++b) {
      if (b % 2 == 0 && b + 2 < blocks) dots(values, b + 2, b + 3 < blocks, sums[(b + 2) % 4]);
      const int32_t* dot = sums[b % 4];
      const F scale = _mm512_load_ps(scales_[b]);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        F value = _mm512_cvtepi32_ps(_mm512_load_si512(dot + r * kTile));
        total[r] = fma(value, mul(scale, set1(scales[b * kRowGroup + r])), total[r]);
      }
      if constexpr (has_minimum) {
        const F minimum = _mm512_load_ps(minima_[b]);
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) total[r] = fma(minimum, set1(scaled_sums[b * kRowGroup + r]), total[r]);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) store(out + r * out_stride, total[r]);
  }

  alignas(64) int8_t weights_[kMostBlocks][512];
  alignas(64) float scales_[kMostBlocks][kTile];
  alignas(64) float minima_[kMostBlocks][kTile];
};

}  // namespace
}  // namespace netgain
