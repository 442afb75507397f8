// Products of attention as the matrix unit computes them, in bfloat16 with float32 sums: for every line,
// so that the lines beside it change nothing. Included by attention_impl.h, whose rules hold.
//
// A product over 32 pairs of numbers (dims of a score, tokens of a weighted value) is the sum of two
// chains of fused multiply-adds from zero, over the even and over the odd ones, added to the sum so far,
// all rounded to nearest, what is denormal taken for zero (Intel SDM volume 2, TDPBF16PS). For few lines
// most of a tile would be idle, and the unit takes as long: there vector instructions do the same
// operations in the same order.
#pragma once

#include "tiles_amx.h"

namespace netgain {
namespace {

constexpr int64_t kLineTile = 16;     // lines of one tile of the matrix unit
constexpr int64_t kPairTokens = 32;   // tokens of one product with values

constexpr int kFewLines = 6;          // most that vector instructions serve

// Eight tiles of sixteen rows of 64 bytes, for as long as it lives.
class AttentionTiles {
 public:
  AttentionTiles() {
    static constexpr TileConfig config = {1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    tile_configure(config);
  }
  AttentionTiles(const AttentionTiles&) = delete;
  AttentionTiles& operator=(const AttentionTiles&) = delete;
  ~AttentionTiles() { _tile_release(); }
};

// Float32 keys and values ask for float32 products.
inline bool tiles_fit(const KVLayout& layout) {
  return layout.format != KVFormat::kFp32 && layout.head_dim % kBlock == 0 && layout.head_dim <= 4 * kBlock;
}

// Blocks that are no whole groups: elements as they are, in groups, behind the place of the tiles.
template <KVFormat kFormat>
inline void gather_records(const AttentionArgs& args, const Work& work, int64_t split, const Span& span,
                           Pointers& pointers, const AttentionScratch& scratch) {
  constexpr int64_t bytes = kBytes<kFormat>;
  static_assert(bytes <= 2, "tiles and elements share the place of float32 copies");
  const KVLayout& layout = args.layout;
  const int64_t dim = work.head_dim, size = layout.block_tokens;
  uint8_t* keys_to = reinterpret_cast<uint8_t*>(scratch.keys) + kContextSplit * dim * 2;
  uint8_t* values_to = reinterpret_cast<uint8_t*>(scratch.values) + kContextSplit * dim * 2;
  for (int64_t token = span.begin; token < span.end; ++token) {
    const int64_t position = split * kContextSplit + token, slot = position % size;
    const uint8_t* record = args.step.records + work.table[position / size] * layout.record_bytes();
    const uint8_t* keys = record + layout.keys_offset(args.layer, work.task->kv_head);
    const uint8_t* values = record + layout.values_offset(args.layer, work.task->kv_head);
    uint8_t* key_to = keys_to + (token / kGroup * dim * kGroup + token % kGroup) * bytes;
    for (int64_t d = 0; d < dim; ++d) std::memcpy(key_to + d * kGroup * bytes, keys + (d * size + slot) * bytes, bytes);
    std::memcpy(values_to + token * dim * bytes, values + slot * dim * bytes, static_cast<size_t>(dim * bytes));
    copy_scales<kFormat>(keys + size * dim * bytes + slot * 4, scratch.key_scales + token, 1);
    copy_scales<kFormat>(values + size * dim * bytes + slot * 4, scratch.value_scales + token, 1);
  }
  pointers.key_stride = kGroup * bytes;
  pointers.value_stride = dim * bytes;
  for (int group = 0; group < kGroups; ++group) {
    pointers.keys[group] = keys_to + group * dim * kGroup * bytes;
    pointers.values[group] = values_to + group * dim * kGroup * bytes;
  }
  for (const uint8_t*& ahead : pointers.ahead) ahead = keys_to;
}

// A float16 becomes a bfloat16 of 2 ** -112 times its value by moving its bits (numbers below 2 ** -14
// become 0), in a third of the instructions that going over float32 takes. What it is multiplied with
// is scaled by 2 ** 112.
template <KVFormat kFormat>
constexpr float kTileScale = kFormat == KVFormat::kFp16 ? 5.192296858534828e33f : 1.0f;

// 32 elements as bfloat16, rounded to nearest.
template <KVFormat kFormat>
inline __m512i narrowed(__m512i words) {
  if constexpr (kFormat != KVFormat::kFp16) return words;
  const __m512i rounded = _mm512_srai_epi16(_mm512_add_epi16(words, _mm512_set1_epi16(4)), 3);
  return _mm512_and_si512(rounded, _mm512_set1_epi16(static_cast<int16_t>(0x8fff)));
}

// 16 of each of two rows.
template <KVFormat kFormat>
inline __m512i of_two(const uint8_t* first, const uint8_t* second) {
  if constexpr (kBytes<kFormat> == 1) return to_bf16(load_elements<kFormat>(first), load_elements<kFormat>(second));
  const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(first));
  return narrowed<kFormat>(
      _mm512_inserti64x4(_mm512_castsi256_si512(low), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(second)), 1));
}

// 32 of one row.
template <KVFormat kFormat>
inline __m512i of_one(const uint8_t* row) {
  if constexpr (kBytes<kFormat> == 1) return of_two<kFormat>(row, row + kLanes);
  return narrowed<kFormat>(_mm512_loadu_si512(row));
}

// 16 elements of each of two rows as pairs.
template <KVFormat kFormat>
inline __m512i paired(const uint8_t* first, const uint8_t* second) {
  // Byte by byte, as that is the cheaper permutation: word i of the first row, word i of the second.
  alignas(64) static constexpr uint8_t order[64] = {0,  1,  32, 33, 2,  3,  34, 35, 4,  5,  36, 37, 6,  7,  38, 39,
                                                    8,  9,  40, 41, 10, 11, 42, 43, 12, 13, 44, 45, 14, 15, 46, 47,
                                                    16, 17, 48, 49, 18, 19, 50, 51, 20, 21, 52, 53, 22, 23, 54, 55,
                                                    24, 25, 56, 57, 26, 27, 58, 59, 28, 29, 60, 61, 30, 31, 62, 63};
  return _mm512_permutexvar_epi8(_mm512_load_si512(order), of_two<kFormat>(first, second));
}

// Queries times the scale, in units of log 2: [lines][D] of bfloat16.
template <KVFormat kFormat>
inline void load_query_tiles(const AttentionArgs& args, const Work& work, uint8_t* to) {
  const F scale = set1(args.scale * 1.44269504088896341f), largest = set1(65504.0f);
  const int64_t dim = work.head_dim;
  for (int64_t row = 0; row < work.task->rows; ++row) {
    const float* from =
        args.qkv + (work.task->first_row + row) * args.qkv_stride + work.task->kv_head * work.group * dim;
    const auto query = [&](int64_t at) {
      const F scaled = mul(load(from + at), scale);
      if constexpr (kTileScale<kFormat> == 1.0f) return scaled;
      return mul(max(min(scaled, largest), sub(zero(), largest)), set1(kTileScale<kFormat>));
    };
    for (int64_t i = 0; i < work.group * dim; i += kBlock, to += 2 * kBlock) {
      _mm512_storeu_si512(to, to_bf16(query(i), query(i + kLanes)));
    }
  }
}

// Keys of a group of 16 tokens: [D / 32] tiles of [16 pairs of dims][16 tokens][2].
template <KVFormat kFormat>
inline void load_key_tiles(const Work& work, const Span& span, const Pointers& records, int64_t group, uint8_t* to) {
  const uint8_t* ahead = records.ahead[kAhead + group - span.first_group()];
  const uint8_t* key = records.keys[group];
  for (int64_t d = 0; d < work.head_dim; d += 2, to += 64, key += 2 * records.key_stride) {
    __builtin_prefetch(ahead + d * kGroup * kBytes<kFormat>);
    _mm512_store_si512(to, paired<kFormat>(key, key + records.key_stride));
  }
}

// Values of the 32 tokens from `token` on: [D / 16] tiles of [16 pairs of tokens][16 dims][2]; zero
// outside of the span, whatever lies there.
template <KVFormat kFormat>
inline void load_value_tiles(const Work& work, const Span& span, const Pointers& records, int64_t token, uint8_t* to) {
  alignas(64) static constexpr uint8_t nothing[64] = {};
  constexpr int64_t bytes = kLanes * kBytes<kFormat>;
  const int64_t columns = work.head_dim / kLanes, stride = records.value_stride;
  const uint8_t* const* ahead = records.ahead + kAhead + (span.groups() - span.first_group()) - span.first_group();
  const auto row = [&](int64_t at) -> const uint8_t* {
    if (at < span.begin || at >= span.end) return nullptr;
    return records.values[at / kGroup] + at % kGroup * stride;
  };
  for (const int64_t end = token + kPairTokens; token < end; token += 2, to += 64) {
    const uint8_t *even = row(token), *odd = row(token + 1);
    if (even || odd) {
      const uint8_t* next = ahead[token / kGroup] + token % kGroup * stride;
      for (int64_t byte = 0; byte < 2 * stride; byte += 64) __builtin_prefetch(next + byte);
    }
    uint8_t* tile = to;
    for (int64_t at = 0; at < columns * bytes; at += bytes, tile += kTileBytes) {
      _mm512_store_si512(tile, paired<kFormat>(even ? even + at : nothing, odd ? odd + at : nothing));
    }
  }
}

// Scores of 16 lines by the tokens of groups [begin, end); kTiles tiles of 32 dims. The lines' queries
// stay in tiles 2 to 5.
template <int kTiles>
inline void score_tiles(const uint8_t* queries, const uint8_t* keys, int64_t begin, int64_t end, float* scores) {
  static_assert(kTiles <= 4, "as many as there are tiles for queries");
  constexpr int64_t row_bytes = kTiles * 64, score_bytes = kScoreStride * static_cast<int64_t>(sizeof(float));
  tile_load<2>(queries, row_bytes);
  if constexpr (kTiles > 1) tile_load<3>(queries + 64, row_bytes);
  if constexpr (kTiles > 2) tile_load<4>(queries + 128, row_bytes);
  if constexpr (kTiles > 3) tile_load<5>(queries + 192, row_bytes);
#define NETGAIN_SCORES(sum, group)                             \
  {                                                            \
    const uint8_t* key = keys + (group) * kTiles * kTileBytes; \
    _tile_zero(sum);                                           \
    tile_load<6>(key, 64);                                     \
    _tile_dpbf16ps(sum, 2, 6);                                 \
    if constexpr (kTiles > 1) {                                \
      tile_load<7>(key + kTileBytes, 64);                      \
      _tile_dpbf16ps(sum, 3, 7);                               \
    }                                                          \
    if constexpr (kTiles > 2) {                                \
      tile_load<6>(key + 2 * kTileBytes, 64);                  \
      _tile_dpbf16ps(sum, 4, 6);                               \
    }                                                          \
    if constexpr (kTiles > 3) {                                \
      tile_load<7>(key + 3 * kTileBytes, 64);                  \
      _tile_dpbf16ps(sum, 5, 7);                               \
    }                                                          \
  }
  // A sum is stored when the next one has begun.
  int64_t group = begin;
  NETGAIN_SCORES(0, group)
  for (; group + 2 < end; group += 2) {
    NETGAIN_SCORES(1, group + 1)
    tile_store<0>(scores + group * kGroup, score_bytes);
    NETGAIN_SCORES(0, group + 2)
    tile_store<1>(scores + (group + 1) * kGroup, score_bytes);
  }
  if (group + 1 < end) {
    NETGAIN_SCORES(1, group + 1)
    tile_store<1>(scores + (group + 1) * kGroup, score_bytes);
  }
  tile_store<0>(scores + group * kGroup, score_bytes);
#undef NETGAIN_SCORES
}

inline void score_tiles(const uint8_t* queries, const uint8_t* keys, int64_t head_dim, int64_t begin, int64_t end,
                        float* scores) {
  switch (head_dim / kBlock) {
    case 1: return score_tiles<1>(queries, keys, begin, end, scores);
    case 2: return score_tiles<2>(queries, keys, begin, end, scores);
    case 3: return score_tiles<3>(queries, keys, begin, end, scores);
    default: return score_tiles<4>(queries, keys, begin, end, scores);
  }
}

// Weights of a line's tokens to bfloat16, over the same memory.
template <KVFormat kFormat>
inline void narrow_weights(float* scores, int64_t begin, int64_t end) {
  auto* to = reinterpret_cast<uint8_t*>(scores);
  const F scale = set1(kTileScale<kFormat>);
  for (int64_t token = begin; token < end; token += kPairTokens) {
    F low = load(scores + token), high = load(scores + token + kLanes);
    if constexpr (kTileScale<kFormat> != 1.0f) {
      low = mul(low, scale);
      high = mul(high, scale);
    }
    _mm512_storeu_si512(to + 2 * token, to_bf16(low, high));
  }
}

// Weighted values of 16 lines over blocks [begin, end) of 32 tokens; kColumns columns of 16 dims from
// `column` on.
template <int kColumns>
inline void value_columns(const float* weights, const uint8_t* values, int64_t column, int64_t head_dim, int64_t begin,
                          int64_t end, float* weighted) {
  constexpr int64_t score_bytes = kScoreStride * static_cast<int64_t>(sizeof(float));
  const int64_t row_bytes = head_dim * static_cast<int64_t>(sizeof(float));
  const auto* from = reinterpret_cast<const uint8_t*>(weights) + 2 * kPairTokens * begin;
  tile_zero<0>();
  tile_zero<1>();
  tile_zero<2>();
  tile_zero<3>();
  for (int64_t block = begin; block < end; ++block, from += 2 * kPairTokens) {
    const uint8_t* tile = values + (block * (head_dim / kLanes) + column) * kTileBytes;
    tile_load<4>(from, score_bytes);
    tile_load<5>(tile, 64);
    tile_add_products<0, 4, 5>();
    tile_load<6>(tile + kTileBytes, 64);
    tile_add_products<1, 4, 6>();
    if constexpr (kColumns == 4) {
      tile_load<7>(tile + 2 * kTileBytes, 64);
      tile_add_products<2, 4, 7>();
      tile_load<5>(tile + 3 * kTileBytes, 64);
      tile_add_products<3, 4, 5>();
    }
  }
  weighted += column * kLanes;
  tile_store<0>(weighted, row_bytes);
  tile_store<1>(weighted + kLanes, row_bytes);
  if constexpr (kColumns == 4) {
    tile_store<2>(weighted + 2 * kLanes, row_bytes);
    tile_store<3>(weighted + 3 * kLanes, row_bytes);
  }
}

inline void value_tiles(const float* weights, const uint8_t* values, int64_t head_dim, int64_t begin, int64_t end,
                        float* weighted) {
  const int64_t columns = head_dim / kLanes;
  int64_t column = 0;
  for (; column + 4 <= columns; column += 4) {
    value_columns<4>(weights, values, column, head_dim, begin, end, weighted);
  }
  if (column < columns) value_columns<2>(weights, values, column, head_dim, begin, end, weighted);
}

// ---------------------------------------------------------------------------------------------- few lines

// Words `first` to `first` + 15 become the upper halves of 32 bits.
struct WidenOrder {
  alignas(64) uint8_t bytes[64] = {};
  explicit constexpr WidenOrder(int first) {
    for (int i = 0; i < kLanes; ++i) {
      bytes[4 * i + 2] = static_cast<uint8_t>(2 * (first + i));
      bytes[4 * i + 3] = static_cast<uint8_t>(2 * (first + i) + 1);
    }
  }
};

// Half of 32 bfloat16 in float32.
template <int kHalf>
inline F half_of(__m512i words) {
  static constexpr WidenOrder order(kHalf * kLanes);
  constexpr __mmask64 upper = 0xcccccccccccccccc;
  return _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi8(upper, _mm512_load_si512(order.bytes), words));
}

// bfloat16 in memory to float32, over other memory or, from the last to the first, over the same.
inline void widen(const uint8_t* from, float* to, int64_t count) {
  for (int64_t at = count - kLanes; at >= 0; at -= kLanes) store(to + at, load_bf16(from + 2 * at));
}

// Scores of kR lines by the tokens of a span. `queries`: [kR][D], as the tiles hold them. kAdjacent: a dim's 16 keys
// follow those of the one before.
template <KVFormat kFormat, int kR, bool kAdjacent>
inline void score_lines(const Work& work, const Span& span, const Pointers& records, const float* queries,
                        float* scores) {
  const int64_t dim = work.head_dim;
  for (int64_t group = span.first_group(); group < span.groups(); ++group) {
    const uint8_t* ahead = records.ahead[kAhead + group - span.first_group()];
    const uint8_t* key = records.keys[group];
    F sums[kR];
    NETGAIN_UNROLL
    for (int r = 0; r < kR; ++r) sums[r] = zero();
    for (int64_t first = 0; first < dim; first += kBlock) {
      F even[kR], odd[kR];
      NETGAIN_UNROLL
      for (int r = 0; r < kR; ++r) even[r] = odd[r] = zero();
      for (int64_t d = first; d < first + kBlock; d += 2, key += 2 * records.key_stride) {
        __builtin_prefetch(ahead + d * kGroup * kBytes<kFormat>);
        const __m512i words = kAdjacent ? of_one<kFormat>(key) : of_two<kFormat>(key, key + records.key_stride);
        const F low = half_of<0>(words), high = half_of<1>(words);
        NETGAIN_UNROLL
        for (int r = 0; r < kR; ++r) {
          even[r] = fma(set1(queries[r * dim + d]), low, even[r]);
          odd[r] = fma(set1(queries[r * dim + d + 1]), high, odd[r]);
        }
      }
      NETGAIN_UNROLL
      for (int r = 0; r < kR; ++r) sums[r] = add(sums[r], add(even[r], odd[r]));
    }
    NETGAIN_UNROLL
    for (int r = 0; r < kR; ++r) store(scores + r * kScoreStride + group * kGroup, sums[r]);
  }
}

// Weighted values of kR lines, kN vectors of dims from `dim` on. `weights`: as the tiles hold them.
template <KVFormat kFormat, int kR, int kN>
inline void value_lines(const Work& work, const Span& span, const Pointers& records, const float* weights, int64_t dim,
                        float* weighted) {
  alignas(64) static constexpr uint8_t nothing[64] = {};
  constexpr int64_t bytes = kLanes * kBytes<kFormat>;
  const int64_t stride = records.value_stride;
  const uint8_t* const* aheads = records.ahead + kAhead + (span.groups() - span.first_group()) - span.first_group();
  const auto row = [&](int64_t at) -> const uint8_t* {
    if (at < span.begin || at >= span.end) return nullptr;
    return records.values[at / kGroup] + at % kGroup * stride + dim * kBytes<kFormat>;
  };
  F sums[kR][kN];
  NETGAIN_UNROLL
  for (int r = 0; r < kR; ++r) {
    NETGAIN_UNROLL
    for (int n = 0; n < kN; ++n) store(weighted + r * work.head_dim + dim + n * kLanes, zero());
  }
  for (int64_t block = span.begin / kPairTokens * kPairTokens; block < span.end; block += kPairTokens) {
    F odd[kR][kN];
    NETGAIN_UNROLL
    for (int r = 0; r < kR; ++r) {
      NETGAIN_UNROLL
      for (int n = 0; n < kN; ++n) sums[r][n] = odd[r][n] = zero();
    }
    const int64_t begin = larger(block, span.begin / 2 * 2), end = smaller(block + kPairTokens, span.end);
    for (int64_t token = begin; token < end; token += 2) {
      const uint8_t *first = row(token), *second = row(token + 1);
      const uint8_t* ahead = aheads[token / kGroup] + token % kGroup * stride + dim * kBytes<kFormat>;
      NETGAIN_UNROLL
      for (int64_t byte = 0; byte < kN * bytes; byte += 64) {
        __builtin_prefetch(ahead + byte);
        __builtin_prefetch(ahead + stride + byte);
      }
      const auto add_token = [&](const uint8_t* values, int64_t of, F(&to)[kR][kN]) {
        F value[kN];
        NETGAIN_UNROLL
        for (int n = 0; n < kN; n += 2) {
          const __m512i words = of_one<kFormat>(values ? values + n * bytes : nothing);
          value[n] = half_of<0>(words);
          value[n + 1] = half_of<1>(words);
        }
        NETGAIN_UNROLL
        for (int r = 0; r < kR; ++r) {
          const F weight = set1(weights[r * kScoreStride + of]);
          NETGAIN_UNROLL
          for (int n = 0; n < kN; ++n) to[r][n] = fma(weight, value[n], to[r][n]);
        }
      };
      add_token(first, token, sums);
      add_token(second, token + 1, odd);
    }
    NETGAIN_UNROLL
    for (int r = 0; r < kR; ++r) {
      NETGAIN_UNROLL
      for (int n = 0; n < kN; ++n) {
        float* at = weighted + r * work.head_dim + dim + n * kLanes;
        store(at, add(load(at), add(sums[r][n], odd[r][n])));
      }
    }
  }
}

template <KVFormat kFormat, int kR = kFewLines>
inline void score_few(const Work& work, const Span& span, const Pointers& records, const float* queries,
                      float* scores) {
  if (work.lines == kR) {
    const bool adjacent = records.key_stride == kGroup * kBytes<kFormat>;
    adjacent ? score_lines<kFormat, kR, true>(work, span, records, queries, scores)
             : score_lines<kFormat, kR, false>(work, span, records, queries, scores);
  } else if constexpr (kR > 1) {
    score_few<kFormat, kR - 1>(work, span, records, queries, scores);
  }
}

template <KVFormat kFormat, int kR = kFewLines>
inline void value_few(const Work& work, const Span& span, const Pointers& records, const float* weights,
                      float* weighted) {
  constexpr int vectors = kR <= 3 ? 4 : 2;  // a head dim holds whole numbers of two
  if (work.lines == kR) {
    int64_t dim = 0;
    for (; dim + vectors * kLanes <= work.head_dim; dim += vectors * kLanes) {
      value_lines<kFormat, kR, vectors>(work, span, records, weights, dim, weighted);
    }
    if (dim < work.head_dim) value_lines<kFormat, kR, 2>(work, span, records, weights, dim, weighted);
  } else if constexpr (kR > 1) {
    value_few<kFormat, kR - 1>(work, span, records, weights, weighted);
  }
}

// ---------------------------------------------------------------------------------------------- a split

// Scores of lines [first, last], which see `seen` among them, become weights in bfloat16, over the same
// memory: of the tokens of all products with values, 0 where a line sees nothing.
template <KVFormat kFormat, bool kScaled>
inline void soften_lines(const Work& work, int64_t split, int64_t first, int64_t last, const Span& seen,
                         const AttentionScratch& scratch) {
  const Span whole = {seen.begin / kPairTokens * kPairTokens, round_up(seen.end, kPairTokens)};
  for (int64_t line = first; line <= last; ++line) {
    float* scores = scratch.scores + line * kScoreStride;
    const Span mine = work.span(split, line / work.group, line / work.group);
    if (mine.empty()) {
      scratch.maxima[line] = kNothing;
      scratch.sums[line] = 0.0f;
      if (seen.empty()) continue;
      for (int64_t v = whole.first_vector(); v < whole.vectors(); ++v) store(scores + v * kLanes, zero());
    } else {
      soften<kScaled>(scores, mine, whole, scratch, scratch.maxima + line, scratch.sums + line);
    }
    narrow_weights<kFormat>(scores, whole.begin, whole.end);
  }
}

// As attend_split, for elements in the records.
template <KVFormat kFormat, bool kScaled>
inline void attend_split_tiles(const Work& work, int64_t split, const Span& span, const Pointers& records,
                               const AttentionScratch& scratch) {
  const int64_t dim = work.head_dim;
  const auto* queries = reinterpret_cast<const uint8_t*>(scratch.queries);
  if (work.lines <= kFewLines) {
    widen(queries, scratch.keys, work.lines * dim);
    score_few<kFormat>(work, span, records, scratch.keys, scratch.scores);
    soften_lines<kFormat, kScaled>(work, split, 0, work.lines - 1, span, scratch);
    for (int64_t line = 0; line < work.lines; ++line) {
      float* weights = scratch.scores + line * kScoreStride;
      widen(reinterpret_cast<const uint8_t*>(weights), weights, round_up(span.end, kPairTokens));
    }
    value_few<kFormat>(work, span, records, scratch.scores, scratch.weighted);
    return;
  }
  auto* keys = reinterpret_cast<uint8_t*>(scratch.keys);
  auto* values = reinterpret_cast<uint8_t*>(scratch.values);
  for (int64_t group = span.first_group(); group < span.groups(); ++group) {
    load_key_tiles<kFormat>(work, span, records, group, keys + group * kGroup * dim * 2);
  }
  for (int64_t token = span.begin / kPairTokens * kPairTokens; token < span.end; token += kPairTokens) {
    load_value_tiles<kFormat>(work, span, records, token, values + token * dim * 2);
  }
  for (int64_t first = 0; first < work.lines; first += kLineTile) {
    const int64_t last = smaller(first + kLineTile, work.lines) - 1;
    const Span seen = work.span(split, first / work.group, last / work.group);
    float *scores = scratch.scores + first * kScoreStride, *weighted = scratch.weighted + first * dim;
    if (!seen.empty()) score_tiles(queries + first * dim * 2, keys, dim, seen.first_group(), seen.groups(), scores);
    soften_lines<kFormat, kScaled>(work, split, first, last, seen, scratch);
    if (seen.empty()) {
      for (int64_t i = 0; i < kLineTile * dim; i += kLanes) store(weighted + i, zero());
    } else {
      value_tiles(scores, values, dim, seen.begin / kPairTokens, (seen.end + kPairTokens - 1) / kPairTokens, weighted);
    }
  }
}

}  // namespace
}  // namespace netgain
