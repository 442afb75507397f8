// What each instruction set implements. Every function works on its own range of rows, tiles or
// tasks and may run on any thread; none allocates.
#pragma once

#include "formats.h"

namespace netgain {

// Rows in, rows out. Exactly one of `x` (dense weights) and `quantized` (quantised weights) is read.
struct LinearArgs {
  Matrix weight;
  const float* x;
  int64_t x_stride;
  QuantizedRows quantized;
  float* y;
  int64_t y_stride;
  const float* residual;  // added to the result; null: none; may be y itself
  int64_t residual_stride;
};

enum class Activation : int32_t { kSilu = 0, kGeluTanh = 1 };

// act(x @ gate.T) * (x @ up.T). Tiles of the packed weight alternate: gate tile, up tile.
struct GatedArgs {
  LinearArgs linear;           // y: [rows][features] when the result is wanted in float32, else null
  Activation activation;
  QuantizedRows out;           // when it is wanted quantised
};

struct NormArgs {
  const float* x;
  int64_t x_stride, columns;
  const float* gain;
  float eps;
  float* y;                    // float32 result, or null
  int64_t y_stride;
  QuantizedRows out;           // quantised result, used when y is null
};

// One step's view of one KV group.
struct StepView {
  int64_t slices;
  const int32_t* query_starts;  // [R + 1]
  const int32_t* context_lens;  // [R], first position + count
  const int32_t* tables;        // [R][table_stride] block ids
  int64_t table_stride;
  const int32_t* positions;     // [T]
  const int32_t* slice_of;      // [T] slice that owns each token
  uint8_t* records;             // [blocks][record bytes]
};

struct AttentionArgs {
  StepView step;
  KVLayout layout;
  int64_t layer, heads, window;  // window: tokens seen, the query's own included; 0: all
  float scale;
  float* qkv;                    // [T][qkv_stride]: H query heads, K keys, K values, of D each
  int64_t qkv_stride;
  const float* cosines;          // [T][D / 2]
  const float* sines;
  float* y;                      // [T][H * D] float32, or null
  int64_t y_stride;
  QuantizedRows out;             // used when y is null; D is then a multiple of kScaled
  float* partials;               // see AttentionTask
};

// The context is always cut at the same positions, whoever attends over it and in whatever step.
inline constexpr int kContextSplit = 256;
// Most queries of one task: few enough for their scores to stay in the second-level cache, enough to
// pay for converting keys and values once for all of them.
constexpr int64_t task_queries(int64_t group) { return group >= 96 ? 1 : group < 2 ? 64 : 96 / group; }

// Built once per step, the same for all layers: `rows` tokens of T from `first_row`, all of one
// slice, the query heads of one KV head, `splits` pieces of kContextSplit positions. The splits of a
// task cover all that its rows see (`partial` < 0: it writes the result), or part of it: then split s
// of row i goes to float `partial + i * partial_row + (s - first_split) * partial_floats(G, D)` of
// `partials`, if the row sees anything of it.
struct AttentionTask {
  int32_t slice, first_row, rows, kv_head;
  int32_t first_split, splits;
  int64_t partial, partial_row;
};
// A row whose splits were computed by several tasks: merged in the order of the splits, by the
// formula that joins them inside a task. Overwrites the partial results.
struct AttentionMerge {
  int32_t row, kv_head, splits;
  int64_t partial;              // of the first split that it sees; the next follow
};
// Per query head of the group: D weighted values (up to a multiple of 16), maximum, sum.
constexpr int64_t partial_floats(int64_t group, int64_t head_dim) { return group * (2 + round_up(head_dim, 16)); }

// How a phase of products is best cut into chunks.
struct Cutting {
  int64_t tiles;   // that `linear` multiplies at once, where there are as many
  int64_t rows;    // most that meet quantised weights at once: they stay in the second-level cache meanwhile
  int64_t chunks;  // for each thread: more even out what threads differ in, and each costs its beginning and end
  double products_per_ns;  // with quantised weights, of one core, roughly: how long a chunk takes
};

struct Kernels {
  const char* name;
  CodeLayout codes;  // of the quantised weights that the functions read
  Cutting cutting;

  // Rows [row_begin, row_end) by packed tiles [tile_begin, tile_end).
  void (*linear)(const LinearArgs&, int64_t row_begin, int64_t row_end, int64_t tile_begin, int64_t tile_end);
  // Units of kScaled output features [unit_begin, unit_end): packed tiles 8 u .. 8 u + 7, if as many are left.
  void (*gated)(const GatedArgs&, int64_t row_begin, int64_t row_end, int64_t unit_begin, int64_t unit_end);
  void (*embed)(const Matrix& table, const int32_t* token_ids, float* y, int64_t y_stride, int64_t row_begin,
                int64_t row_end);
  void (*quantize)(const float* x, int64_t x_stride, int64_t columns, const QuantizedRows& out, int64_t row_begin,
                   int64_t row_end);
  void (*rms_norm)(const NormArgs&, int64_t row_begin, int64_t row_end);

  // Rotates q and k of tokens [row_begin, row_end) in place and stores k and v in their slots.
  void (*rope_and_store)(const AttentionArgs&, int64_t row_begin, int64_t row_end);
  void (*attend)(const AttentionArgs&, const AttentionTask*, int64_t count, float* scratch);
  void (*merge)(const AttentionArgs&, const AttentionMerge*, int64_t count);
  int64_t (*attention_scratch_floats)(const AttentionArgs&);  // per thread

  // Largest logit and the first token that has it.
  void (*argmax)(const float* logits, int64_t count, float* largest, int32_t* token);
  // Draws one token as `ops/draws.py` defines it; `scratch` holds `count` floats.
  int32_t (*draw)(const float* logits, int64_t count, float temperature, int32_t top_k, float top_p, float min_p,
                  double uniform, float* scratch);
  // What `ops/scores.py` says of one row and token; `tops` places each, unused ids -1; `scratch` as above.
  void (*score)(const float* logits, int64_t count, int32_t token, int32_t tops, float* logprob, int32_t* rank,
                int32_t* top_ids, float* top_logprobs, float* scratch);
};

// The functions of one instruction set's translation unit, which all have these names.
#define NETGAIN_KERNELS(name)   \
  {                             \
      name,                     \
      CodeLayout::kByQuad,      \
      {1, 256, 4, 100},         \
      linear,                   \
      gated,                    \
      embed,                    \
      quantize,                 \
      rms_norm,                 \
      rope_and_store,           \
      attend,                   \
      merge,                    \
      attention_scratch_floats, \
      argmax,                   \
      draw,                     \
      score}

// Null where the compiler or the processor lacks the instructions.
const Kernels* kernels_plain();
const Kernels* kernels_avx2();
const Kernels* kernels_avx_vnni();
const Kernels* kernels_avx512_vnni();
const Kernels* kernels_amx();  // AVX-512 VNNI, VBMI, VBMI2 and bfloat16, AMX int8 (for ceilings only) and bfloat16
const Kernels* kernels_neon();

}  // namespace netgain
