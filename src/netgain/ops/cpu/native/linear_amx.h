// Products with quantised weights on the matrix unit of AMX: weights and activations in bfloat16, sums over
// all input features in float32 by the unit.
//
// A tile's row is one output feature's block, 32 weights. With 4-bit codes they are among 16 numbers, which
// one multiply-add makes and a permutation of words looks up. Up to 16 rows take the weights as they are so
// unpacked for the left operand, a tile at a time, just before it is multiplied; more rows share tiles that
// are turned round for the right one, whose rows are pairs of input features. Both ways the unit adds the same
// products in the same order, so a row's result is the same bits with any number of other rows.
//
// Two tiles of output features are multiplied at once, as each product with one waits for the one before.
#pragma once

#include "tiles_amx.h"

namespace netgain {
namespace {

constexpr int64_t kPairStride = 2 * kTile;  // floats of a row of sums of two tiles
constexpr int64_t kSpan = 18;  // most blocks that are unpacked at a time: they fit the first-level cache
constexpr int64_t kManyRows = 512;  // most that share unpacked weights

// Turns 16 rows of 16 words of 32 bits round.
inline void transpose(__m512i* rows) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  constexpr int even = 0x88, odd = 0xdd;  // quarters of both operands
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], even);
    t[i + 4] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], odd);
    t[i + 8] = _mm512_shuffle_i32x4(rows[i + 8], rows[i + 12], even);
    t[i + 12] = _mm512_shuffle_i32x4(rows[i + 8], rows[i + 12], odd);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], even);
    rows[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], odd);
    rows[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], even);
    rows[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], odd);
  }
}

// Of the outputs of one block.
struct alignas(64) Factors {
  float scale[kTile], minimum[kTile];
};

// A float32 is cut off to bfloat16, not rounded, which makes it smaller by up to 1 part in 128, 1 in 370 on
// average over all mantissas: weights are made larger before, by what has few enough bits that no product
// below is rounded and a weight of 0 stays 0. They end within 3/4 of a unit in the last place of what they stand for.
constexpr float kCutOff = 1.0f + 3.0f / 1024.0f;

template <WeightFormat W>
inline void load_factors(const uint8_t* block, Factors& to) {
  const F scale = load_fp16(block);
  if constexpr (W == WeightFormat::kQ4_1) {
    store(to.scale, scale);
    store(to.minimum, mul(load_fp16(block + 2 * kTile), set1(kCutOff)));
  } else if constexpr (W == WeightFormat::kQ4_0) {
    store(to.scale, scale);
    store(to.minimum, mul(scale, set1(-8.0f * kCutOff)));
  } else {
    // Times 1 + (code + 128) / 256, the sum is the code times the scale.
    store(to.scale, mul(scale, set1(256.0f * kCutOff)));
    store(to.minimum, mul(scale, set1(-384.0f * kCutOff)));
  }
}

// The weights of a block in bfloat16, a line for each output.
template <WeightFormat W>
inline void unpack_block(const uint8_t* block, const Factors& factors, __m512i* outputs) {
  if constexpr (W == WeightFormat::kQ8_0) {
    // Codes become the upper bits of mantissas.
    const __m512i bits = _mm512_set1_epi32(0x7f8000), one = _mm512_set1_epi32(0x3f800000);
    const __m512i upper = _mm512_set1_epi32(static_cast<int32_t>(0xffff0000));
    constexpr int and_or = 0xea, or_and = 0xf8;
#pragma GCC unroll 8
    for (int o = 0; o < kTile; o += 2) {
      const __m512i words = _mm512_loadu_si512(block + 2 * kTile + o * kBlock);
      const __m512i places[4] = {words, _mm512_srli_epi32(words, 8), _mm512_ror_epi32(words, 16),
                                 _mm512_slli_epi32(words, 8)};
      const F scales[2] = {set1(factors.scale[o]), set1(factors.scale[o + 1])};
      const F minima[2] = {set1(factors.minimum[o]), set1(factors.minimum[o + 1])};
      F x[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const __m512i number = _mm512_ternarylogic_epi32(places[i], bits, one, and_or);
        x[i] = fma(_mm512_castsi512_ps(number), scales[i / 2], minima[i / 2]);
      }
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        const __m512i even = _mm512_srli_epi32(_mm512_castps_si512(x[2 * i]), 16);
        outputs[o + i] = _mm512_ternarylogic_epi32(even, _mm512_castps_si512(x[2 * i + 1]), upper, or_and);
      }
    }
    return;
  }
  // Of a table of 16 floats as 32 words, word 2 * code + 1 is the upper half of what the code stands for.
  const F numbers = mul(_mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), set1(kCutOff));
  const __m512i codes = _mm512_set1_epi16(0x1e1e), upper = _mm512_set1_epi16(0x0101);
  constexpr int and_or = 0xea;
  constexpr int64_t head = (W == WeightFormat::kQ4_1 ? 4 : 2) * kTile;
#pragma GCC unroll 4
  for (int first = 0; first < kTile; first += 4) {
    const __m512i words = _mm512_loadu_si512(block + head + first * kBlock / 2);
    const __m512i even = _mm512_ternarylogic_epi32(words, codes, upper, and_or);
    const __m512i odd = _mm512_ternarylogic_epi32(_mm512_shrdi_epi16(words, words, 4), codes, upper, and_or);
    const __m512i places[4] = {even, odd, _mm512_srli_epi16(even, 8), _mm512_srli_epi16(odd, 8)};
#pragma GCC unroll 4
    for (int o = first; o < first + 4; ++o) {
      const F table = fma(numbers, set1(factors.scale[o]), set1(factors.minimum[o]));
      outputs[o] = _mm512_permutexvar_epi16(places[o - first], _mm512_castps_si512(table));
    }
  }
}

// Two tiles of output features, or the last one.
struct TilePair {
  int64_t first;
  int count;
};

// One row, or the rows of a step of up to 16. Tiles 0 and 1: sums, 2 to 4 and 5 to 7: weights of both tiles
// and activations of a block and of the next.
template <WeightFormat W>
class FewRows {
 public:
  FewRows(const LinearArgs& args, int64_t row, int rows)
      : args_(args),
        values_(args.quantized.values + args.quantized.index(row, 0) * kBlockValues),
        pair_stride_(args.quantized.pair_rows ? 4 * args.quantized.pair_rows : 4),
        block_stride_(args.quantized.pair_rows ? args.quantized.pair_rows * kBlockValues : kTileBytes),
        rows_(rows) {
    const auto width = static_cast<uint16_t>(pair_stride_);
    tile_configure({1, 0, {}, {width, width, 64, 64, width, 64, 64, width}, {16, 16, 16, 16, 16, 16, 16, 16}});
  }
  FewRows(const FewRows&) = delete;
  FewRows& operator=(const FewRows&) = delete;
  ~FewRows() { _tile_release(); }

  // Calls finish(tiles, sums[rows][kPairStride]) for all of them. While two blocks are multiplied the next
  // two, maybe of the next tiles, are unpacked; sums are finished when the unit had time to store them.
  template <class Finish>
  void multiply(int64_t tile_begin, int64_t tile_end, const Finish& finish) {
    const int64_t blocks = args_.quantized.blocks;
    Cursor begin = {args_.weight.tile(tile_begin), blocks, tile_end - tile_begin, 0}, factors = begin, weights = begin;
    load_next(factors);
    load_next(factors);
    int half = 0;
    unpack_two(factors, weights, half);
    const auto finish_pair = [&](int64_t tile) {
      alignas(64) float sums[kRowGroup * kPairStride];
      turn_sums(sums);
      finish(TilePair{tile, static_cast<int>(smaller(2, tile_end - tile))}, sums);
    };
    for (int64_t tile = tile_begin; tile < tile_end; tile += 2) {
      tile_zero<0>();
      tile_zero<1>();
      for (int64_t b = 0; b < blocks; b += 2, half ^= 1) {
        unpack_two(factors, weights, half ^ 1);
        if (b == 0 && tile > tile_begin) finish_pair(tile - 2);
        add_products<2, 3, 4>(b, weights_[half][0]);
        if (b + 1 < blocks) add_products<5, 6, 7>(b + 1, weights_[half][1]);
      }
      const int64_t stride = pair_stride_ == 4 ? 4 : 64;  // a single row's sums lie side by side
      tile_store<0>(sums_[0], stride);
      tile_store<1>(sums_[1], stride);
    }
    finish_pair(tile_begin + (tile_end - tile_begin - 1) / 2 * 2);
  }

 private:
  // The next block of a pair of tiles, then of the pairs behind it.
  struct Cursor {
    const uint8_t* block;
    int64_t blocks, tiles;  // that are left
    unsigned count;  // of blocks that lie behind
  };

  int64_t tile_stride() const { return args_.quantized.blocks * quantized_block_bytes(W); }

  void advance(Cursor& at) const {
    at.block += quantized_block_bytes(W);
    ++at.count;
    if (--at.blocks > 0) return;
    at.blocks = args_.quantized.blocks;
    at.block += tile_stride();
    at.tiles -= 2;
  }

  void load_next(Cursor& at) {
    if (at.tiles <= 0) return;
    Factors* to = factors_[at.count % 4];
    load_factors<W>(at.block, to[0]);
    if (at.tiles > 1) load_factors<W>(at.block + tile_stride(), to[1]);
    advance(at);
  }

  // Of one pair of tiles. Their factors are loaded two blocks before they are used.
  void unpack_two(Cursor& factors, Cursor& weights, int half) {
    const int64_t count = smaller(2, weights.blocks);
    for (int64_t i = 0; i < count && weights.tiles > 0; ++i) {
      load_next(factors);
      const Factors* with = factors_[weights.count % 4];
      unpack(weights.block, with[0], weights_[half][i][0]);
      if (weights.tiles > 1) unpack(weights.block + tile_stride(), with[1], weights_[half][i][1]);
      advance(weights);
    }
  }

  static void unpack(const uint8_t* block, const Factors& factors, __m512i* to) {
    fetch_ahead(block, quantized_block_bytes(W));
    unpack_block<W>(block, factors, to);
  }

  template <int FIRST, int SECOND, int ACTIVATIONS>
  void add_products(int64_t block, const __m512i (*weights)[kTile]) const {
    tile_load<ACTIVATIONS>(values_ + block * block_stride_, pair_stride_);
    tile_load<FIRST>(weights[0], 64);
    tile_load<SECOND>(weights[1], 64);
    tile_add_products<0, FIRST, ACTIVATIONS>();
    tile_add_products<1, SECOND, ACTIVATIONS>();
  }

  // From outputs by rows to rows by outputs.
  void turn_sums(float* to) const {
    for (int t = 0; t < 2; ++t) {
      if (pair_stride_ == 4) {
        store(to + t * kTile, load(sums_[t]));
        continue;
      }
      for (int r = 0; r < rows_; r += 4) turn_four(sums_[t] + r, to + r * kPairStride + t * kTile);
    }
  }

  // Four rows: of four outputs in each quarter of a vector, then of sixteen in one.
  static void turn_four(const float* from, float* to) {
    F quads[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const float* at = from + i * kRowGroup;
      quads[i] = _mm512_castps128_ps512(_mm_load_ps(at));
      quads[i] = _mm512_insertf32x4(quads[i], _mm_load_ps(at + 4 * kRowGroup), 1);
      quads[i] = _mm512_insertf32x4(quads[i], _mm_load_ps(at + 8 * kRowGroup), 2);
      quads[i] = _mm512_insertf32x4(quads[i], _mm_load_ps(at + 12 * kRowGroup), 3);
    }
    const F low = _mm512_unpacklo_ps(quads[0], quads[1]), high = _mm512_unpackhi_ps(quads[0], quads[1]);
    const F next_low = _mm512_unpacklo_ps(quads[2], quads[3]), next_high = _mm512_unpackhi_ps(quads[2], quads[3]);
    constexpr int first = 0x44, second = 0xee;  // pairs of both operands
    store(to, _mm512_shuffle_ps(low, next_low, first));
    store(to + kPairStride, _mm512_shuffle_ps(low, next_low, second));
    store(to + 2 * kPairStride, _mm512_shuffle_ps(high, next_high, first));
    store(to + 3 * kPairStride, _mm512_shuffle_ps(high, next_high, second));
  }

  const LinearArgs& args_;
  const int8_t* values_;
  const int64_t pair_stride_, block_stride_;  // bytes
  const int rows_;
  Factors factors_[4][2];
  __m512i weights_[2][2][2][kTile];  // halves, blocks, tiles
  alignas(64) float sums_[2][kTile * kRowGroup];  // of the pair that was multiplied last
};

// Whole groups of rows, and one that is begun. Tiles 0 to 3: sums of two groups by two tiles, 4 and 5:
// activations, 6 and 7: weights.
template <WeightFormat W>
class ManyRows {
 public:
  explicit ManyRows(const LinearArgs& args) : args_(args) {
    static constexpr TileConfig config = {1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    tile_configure(config);
  }
  ManyRows(const ManyRows&) = delete;
  ManyRows& operator=(const ManyRows&) = delete;
  ~ManyRows() { _tile_release(); }

  // Rows [row_begin, row_end), kManyRows at most: calls finish(row, rows, sums[rows][kPairStride]) for up to
  // two groups at a time.
  template <class Finish>
  void multiply(int64_t row_begin, int64_t row_end, TilePair tiles, const Finish& finish) {
    const int64_t all = args_.quantized.blocks, spans = (all + kSpan - 1) / kSpan, span = (all + spans - 1) / spans;
    for (int64_t first = 0; first < all; first += span) {
      const int64_t blocks = smaller(span, all - first);
      for (int t = 0; t < tiles.count; ++t) unpack(tiles.first + t, t, first, blocks);
      for (int64_t row = row_begin; row < row_end; row += 2 * kRowGroup) {
        // With a single span the sums stay in the first-level cache.
        float* sums = spans == 1 ? sums_ : sums_ + (row - row_begin) * kPairStride;
        const int rows = static_cast<int>(smaller(2 * kRowGroup, row_end - row));
        const int8_t* values = args_.quantized.values + args_.quantized.index(row, first) * kBlockValues;
        const bool two_groups = rows > kRowGroup, two_tiles = tiles.count == 2;
        if (two_groups) {
          two_tiles ? add_products<2, 2>(values, first, blocks, sums) : add_products<2, 1>(values, first, blocks, sums);
        } else {
          two_tiles ? add_products<1, 2>(values, first, blocks, sums) : add_products<1, 1>(values, first, blocks, sums);
        }
        if (first + blocks == all) finish(row, rows, sums);
      }
    }
  }

 private:
  void unpack(int64_t tile, int t, int64_t first, int64_t blocks) {
    constexpr int64_t block_bytes = quantized_block_bytes(W);
    const uint8_t* block = args_.weight.tile(tile) + first * block_bytes;
    Factors factors[2];
    load_factors<W>(block, factors[0]);
    for (int64_t b = 0; b < blocks; ++b, block += block_bytes) {
      if (b + 1 < blocks) load_factors<W>(block + block_bytes, factors[(b + 1) % 2]);
      fetch_ahead(block, block_bytes);
      __m512i rows[kTile];
      unpack_block<W>(block, factors[b % 2], rows);
      transpose(rows);
#pragma GCC unroll 16
      for (int o = 0; o < kTile; ++o) _mm512_store_si512(weights_[b][t] + o, rows[o]);
    }
  }

  template <int GROUPS, int TILES>
  void add_products(const int8_t* values, int64_t first, int64_t blocks, float* sums) {
    constexpr int64_t stride = kPairStride * static_cast<int64_t>(sizeof(float));
    const int8_t* second = values + args_.quantized.blocks * kTileBytes;  // the next group
    float* second_sums = sums + kRowGroup * kPairStride;
    if (first == 0) {
      tile_zero<0>();
      tile_zero<1>();
      tile_zero<2>();
      tile_zero<3>();
    } else {
      tile_load<0>(sums, stride);
      if constexpr (TILES == 2) tile_load<1>(sums + kTile, stride);
      if constexpr (GROUPS == 2) tile_load<2>(second_sums, stride);
      if constexpr (GROUPS == 2 && TILES == 2) tile_load<3>(second_sums + kTile, stride);
    }
    for (int64_t b = 0; b < blocks; ++b, values += kTileBytes, second += kTileBytes) {
      tile_load_once<4>(values, kBlockValues);
      tile_load<6>(weights_[b][0], 64);
      tile_add_products<0, 4, 6>();
      if constexpr (TILES == 2) {
        tile_load<7>(weights_[b][1], 64);
        tile_add_products<1, 4, 7>();
      }
      if constexpr (GROUPS == 2) {
        tile_load_once<5>(second, kBlockValues);
        tile_add_products<2, 5, 6>();
        if constexpr (TILES == 2) tile_add_products<3, 5, 7>();
      }
    }
    tile_store<0>(sums, stride);
    if constexpr (TILES == 2) tile_store<1>(sums + kTile, stride);
    if constexpr (GROUPS == 2) tile_store<2>(second_sums, stride);
    if constexpr (GROUPS == 2 && TILES == 2) tile_store<3>(second_sums + kTile, stride);
  }

  const LinearArgs& args_;
  __m512i weights_[kSpan][2][kTile];
  alignas(64) float sums_[kManyRows * kPairStride];
};

// Calls finish(tiles, row, rows, sums[rows][kPairStride]) for all rows of all tiles, some at a time.
template <WeightFormat W, class Finish>
void multiply_tiles(const LinearArgs& args, int64_t row_begin, int64_t row_end, int64_t tile_begin, int64_t tile_end,
                    const Finish& finish) {
  if (args.quantized.pair_rows || row_end - row_begin == 1) {
    const int rows = static_cast<int>(row_end - row_begin);
    FewRows<W> products(args, row_begin, rows);
    products.multiply(tile_begin, tile_end, [&](TilePair tiles, float* sums) { finish(tiles, row_begin, rows, sums); });
    return;
  }
  ManyRows<W> products(args);
  for (int64_t row = row_begin; row < row_end; row += kManyRows) {
    for (int64_t tile = tile_begin; tile < tile_end; tile += 2) {
      const TilePair tiles = {tile, static_cast<int>(smaller(2, tile_end - tile))};
      products.multiply(row, smaller(row_end, row + kManyRows), tiles,
                        [&](int64_t at, int rows, float* sums) { finish(tiles, at, rows, sums); });
    }
  }
}

template <class Finish>
void multiply_tiles(const LinearArgs& args, int64_t row_begin, int64_t row_end, int64_t tile_begin, int64_t tile_end,
                    const Finish& finish) {
  switch (args.weight.format) {
    case WeightFormat::kQ8_0:
      return multiply_tiles<WeightFormat::kQ8_0>(args, row_begin, row_end, tile_begin, tile_end, finish);
    case WeightFormat::kQ4_0:
      return multiply_tiles<WeightFormat::kQ4_0>(args, row_begin, row_end, tile_begin, tile_end, finish);
    default: return multiply_tiles<WeightFormat::kQ4_1>(args, row_begin, row_end, tile_begin, tile_end, finish);
  }
}

void linear_on_tiles(const LinearArgs& args, int64_t row_begin, int64_t row_end, int64_t tile_begin, int64_t tile_end) {
  multiply_tiles(args, row_begin, row_end, tile_begin, tile_end,
                 [&](TilePair tiles, int64_t row, int rows, float* sums) {
                   for (int t = 0; t < tiles.count; ++t) {
                     add_bias(args, tiles.first + t, sums + t * kTile, kPairStride, rows);
                     write_tile(args, row, tiles.first + t, sums + t * kTile, kPairStride, rows);
                   }
                 });
}

// 16 features from `feature` on of a row.
inline void store_half_block(__m256i values, int64_t row, int64_t feature, const QuantizedRows& out) {
  if (const int64_t stride = out.pair_rows) {
    int8_t* to = out.values + feature / kBlock * stride * kBlockValues + (feature % kBlock / 2 * stride + row) * 4;
    const __m256i places =
        _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(static_cast<int32_t>(stride)));
    return _mm256_i32scatter_epi32(to, places, values, 4);
  }
  int8_t* to = out.values + out.index(row, feature / kBlock) * kBlockValues + feature % kBlock * 2;
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), values);
}

// A pair of tiles is a gate and what it is for.
void gated_on_tiles(const GatedArgs& gate, int64_t row_begin, int64_t row_end, int64_t unit_begin, int64_t unit_end) {
  const LinearArgs& args = gate.linear;
  const int64_t features = args.weight.rows / 2, tiles_end = round_up(features, kBlock) * 2 / kTile;
  const auto finish = [&](TilePair tiles, int64_t row, int rows, float* sums) {
    const int64_t feature = tiles.first / 2 * kTile;
    for (int t = 0; t < 2; ++t) add_bias(args, tiles.first + t, sums + t * kTile, kPairStride, rows);
    for (int r = 0; r < rows; ++r) {
      const float* at = sums + r * kPairStride;
      const F result = mul(activate(gate.activation, load(at)), load(at + kTile));
      if (args.y) {
        if (feature < features) store_at_most(args.y + (row + r) * args.y_stride + feature, result, features - feature);
      } else {
        store_half_block(_mm512_castsi512_si256(to_bf16(result, result)), row + r, feature, gate.out);
      }
    }
  };
  multiply_tiles(args, row_begin, row_end, unit_begin * kUnitTiles, smaller(unit_end * kUnitTiles, tiles_end), finish);
}

}  // namespace
}  // namespace netgain
