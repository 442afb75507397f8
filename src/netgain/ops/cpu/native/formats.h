// Storage formats shared by packing, kernels and plan.
//
// Letters: T tokens of a step, N rows, O output and I input features, H query heads, K key-value
// heads, D head dim, S slots of a KV block.
#pragma once

#include <cstddef>
#include <cstdint>

namespace netgain {

// A packed matrix [O, I] is cut into tiles of 16 output features, so that a kernel of any vector
// width computes whole tiles with one output feature per lane: each output is then summed in one
// order of its input features, however many rows share the call.
inline constexpr int kTile = 16;

// Input features that share a scale in weights.
inline constexpr int kBlock = 32;
// Blocks that share a scale in quantised activations, the last of a row with what is left.
inline constexpr int kScaleBlocks = 2;
inline constexpr int64_t kScaled = kScaleBlocks * kBlock;

// Values are part of the interface to Python.
enum class WeightFormat : int32_t { kFp32 = 0, kBf16 = 1, kFp16 = 2, kQ8_0 = 3, kQ4_0 = 4, kQ4_1 = 5 };

// Quantised: tile-major, then block: [O/16][I/32] of
//     float16 scale[16]              one per output feature
//     float16 minimum[16]            kQ4_1 only
//     codes                          see CodeLayout
// as exact as the GGUF blocks they come from: scale * q, scale * (q - 8), scale * q + minimum.
// Dense: [O/16][I][16] elements. Missing rows and columns of the last tile and block are zero.
constexpr bool is_quantized(WeightFormat format) { return format >= WeightFormat::kQ8_0; }

constexpr int64_t quantized_block_bytes(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ8_0: return 32 + 512;
    case WeightFormat::kQ4_0: return 32 + 256;
    case WeightFormat::kQ4_1: return 64 + 256;
    default: return 0;
  }
}

constexpr int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

// Bytes of one tile over all input features.
constexpr int64_t tile_bytes(WeightFormat format, int64_t columns) {
  return is_quantized(format) ? round_up(columns, kBlock) / kBlock * quantized_block_bytes(format)
                              : columns * kTile * (format == WeightFormat::kFp32 ? 4 : 2);
}

// The order of a block's codes, 8 or 4 bits each, is that of the instruction set that multiplies them.
// Values are part of the interface to Python.
enum class CodeLayout : int32_t {
  // Quads of input features that one integer instruction sums, output features side by side:
  //     kQ8_0:       int8  [8][16][4]  quad q of input features 4 q .. 4 q + 3, per output feature
  //     kQ4_0/kQ4_1: uint8 [4][16][4]  low nibble: quad 2 q, high nibble: quad 2 q + 1
  kByQuad = 0,
  // Input features side by side, for a matrix unit, whose rows of weights are one output's each:
  //     kQ8_0:       uint32 [8][16]  a pair of features of one output, then of the next, plus 128, in a word that
  //                                  is turned left by 15 bits
  //     kQ4_0/kQ4_1: uint16 [4][32]  a feature of four outputs in a word that is turned left by one bit
  kByOutput = 1,
};

struct Matrix {
  WeightFormat format;
  int64_t rows;     // output features
  int64_t columns;  // input features
  const uint8_t* data;
  const float* bias;  // [rows rounded up to tiles] or null

  int64_t tiles() const { return (rows + kTile - 1) / kTile; }
  int64_t blocks() const { return (columns + kBlock - 1) / kBlock; }
  const uint8_t* tile(int64_t index) const { return data + index * tile_bytes(format, columns); }
};

// Activations for quantised weights. For a matrix unit they are bfloat16, kBlock of them in the place of a
// block's values, and nothing else. For all others whole numbers: value = scale * q, one scale for 64 input
// features, in blocks of 32, rounded as suits the weights that they meet. (With 8 bits one token in thirty was
// another than with float32, see docs/decisions.)
// Rows are kept in groups of 16, block after block, [rows / 16][blocks][16] of whatever belongs to a
// block of a row: a group's block is one tile of a matrix unit, and what kernels of several rows
// need lies side by side. Values are part of the interface to Python, where 0 stands for float32.
enum class Rounding : int32_t {
  // For 8-bit weights, 12 bits each: q lies in [-kLargest, kLargest]. In two layouts:
  //     planes  int8 high[32], low[32] with q = 16 * high + low, so that 8-bit dot products serve:
  //             weights times `high` and times `low`
  //     words   int16 q[32] in the order 0 2 1 3, 4 6 5 7, ...: AVX2, whose 16-bit products add up
  //             two at a time in 32 bits, and AVX-VNNI, which shares its code for everything else
  kTwelveBits = 1,
  // For 4-bit weights, two features at a time, those whose codes c and d share a byte (see CodeLayout):
  // they become p and r in [-kLargestOfPair - 5, kLargestOfPair + 5], the point next to them of the lattice that
  // (1, 7) and (9, -1) span. It holds one pair of whole numbers in 64, so they are as good as steps of 8, and it
  // is where p = 64 * h + x and r = 64 * k + 7 * x for some x: c * p + d * r = 64 * (c * h + d * k) + (c + 7 * d) * x,
  // three products of bytes where planes of as many bits take four.
  //     int8 high[32]    h and k, in the order of the features
  //     int8 shared[16]  x, in [-32, 32]
  //     and 16 bytes that nobody reads
  kPairs = 2,
};
constexpr Rounding rounding_for(WeightFormat format) {
  return format == WeightFormat::kQ8_0 ? Rounding::kTwelveBits : Rounding::kPairs;
}

inline constexpr int kLargest = 2039;         // `high` fits 8 bits
inline constexpr int kLargestOfPair = 7900;
static_assert(kLargestOfPair + 4 + 7 * 32 <= 64 * 127, "k fits 8 bits, and so does h");
inline constexpr int64_t kPlane = kBlock;     // bytes of `high`, then `low` or `shared`
inline constexpr int64_t kBlockValues = 2 * kPlane;
inline constexpr int64_t kRowGroup = 16;

struct QuantizedRows {
  int8_t* values;  // kBlockValues bytes per block of a row; of zeros behind the last feature
  float* scales;       // per block, the same for both of a pair
  int32_t* offsets;    // -8 times the sum of q: added to products with q + 8, gives those with q
  float* scaled_sums;  // scale times the sum of q
  int64_t blocks;
  Rounding rounding;
  // For a matrix unit, how many rows a step has, if 2 to 16: values are then [blocks][16 pairs][rows][2]. Else 0.
  int64_t pair_rows;

  int64_t index(int64_t row, int64_t block) const {
    return (row / kRowGroup * blocks + block) * kRowGroup + row % kRowGroup;
  }
};

// How keys and values are kept. A record (one block of one KV group) is, per layer,
//     keys   [K] of elements [D][S]   (token innermost: scores of 16 tokens are one vector)
//     values [K] of elements [S][D]
// and, kInt8 only, behind the elements of each head's keys and of its values float32 scale[S].
enum class KVFormat : int32_t { kFp32 = 0, kBf16 = 1, kFp16 = 2, kInt8 = 3 };

constexpr int64_t kv_element_bytes(KVFormat format) {
  switch (format) {
    case KVFormat::kFp32: return 4;
    case KVFormat::kInt8: return 1;
    default: return 2;
  }
}

struct KVLayout {
  KVFormat format;
  int64_t layers, kv_heads, head_dim, block_tokens;

  int64_t head_bytes() const {  // keys (or values) of one head
    return block_tokens * (head_dim * kv_element_bytes(format) + (format == KVFormat::kInt8 ? 4 : 0));
  }
  int64_t keys_offset(int64_t layer, int64_t head) const { return (layer * 2 * kv_heads + head) * head_bytes(); }
  int64_t values_offset(int64_t layer, int64_t head) const {
    return ((layer * 2 + 1) * kv_heads + head) * head_bytes();
  }
  int64_t record_bytes() const { return layers * 2 * kv_heads * head_bytes(); }
};

}  // namespace netgain
