// Attention over paged keys and values, rotary embedding and the writing of records.
//
// A line is one query head of one token. Whatever task computes it, a line's result is the same:
// the context is cut at multiples of kContextSplit positions; inside a split a score is summed over
// the head dim in order (tokens across lanes), exponentials are summed per lane in order of tokens
// and then across lanes, and values are added in order of tokens (dims across lanes); splits are
// joined in order by `join`, beginning with nothing. A masked token has weight 0, which changes no sum, so it may be
// computed or left out.
//
// All formats share the same two register-tiled kernels, over elements read from the records or,
// when many lines use them or the records' geometry fits no vectors, over a float32 copy in scratch.
#pragma once

#include <cstring>

#include "half.h"
#include "kernels.h"

#define NETGAIN_UNROLL _Pragma("GCC unroll 8")

namespace netgain {
namespace {

constexpr int kMostLines = kRegisters >= 16 ? 6 : 2;  // of a register tile
constexpr int tile_vectors(int lines) {
  return kRegisters >= 32 ? 4 : kRegisters < 16 ? 1 : lines <= 2 ? 4 : lines == 3 ? 3 : 2;
}
// Tiles of lines for which converting the elements again costs less than keeping a copy.
constexpr int64_t kDirectTiles = 2;

constexpr int kGroup = 16;  // tokens that are consecutive in memory wherever vectors read them
constexpr int kGroups = kContextSplit / kGroup;
constexpr int kSplitVectors = kContextSplit / kLanes;
// Tokens whose keys, or values, stay in the first-level cache while all lines use them.
constexpr int kPanel = 64;
// Floats between lines' scores: not a power of two, or lines would compete for the same cache sets.
constexpr int64_t kScoreStride = kContextSplit + 16;
constexpr int kAhead = 4;  // groups of tokens to prefetch

inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static_assert(kPanel % (4 * kLanes) == 0 && kGroup % kLanes == 0, "panels hold whole tiles");

// ---------------------------------------------------------------------------------------------- elements

template <KVFormat kFormat>
constexpr int64_t kBytes = kv_element_bytes(kFormat);

template <KVFormat kFormat>
inline F load_elements(const uint8_t* p) {
  if constexpr (kFormat == KVFormat::kFp32) return load(reinterpret_cast<const float*>(p));
  if constexpr (kFormat == KVFormat::kBf16) return load_bf16(p);
  if constexpr (kFormat == KVFormat::kFp16) return load_fp16(p);
  if constexpr (kFormat == KVFormat::kInt8) return load_int8(p);
}

template <KVFormat kFormat>
inline float load_element(const uint8_t* p) {
  if constexpr (kFormat == KVFormat::kInt8) return static_cast<float>(static_cast<int8_t>(*p));
  if constexpr (kFormat == KVFormat::kFp32) {
    float value;
    std::memcpy(&value, p, sizeof value);
    return value;
  }
  uint16_t half;
  std::memcpy(&half, p, sizeof half);
  return kFormat == KVFormat::kBf16 ? bf16_to_float(half) : fp16_to_float(half);
}

// What float16 cannot hold becomes its largest number: an infinity times a masked token's weight
// would be no number.
template <KVFormat kFormat>
inline void store_elements(uint8_t* p, F x) {
  if constexpr (kFormat == KVFormat::kFp32) store(reinterpret_cast<float*>(p), x);
  if constexpr (kFormat == KVFormat::kBf16) store_bf16(p, x);
  if constexpr (kFormat == KVFormat::kFp16) store_fp16(p, max(min(x, set1(65504.0f)), set1(-65504.0f)));
  if constexpr (kFormat == KVFormat::kInt8) store_int8(reinterpret_cast<int8_t*>(p), x);
}

// ---------------------------------------------------------------------------------------------- rotate, store

// Pairs (d, d + D / 2): x cos - y sin, y cos + x sin.
inline void rotate(float* head, int64_t half, const float* cosines, const float* sines) {
  for (int64_t i = 0; i < half; i += kLanes) {
    const int64_t count = half - i;
    const F x = load_at_most(head + i, count), y = load_at_most(head + half + i, count);
    const F cosine = load_at_most(cosines + i, count), sine = load_at_most(sines + i, count);
    store_at_most(head + i, fma(x, cosine, sub(zero(), mul(y, sine))), count);
    store_at_most(head + half + i, fma(y, cosine, mul(x, sine)), count);
  }
}

// Element d of the head goes to `to + d * stride` bytes; int8: their scale to `scale_to`.
template <KVFormat kFormat>
inline void store_head(const float* head, int64_t head_dim, uint8_t* to, int64_t stride, uint8_t* scale_to) {
  F inverse = set1(1.0f);
  if constexpr (kFormat == KVFormat::kInt8) {
    F largest = zero();
    for (int64_t d = 0; d < head_dim; d += kLanes) largest = max(largest, abs(load_at_most(head + d, head_dim - d)));
    const float scale = reduce_max(largest) * (1.0f / 127.0f);
    std::memcpy(scale_to, &scale, sizeof scale);
    inverse = set1(scale > 0.0f ? 1.0f / scale : 0.0f);
  }
  constexpr int64_t bytes = kBytes<kFormat>;
  for (int64_t d = 0; d < head_dim; d += kLanes) {
    const int64_t count = smaller(kLanes, head_dim - d);
    F x = load_at_most(head + d, count);
    if constexpr (kFormat == KVFormat::kInt8) x = max(min(round(mul(x, inverse)), set1(127.0f)), set1(-127.0f));
    if (stride == bytes && count == kLanes) {
      store_elements<kFormat>(to + d * bytes, x);
      continue;
    }
    uint8_t elements[kLanes * bytes];
    store_elements<kFormat>(elements, x);
    for (int64_t i = 0; i < count; ++i) std::memcpy(to + (d + i) * stride, elements + i * bytes, bytes);
  }
}

template <KVFormat kFormat>
inline void rope_and_store_rows(const AttentionArgs& args, int64_t row_begin, int64_t row_end) {
  const KVLayout& layout = args.layout;
  const int64_t dim = layout.head_dim, size = layout.block_tokens, bytes = kBytes<kFormat>;
  for (int64_t row = row_begin; row < row_end; ++row) {
    float* heads = args.qkv + row * args.qkv_stride;
    for (int64_t head = 0; head < args.heads + layout.kv_heads; ++head) {
      rotate(heads + head * dim, dim / 2, args.cosines + row * (dim / 2), args.sines + row * (dim / 2));
    }
    const int64_t position = args.step.positions[row], slot = position % size;
    const int32_t block = args.step.tables[args.step.slice_of[row] * args.step.table_stride + position / size];
    uint8_t* record = args.step.records + block * layout.record_bytes();
    for (int64_t head = 0; head < layout.kv_heads; ++head) {
      const float* key = heads + (args.heads + head) * dim;
      const float* value = key + layout.kv_heads * dim;
      uint8_t* keys = record + layout.keys_offset(args.layer, head);
      uint8_t* values = record + layout.values_offset(args.layer, head);
      const int64_t scale_at = size * dim * bytes + slot * 4;
      store_head<kFormat>(key, dim, keys + slot * bytes, size * bytes, keys + scale_at);
      store_head<kFormat>(value, dim, values + slot * dim * bytes, bytes, values + scale_at);
    }
  }
}

inline void rope_and_store(const AttentionArgs& args, int64_t row_begin, int64_t row_end) {
  switch (args.layout.format) {
    case KVFormat::kFp32: return rope_and_store_rows<KVFormat::kFp32>(args, row_begin, row_end);
    case KVFormat::kBf16: return rope_and_store_rows<KVFormat::kBf16>(args, row_begin, row_end);
    case KVFormat::kFp16: return rope_and_store_rows<KVFormat::kFp16>(args, row_begin, row_end);
    case KVFormat::kInt8: return rope_and_store_rows<KVFormat::kInt8>(args, row_begin, row_end);
  }
}

// ---------------------------------------------------------------------------------------------- register tiles

// Scores of kN vectors of tokens for kR lines. `queries`: [D][kR]. `keys`: per vector its first
// element; the next dim follows after `stride` bytes. `ahead`: what to prefetch, D * 16 elements per
// group of tokens.
template <KVFormat kFormat, int kR, int kN>
__attribute__((noinline)) void scores_tile(const float* queries, const uint8_t* const* keys, int64_t stride,
                                           int64_t head_dim, float* scores, const uint8_t* const* ahead) {
  F sums[kR][kN];
  NETGAIN_UNROLL
  for (int r = 0; r < kR; ++r) {
    NETGAIN_UNROLL
    for (int n = 0; n < kN; ++n) sums[r][n] = zero();
  }
  const uint8_t* at[kN];
  NETGAIN_UNROLL
  for (int n = 0; n < kN; ++n) at[n] = keys[n];
  for (int64_t d = 0, offset = 0; d < head_dim; ++d, offset += stride) {
    if constexpr (kFormat != KVFormat::kFp32) {
      if (d % 2 == 0) {
        NETGAIN_UNROLL
        for (int g = 0; g < (kN * kLanes + kGroup - 1) / kGroup; ++g) {
          __builtin_prefetch(ahead[g] + d * kGroup * kBytes<kFormat>);
        }
      }
    }
    F key[kN];
    NETGAIN_UNROLL
    for (int n = 0; n < kN; ++n) key[n] = load_elements<kFormat>(at[n] + offset);
    NETGAIN_UNROLL
    for (int r = 0; r < kR; ++r) {
      const F query = set1(queries[r]);
      NETGAIN_UNROLL
      for (int n = 0; n < kN; ++n) sums[r][n] = fma(query, key[n], sums[r][n]);
    }
    queries += kR;
  }
  NETGAIN_UNROLL
  for (int r = 0; r < kR; ++r) {
    NETGAIN_UNROLL
    for (int n = 0; n < kN; ++n) store(scores + r * kScoreStride + n * kLanes, sums[r][n]);
  }
}

// Adds weights * values of tokens [begin, end) of a split to kN vectors of dims of kR lines.
// `values`: per group of 16 tokens the first element of its first vector of these dims; the next
// token follows after `stride` bytes. `ahead`: per group what to prefetch, 16 tokens of `stride` bytes.
template <KVFormat kFormat, int kR, int kN>
__attribute__((noinline)) void values_tile(const float* weights, int64_t begin, int64_t end,
                                           const uint8_t* const* values, int64_t dim_offset, int64_t stride,
                                           float* sums_at, int64_t sums_stride, const uint8_t* const* ahead) {
  F sums[kR][kN];
  NETGAIN_UNROLL
  for (int r = 0; r < kR; ++r) {
    NETGAIN_UNROLL
    for (int n = 0; n < kN; ++n) sums[r][n] = load(sums_at + r * sums_stride + n * kLanes);
  }
  for (int64_t token = begin; token < end;) {
    const int64_t group = token / kGroup, stop = smaller(end, (group + 1) * kGroup);
    const uint8_t* value_at = values[group] + dim_offset + (token % kGroup) * stride;
    const uint8_t* ahead_at = ahead[group] + dim_offset + (token % kGroup) * stride;
    for (; token < stop; ++token, value_at += stride, ahead_at += stride) {
      if constexpr (kFormat != KVFormat::kFp32) {
        NETGAIN_UNROLL
        for (int64_t byte = 0; byte < kN * kLanes * kBytes<kFormat>; byte += 64) __builtin_prefetch(ahead_at + byte);
      }
      F value[kN];
      NETGAIN_UNROLL
      for (int n = 0; n < kN; ++n) value[n] = load_elements<kFormat>(value_at + n * kLanes * kBytes<kFormat>);
      NETGAIN_UNROLL
      for (int r = 0; r < kR; ++r) {
        const F weight = set1(weights[r * kScoreStride + token]);
        NETGAIN_UNROLL
        for (int n = 0; n < kN; ++n) sums[r][n] = fma(weight, value[n], sums[r][n]);
      }
    }
  }
  NETGAIN_UNROLL
  for (int r = 0; r < kR; ++r) {
    NETGAIN_UNROLL
    for (int n = 0; n < kN; ++n) store(sums_at + r * sums_stride + n * kLanes, sums[r][n]);
  }
}

// ---------------------------------------------------------------------------------------------- a task

// Tokens of one split, counted from its first.
struct Span {
  int64_t begin, end;
  bool empty() const { return begin >= end; }
  int64_t first_group() const { return begin / kGroup; }
  int64_t groups() const { return (end + kGroup - 1) / kGroup; }  // behind the last
  int64_t first_vector() const { return begin / kLanes; }
  int64_t vectors() const { return (end + kLanes - 1) / kLanes; }
};

// Lines that share register tiles: `lines` from `line`, of rows `first_row` to `last_row` of a task.
struct Tile {
  int64_t line, lines, first_row, last_row;
  Span span;  // what any of them sees of the split at hand
};

// Per thread, carved out of the caller's scratch. Maxima are those of scores in units of log 2.
struct AttentionScratch {
  float *keys, *values, *key_scales, *value_scales;      // of a split
  float *queries, *scores;                               // [lines][D], [lines][kScoreStride]
  float *weighted, *maxima, *sums;                       // of a split: [lines][D up to 16 n], [lines], [lines]
  float *joined, *joined_maxima, *joined_sums;           // of the splits so far
  float *before, *after;                                 // [lines], see `Join`
  Tile* tiles;
};

// Stands for the maximum of no scores: finite, so that differences are numbers.
constexpr float kNothing = -3.0e38f;

inline int64_t most_lines(const AttentionArgs& args) {
  const int64_t group = args.heads / args.layout.kv_heads;
  return round_up(group * task_queries(group), 16);
}

inline int64_t attention_scratch_floats(const AttentionArgs& args) {
  const int64_t lines = most_lines(args), dim = round_up(args.layout.head_dim, 16);
  return 16 + 2 * kContextSplit * (dim + 1) + lines * (3 * dim + kScoreStride + 6) +
         lines * static_cast<int64_t>(sizeof(Tile) / sizeof(float));
}

inline AttentionScratch carve(const AttentionArgs& args, float* scratch) {
  const int64_t lines = most_lines(args), dim = round_up(args.layout.head_dim, 16);
  float* next = scratch + (64 - reinterpret_cast<uintptr_t>(scratch) % 64) % 64 / sizeof(float);
  auto take = [&next](int64_t floats) {
    float* taken = next;
    next += floats;
    return taken;
  };
  AttentionScratch out;
  out.keys = take(kContextSplit * dim);
  out.values = take(kContextSplit * dim);
  out.key_scales = take(kContextSplit);
  out.value_scales = take(kContextSplit);
  out.queries = take(lines * dim);
  out.scores = take(lines * kScoreStride);
  out.weighted = take(lines * dim);
  out.joined = take(lines * dim);
  out.maxima = take(lines);
  out.sums = take(lines);
  out.joined_maxima = take(lines);
  out.joined_sums = take(lines);
  out.before = take(lines);
  out.after = take(lines);
  out.tiles = reinterpret_cast<Tile*>(next);
  return out;
}

// What a task attends over.
struct Work {
  const AttentionTask* task;
  const int32_t* table;
  int64_t first_position, window, head_dim, padded_dim, group, lines, tiles;

  // What rows [first_row, last_row] see of a split.
  Span span(int64_t split, int64_t first_row, int64_t last_row) const {
    const int64_t start = split * kContextSplit;
    const int64_t begin = window > 0 ? first_position + first_row + 1 - window - start : 0;
    return {begin > 0 ? begin : 0, smaller(first_position + last_row + 1 - start, kContextSplit)};
  }
  Span span(int64_t split) const { return span(split, 0, task->rows - 1); }
};

inline Work work_of(const AttentionArgs& args, const AttentionTask& task) {
  const StepView& step = args.step;
  Work work;
  work.task = &task;
  work.table = step.tables + task.slice * step.table_stride;
  work.first_position = step.context_lens[task.slice] - (step.query_starts[task.slice + 1] - task.first_row);
  work.window = args.window;
  work.head_dim = args.layout.head_dim;
  work.padded_dim = round_up(work.head_dim, 16);
  work.group = args.heads / args.layout.kv_heads;
  work.lines = task.rows * work.group;
  work.tiles = (work.lines + kMostLines - 1) / kMostLines;
  return work;
}

inline void divide_lines(const Work& work, Tile* tiles) {
  int64_t line = 0;
  for (int64_t i = 0; i < work.tiles; ++i) {
    const int64_t left = work.tiles - i, lines = (work.lines - line + left - 1) / left;
    tiles[i] = {line, lines, line / work.group, (line + lines - 1) / work.group, {0, 0}};
    line += lines;
  }
}

// Where the elements of a split are. The stretches to prefetch come in the order of their use: the
// groups' keys, their values, and the first keys of the next split or task.
struct Pointers {
  const uint8_t* keys[kSplitVectors];
  const uint8_t* values[kGroups];
  const uint8_t* ahead[2 * kGroups + kAhead];
  int64_t key_stride, value_stride;
};

// Keys of group g of a block are scattered over the block's keys, but all groups together are what
// the stretches of D * 16 elements cover.
template <class Use>
inline void for_each_group(const AttentionArgs& args, const Work& work, int64_t split, int64_t begin, int64_t end,
                           Use use) {
  const KVLayout& layout = args.layout;
  const int64_t size = layout.block_tokens, position = split * kContextSplit + begin * kGroup;
  const int64_t keys = layout.keys_offset(args.layer, work.task->kv_head);
  const int64_t values = layout.values_offset(args.layer, work.task->kv_head);
  const int64_t record_bytes = layout.record_bytes();
  int64_t block = position / size, slot = position % size;
  for (int64_t group = begin; group < end; ++group) {
    const uint8_t* record = args.step.records + work.table[block] * record_bytes;
    use(group, record + keys, record + values, slot);
    slot += kGroup;
    if (slot >= size) {
      slot = 0;
      ++block;
    }
  }
}

template <KVFormat kFormat>
inline void copy_scales(const uint8_t* from, float* to, int64_t tokens) {
  if constexpr (kFormat == KVFormat::kInt8) std::memcpy(to, from, static_cast<size_t>(tokens) * sizeof(float));
}

// Blocks of whole groups and head dims of whole vectors: elements are read where they are.
template <KVFormat kFormat>
inline void point_at_records(const AttentionArgs& args, const Work& work, int64_t split, const Span& span,
                             Pointers& pointers, const AttentionScratch& scratch) {
  const int64_t size = args.layout.block_tokens, row_bytes = work.head_dim * kBytes<kFormat>;
  const int64_t groups = span.groups() - span.first_group();
  pointers.key_stride = size * kBytes<kFormat>;
  pointers.value_stride = row_bytes;
  const uint8_t** ahead = pointers.ahead;
  for_each_group(
      args, work, split, span.first_group(), span.groups(),
      [&](int64_t group, const uint8_t* keys, const uint8_t* values, int64_t slot) {
        for (int i = 0; i < kGroup / kLanes; ++i) {
          pointers.keys[group * (kGroup / kLanes) + i] = keys + (slot + i * kLanes) * kBytes<kFormat>;
        }
        pointers.values[group] = values + slot * row_bytes;
        ahead[0] = keys + slot * row_bytes;
        ahead[groups] = values + slot * row_bytes;
        ++ahead;
        copy_scales<kFormat>(keys + size * row_bytes + slot * 4, scratch.key_scales + group * kGroup, kGroup);
        copy_scales<kFormat>(values + size * row_bytes + slot * 4, scratch.value_scales + group * kGroup, kGroup);
      });
}

// Float32 copies: keys [groups][D][16], values [tokens][D rounded up to 16].
template <KVFormat kFormat>
inline void copy_vectors(const Work& work, const Span& span, const Pointers& records, const AttentionScratch& scratch) {
  const int64_t dim = work.head_dim;
  const uint8_t* const* ahead = records.ahead + kAhead;
  for (int64_t group = span.first_group(); group < span.groups(); ++group, ++ahead) {
    const uint8_t* const* keys = records.keys + group * (kGroup / kLanes);
    float* to = scratch.keys + group * kGroup * dim;
    for (int64_t d = 0, offset = 0; d < dim; ++d, offset += records.key_stride) {
      __builtin_prefetch(*ahead + d * kGroup * kBytes<kFormat>);
      NETGAIN_UNROLL
      for (int i = 0; i < kGroup / kLanes; ++i) {
        store(to + d * kGroup + i * kLanes, load_elements<kFormat>(keys[i] + offset));
      }
    }
  }
  for (int64_t group = span.first_group(); group < span.groups(); ++group, ++ahead) {
    const uint8_t* from = records.values[group];
    float* to = scratch.values + group * kGroup * dim;
    for (int64_t i = 0; i < kGroup * dim; i += kGroup) {
      __builtin_prefetch(*ahead + i * kBytes<kFormat>);
      NETGAIN_UNROLL
      for (int64_t j = i; j < i + kGroup; j += kLanes) {
        store(to + j, load_elements<kFormat>(from + j * kBytes<kFormat>));
      }
    }
  }
}

// The same for any block size and head dim, element by element.
template <KVFormat kFormat>
inline void copy_elements(const AttentionArgs& args, const Work& work, int64_t split, const Span& span,
                          const AttentionScratch& scratch) {
  const KVLayout& layout = args.layout;
  const int64_t dim = work.head_dim, padded = work.padded_dim, size = layout.block_tokens;
  constexpr int64_t bytes = kBytes<kFormat>;
  const int64_t keys_offset = layout.keys_offset(args.layer, work.task->kv_head);
  const int64_t values_offset = layout.values_offset(args.layer, work.task->kv_head);
  for (int64_t token = span.begin; token < span.end; ++token) {
    const int64_t position = split * kContextSplit + token, slot = position % size;
    const uint8_t* record = args.step.records + work.table[position / size] * layout.record_bytes();
    const uint8_t* keys = record + keys_offset;
    const uint8_t* values = record + values_offset;
    float* key_to = scratch.keys + token / kGroup * kGroup * dim + token % kGroup;
    for (int64_t d = 0; d < dim; ++d) key_to[d * kGroup] = load_element<kFormat>(keys + (d * size + slot) * bytes);
    float* value_to = scratch.values + token * padded;
    for (int64_t d = 0; d < dim; ++d) value_to[d] = load_element<kFormat>(values + (slot * dim + d) * bytes);
    for (int64_t d = dim; d < padded; ++d) value_to[d] = 0.0f;
    copy_scales<kFormat>(keys + size * dim * bytes + slot * 4, scratch.key_scales + token, 1);
    copy_scales<kFormat>(values + size * dim * bytes + slot * 4, scratch.value_scales + token, 1);
  }
}

inline void point_at_copy(const Work& work, Pointers& pointers, const AttentionScratch& scratch) {
  const int64_t padded = work.padded_dim;
  pointers.key_stride = kGroup * sizeof(float);
  pointers.value_stride = padded * static_cast<int64_t>(sizeof(float));
  for (int vector = 0; vector < kSplitVectors; ++vector) {
    const int token = vector * kLanes;
    pointers.keys[vector] =
        reinterpret_cast<const uint8_t*>(scratch.keys + token / kGroup * kGroup * work.head_dim + token % kGroup);
  }
  for (int group = 0; group < kGroups; ++group) {
    pointers.values[group] = reinterpret_cast<const uint8_t*>(scratch.values + group * kGroup * padded);
  }
  for (const uint8_t*& ahead : pointers.ahead) ahead = pointers.values[0];
}

// ---------------------------------------------------------------------------------------------- phases of a split

template <KVFormat kFormat, int kR, int kN>
inline void scores_of_lines(const Work& work, const Pointers& pointers, int64_t first_group, const float* queries,
                            int64_t begin, int64_t end, float* scores) {
  if constexpr (kN > 0) {
    constexpr int kStep = kN;
    for (; end - begin >= kStep; begin += kStep) {
      scores_tile<kFormat, kR, kN>(queries, pointers.keys + begin, pointers.key_stride, work.head_dim,
                                   scores + begin * kLanes,
                                   pointers.ahead + (begin * kLanes / kGroup - first_group + kAhead));
    }
    scores_of_lines<kFormat, kR, kN - 1>(work, pointers, first_group, queries, begin, end, scores);
  }
}

// Scores of vectors [begin, end) of a split for `lines` lines.
template <KVFormat kFormat, int kR = kMostLines>
inline void tile_scores(int64_t lines, const Work& work, const Pointers& pointers, int64_t first_group,
                        const float* queries, int64_t begin, int64_t end, float* scores) {
  if (lines == kR) {
    scores_of_lines<kFormat, kR, tile_vectors(kR)>(work, pointers, first_group, queries, begin, end, scores);
  } else if constexpr (kR > 1) {
    tile_scores<kFormat, kR - 1>(lines, work, pointers, first_group, queries, begin, end, scores);
  }
}

template <KVFormat kFormat, int kR, int kN>
inline void values_of_lines(const Pointers& pointers, const uint8_t* const* ahead, int64_t first_dim, int64_t dims,
                            const float* weights, int64_t begin, int64_t end, float* sums, int64_t sums_stride) {
  if constexpr (kN > 0) {
    for (; dims - first_dim >= kN * kLanes; first_dim += kN * kLanes) {
      values_tile<kFormat, kR, kN>(weights, begin, end, pointers.values, first_dim * kBytes<kFormat>,
                                   pointers.value_stride, sums + first_dim, sums_stride, ahead);
    }
    values_of_lines<kFormat, kR, kN - 1>(pointers, ahead, first_dim, dims, weights, begin, end, sums, sums_stride);
  }
}

template <KVFormat kFormat, int kR = kMostLines>
inline void tile_values(int64_t lines, const Pointers& pointers, const uint8_t* const* ahead, int64_t dims,
                        const float* weights, int64_t begin, int64_t end, float* sums, int64_t sums_stride) {
  if (lines == kR) {
    values_of_lines<kFormat, kR, tile_vectors(kR)>(pointers, ahead, 0, dims, weights, begin, end, sums, sums_stride);
  } else if constexpr (kR > 1) {
    tile_values<kFormat, kR - 1>(lines, pointers, ahead, dims, weights, begin, end, sums, sums_stride);
  }
}

// 2 ** x for x <= 0, within 1.6e-7 of it and exactly 1 for 0; below -125 as at -125. Keeps NaN.
inline F power_of_two_below(F x) {
  x = max(set1(-125.0f), x);
  const F counted = add(x, set1(kCounter));
  const F r = sub(x, sub(counted, set1(kCounter)));
  F p = set1(1.326472731307149e-3f);  // fitted to 2 ** r in [-1/2, 1/2] for the least relative error
  p = fma(p, r, set1(9.671512991189957e-3f));
  p = fma(p, r, set1(5.550733581185341e-2f));
  p = fma(p, r, set1(2.4022242426872253e-1f));
  p = fma(p, r, set1(6.931470036506653e-1f));
  p = fma(p, r, set1(1.0f));
  return scale_by_counted(p, counted);
}

// Scores of a line become weights: 2 ** (score - maximum), 0 where the line sees nothing, for all
// vectors of `tile`, which holds `span`. With kScaled scores are times the keys' scales, and weights
// times the values' scales once they are summed.
template <bool kScaled>
inline void soften(float* scores, const Span& span, const Span& tile, const AttentionScratch& scratch, float* largest,
                   float* sum) {
  const int64_t first = span.first_vector(), last = span.vectors() - 1;
  if constexpr (kScaled) {
    for (int64_t v = first; v <= last; ++v) {
      store(scores + v * kLanes, mul(load(scores + v * kLanes), load(scratch.key_scales + v * kLanes)));
    }
  }
  const auto seen = [&](int64_t v, F x, F other) {
    return keep(x, span.begin - v * kLanes, span.end - v * kLanes, other);
  };
  F most[4];
  most[0] = seen(first, load(scores + first * kLanes), set1(kNothing));
  most[1] = seen(last, load(scores + last * kLanes), set1(kNothing));
  most[2] = most[3] = most[0];
  int64_t v = first + 1;
  for (; v + 4 <= last; v += 4) {
    NETGAIN_UNROLL
    for (int i = 0; i < 4; ++i) most[i] = max(most[i], load(scores + (v + i) * kLanes));
  }
  for (; v < last; ++v) most[0] = max(most[0], load(scores + v * kLanes));
  *largest = reduce_max(max(max(most[0], most[1]), max(most[2], most[3])));

  const F base = set1(*largest);
  F sums = zero();
  const auto weigh = [&](int64_t at, bool edge) {
    F weight = power_of_two_below(sub(load(scores + at * kLanes), base));
    if (edge) weight = seen(at, weight, zero());
    sums = add(sums, weight);
    if constexpr (kScaled) {
      weight = mul(weight, load(scratch.value_scales + at * kLanes));
      if (edge) weight = seen(at, weight, zero());
    }
    store(scores + at * kLanes, weight);
  };
  weigh(first, true);
  for (v = first + 1; v < last; ++v) weigh(v, false);
  if (last > first) weigh(last, true);
  *sum = reduce_add(sums);
  for (v = tile.first_vector(); v < first; ++v) store(scores + v * kLanes, zero());
  for (v = last + 1; v < tile.vectors(); ++v) store(scores + v * kLanes, zero());
}

// How the next split of a line joins those before it: factors of both, and their maximum and sum.
struct Join {
  F before, after, maximum, sum;
};

inline Join join(F maximum, F sum, F next_maximum, F next_sum) {
  Join out;
  out.maximum = max(maximum, next_maximum);
  out.before = power_of_two_below(sub(maximum, out.maximum));
  out.after = power_of_two_below(sub(next_maximum, out.maximum));
  out.sum = fma(next_sum, out.after, mul(sum, out.before));
  return out;
}

// Of their weighted values. Leaves no -0: whether a masked token made it +0 would show.
inline void join_values(float* values, const float* next, F before, F after, int64_t padded_dim) {
  for (int64_t d = 0; d < padded_dim; d += kLanes) {
    store(values + d, add(fma(load(next + d), after, mul(load(values + d), before)), zero()));
  }
}

inline float first_lane(F x) {
  float lanes[kLanes];
  store(lanes, x);
  return lanes[0];
}

// The result of a line whose splits are all joined.
inline void finish_line(const AttentionArgs& args, int64_t row, int64_t head, const float* values, float sum) {
  const int64_t dim = args.layout.head_dim;
  const F inverse = set1(1.0f / sum);
  if (args.y) {
    float* y = args.y + row * args.y_stride + head * dim;
    for (int64_t d = 0; d < dim; d += kLanes) store_at_most(y + d, mul(load(values + d), inverse), dim - d);
    return;
  }
  for (int64_t d = 0; d < dim; d += kScaled) {
    F x[kScaled / kLanes];
    for (int i = 0; i < kScaled / kLanes; ++i) x[i] = mul(load(values + d + i * kLanes), inverse);
    quantize_blocks(x, row, (head * dim + d) / kBlock, args.out);
  }
}

// Weighted values, maxima and sums of one split.
template <KVFormat kFormat, bool kScaled>
inline void attend_split(const Work& work, int64_t split, const Span& span, const Pointers& pointers,
                         const AttentionScratch& scratch) {
  const int64_t padded = work.padded_dim, first_group = span.first_group();
  Tile* const tiles_end = scratch.tiles + work.tiles;
  for (Tile* tile = scratch.tiles; tile < tiles_end; ++tile) {
    tile->span = work.span(split, tile->first_row, tile->last_row);
  }
  const int64_t first_panel = span.begin / kPanel * kPanel;
  for (int64_t panel = first_panel; panel < span.end; panel += kPanel) {
    for (const Tile* tile = scratch.tiles; tile < tiles_end; ++tile) {
      const int64_t begin = larger(panel / kLanes, tile->span.first_vector());
      const int64_t end = smaller((panel + kPanel) / kLanes, tile->span.vectors());
      if (begin >= end) continue;
      tile_scores<kFormat>(tile->lines, work, pointers, first_group, scratch.queries + tile->line * work.head_dim,
                           begin, end, scratch.scores + tile->line * kScoreStride);
    }
  }
  for (int64_t i = 0; i < work.lines * padded; i += kLanes) store(scratch.weighted + i, zero());
  const Tile* tile = scratch.tiles;
  for (int64_t row = 0, line = 0; row < work.task->rows; ++row) {
    const Span seen = work.span(split, row, row);
    for (int64_t head = 0; head < work.group; ++head, ++line) {
      if (line == tile->line + tile->lines) ++tile;
      float* scores = scratch.scores + line * kScoreStride;
      if (!seen.empty()) {
        soften<kScaled>(scores, seen, tile->span, scratch, scratch.maxima + line, scratch.sums + line);
        continue;
      }
      scratch.maxima[line] = kNothing;
      scratch.sums[line] = 0.0f;
      if (tile->span.empty()) continue;
      for (int64_t v = tile->span.first_vector(); v < tile->span.vectors(); ++v) store(scores + v * kLanes, zero());
    }
  }
  // Entry g of `ahead` belongs to the values of group g.
  const uint8_t* const* ahead = pointers.ahead + (span.groups() - first_group) + kAhead - first_group;
  for (int64_t panel = first_panel; panel < span.end; panel += kPanel) {
    for (tile = scratch.tiles; tile < tiles_end; ++tile) {
      const int64_t begin = larger(panel, tile->span.begin), end = smaller(panel + kPanel, tile->span.end);
      if (begin >= end) continue;
      tile_values<kFormat>(tile->lines, pointers, ahead, padded, scratch.scores + tile->line * kScoreStride, begin, end,
                           scratch.weighted + tile->line * padded, padded);
    }
  }
}

// Queries times the scale, in units of log 2, per tile [D][lines].
inline void load_queries(const AttentionArgs& args, const Work& work, const AttentionScratch& scratch) {
  const F scale = set1(args.scale * 1.44269504088896341f);
  const int64_t dim = work.head_dim, padded = work.padded_dim;
  float* scaled = scratch.weighted;  // free until the first split
  for (int64_t row = 0, line = 0; row < work.task->rows; ++row) {
    const float* from = args.qkv + (work.task->first_row + row) * args.qkv_stride;
    from += work.task->kv_head * work.group * dim;
    for (int64_t head = 0; head < work.group; ++head, ++line, from += dim) {
      for (int64_t d = 0; d < dim; d += kLanes) {
        store(scaled + line * padded + d, mul(load_at_most(from + d, dim - d), scale));
      }
    }
  }
  for (const Tile* tile = scratch.tiles; tile < scratch.tiles + work.tiles; ++tile) {
    float* to = scratch.queries + tile->line * dim;
    for (int64_t i = 0; i < tile->lines; ++i) {
      const float* from = scaled + (tile->line + i) * padded;
      for (int64_t d = 0; d < dim; ++d) to[d * tile->lines + i] = from[d];
    }
  }
}

inline bool reads_vectors(const KVLayout& layout) {
  return layout.block_tokens % kGroup == 0 && layout.head_dim % kGroup == 0;
}

// The first keys of a split, to fetch them at the end of the one before; `fetched`: what is in the
// cache already, where there are fewer.
template <KVFormat kFormat>
inline void look_ahead(const AttentionArgs& args, const Work& work, int64_t split, const uint8_t* fetched,
                       const uint8_t** ahead) {
  const Span span = work.span(split);
  const int64_t row_bytes = work.head_dim * kBytes<kFormat>;
  int64_t filled = 0;
  if (!span.empty()) {
    for_each_group(
        args, work, split, span.first_group(), smaller(span.first_group() + kAhead, span.groups()),
        [&](int64_t, const uint8_t* keys, const uint8_t*, int64_t slot) { ahead[filled++] = keys + slot * row_bytes; });
  }
  for (; filled < kAhead; ++filled) ahead[filled] = fetched;
}

// The split's results join those before it, or become a partial result.
inline void take_split(const AttentionArgs& args, const Work& work, int64_t split, const AttentionScratch& scratch) {
  const AttentionTask& task = *work.task;
  const int64_t padded = work.padded_dim;
  if (task.partial < 0) {
    for (int64_t line = 0; line < work.lines; line += kLanes) {
      const Join joined = join(load(scratch.joined_maxima + line), load(scratch.joined_sums + line),
                               load(scratch.maxima + line), load(scratch.sums + line));
      store(scratch.joined_maxima + line, joined.maximum);
      store(scratch.joined_sums + line, joined.sum);
      store(scratch.before + line, joined.before);
      store(scratch.after + line, joined.after);
    }
    for (int64_t line = 0; line < work.lines; ++line) {
      join_values(scratch.joined + line * padded, scratch.weighted + line * padded, set1(scratch.before[line]),
                  set1(scratch.after[line]), padded);
    }
    return;
  }
  float* row = args.partials + task.partial + (split - task.first_split) * partial_floats(work.group, work.head_dim);
  for (int64_t line = 0; line < work.lines; row += task.partial_row) {
    float* to = row;
    for (int64_t head = 0; head < work.group; ++head, ++line, to += padded + 2) {
      if (scratch.sums[line] == 0.0f) continue;  // sees nothing of this split: belongs to no merge
      for (int64_t d = 0; d < padded; d += kLanes) store(to + d, load(scratch.weighted + line * padded + d));
      to[padded] = scratch.maxima[line];
      to[padded + 1] = scratch.sums[line];
    }
  }
}

#if defined(NETGAIN_MATRIX_UNIT)
}  // namespace
}  // namespace netgain
#include "attention_amx.h"
namespace netgain {
namespace {
#else
inline bool tiles_fit(const KVLayout&) { return false; }
#endif

template <KVFormat kFormat>
inline void attend_task(const AttentionArgs& args, const AttentionTask& task, const AttentionTask* next_task,
                        const AttentionScratch& scratch) {
  constexpr bool kScaled = kFormat == KVFormat::kInt8;
  const Work work = work_of(args, task);
  const bool tiles = tiles_fit(args.layout);
  if (!tiles) {
    divide_lines(work, scratch.tiles);
    load_queries(args, work, scratch);
  }
#if defined(NETGAIN_MATRIX_UNIT)
  if constexpr (kFormat != KVFormat::kFp32) {
    if (tiles) load_query_tiles<kFormat>(args, work, reinterpret_cast<uint8_t*>(scratch.queries));
  }
#endif
  for (int64_t i = 0; i < work.lines * work.padded_dim; i += kLanes) store(scratch.joined + i, zero());
  for (int64_t line = 0; line < work.lines; line += kLanes) {
    store(scratch.joined_maxima + line, set1(kNothing));
    store(scratch.joined_sums + line, zero());
  }
  const bool vectors = reads_vectors(args.layout), direct = vectors && work.tiles <= kDirectTiles;
  Pointers records, copies;
  if (!direct) point_at_copy(work, copies, scratch);

  for (int64_t split = task.first_split; split < task.first_split + task.splits; ++split) {
    const Span span = work.span(split);
    if (vectors) {
      point_at_records<kFormat>(args, work, split, span, records, scratch);
      const uint8_t** ahead = records.ahead + 2 * (span.groups() - span.first_group());
      if (split + 1 < task.first_split + task.splits) {
        look_ahead<kFormat>(args, work, split + 1, records.ahead[0], ahead);
      } else if (next_task) {
        look_ahead<kFormat>(args, work_of(args, *next_task), next_task->first_split, records.ahead[0], ahead);
      } else {
        for (int i = 0; i < kAhead; ++i) ahead[i] = records.ahead[0];
      }
    }
#if defined(NETGAIN_MATRIX_UNIT)
    if constexpr (kFormat != KVFormat::kFp32) {
      if (tiles) {
        if (!vectors) gather_records<kFormat>(args, work, split, span, records, scratch);
        attend_split_tiles<kFormat, kScaled>(work, split, span, records, scratch);
        take_split(args, work, split, scratch);
        continue;
      }
    }
#endif
    if (direct) {
      attend_split<kFormat, kScaled>(work, split, span, records, scratch);
    } else {
      if (vectors) {
        copy_vectors<kFormat>(work, span, records, scratch);
      } else {
        copy_elements<kFormat>(args, work, split, span, scratch);
      }
      attend_split<KVFormat::kFp32, kScaled>(work, split, span, copies, scratch);
    }
    take_split(args, work, split, scratch);
  }
  if (task.partial >= 0) return;
  for (int64_t row = 0, line = 0; row < task.rows; ++row) {
    for (int64_t head = 0; head < work.group; ++head, ++line) {
      finish_line(args, task.first_row + row, task.kv_head * work.group + head, scratch.joined + line * work.padded_dim,
                  scratch.joined_sums[line]);
    }
  }
}

template <KVFormat kFormat>
inline void attend_tasks(const AttentionArgs& args, const AttentionTask* tasks, int64_t count, float* memory) {
  const AttentionScratch scratch = carve(args, memory);
#if defined(NETGAIN_MATRIX_UNIT)
  const AttentionTiles unit;
  const NoDenormals modes;
#endif
  for (int64_t i = 0; i < count; ++i) {
    attend_task<kFormat>(args, tasks[i], i + 1 < count ? tasks + i + 1 : nullptr, scratch);
  }
}

inline void attend(const AttentionArgs& args, const AttentionTask* tasks, int64_t count, float* scratch) {
  switch (args.layout.format) {
    case KVFormat::kFp32: return attend_tasks<KVFormat::kFp32>(args, tasks, count, scratch);
    case KVFormat::kBf16: return attend_tasks<KVFormat::kBf16>(args, tasks, count, scratch);
    case KVFormat::kFp16: return attend_tasks<KVFormat::kFp16>(args, tasks, count, scratch);
    case KVFormat::kInt8: return attend_tasks<KVFormat::kInt8>(args, tasks, count, scratch);
  }
}

inline void merge(const AttentionArgs& args, const AttentionMerge* merges, int64_t count) {
#if defined(NETGAIN_MATRIX_UNIT)
  const NoDenormals modes;
#endif
  const int64_t group = args.heads / args.layout.kv_heads, dim = args.layout.head_dim, padded = round_up(dim, 16);
  for (const AttentionMerge* merge = merges; merge < merges + count; ++merge) {
    for (int64_t head = 0; head < group; ++head) {
      float* values = args.partials + merge->partial + head * (padded + 2);
      F maximum = set1(values[padded]), sum = set1(values[padded + 1]);
      join_values(values, values, zero(), set1(1.0f), padded);
      for (int64_t split = 1; split < merge->splits; ++split) {
        const float* next = values + split * partial_floats(group, dim);
        const Join joined = join(maximum, sum, set1(next[padded]), set1(next[padded + 1]));
        join_values(values, next, joined.before, joined.after, padded);
        maximum = joined.maximum;
        sum = joined.sum;
      }
      finish_line(args, merge->row, merge->kv_head * group + head, values, first_lane(sum));
    }
  }
}

}  // namespace
}  // namespace netgain

#undef NETGAIN_UNROLL
