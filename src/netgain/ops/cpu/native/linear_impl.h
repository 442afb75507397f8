// Matrix products over packed weights; linear_amx.h has those that a matrix unit computes.
//
// One output feature per lane. Quantised weights: each block's dot products are exact integers, and
// each output adds its blocks in order; dense weights: each output adds its input features in order.
// So a row's result is the same bits with any number of other rows.
#pragma once

#include <utility>

namespace netgain {
namespace {

constexpr int kParts = kTile / kLanes;  // vectors per tile

// Computes R rows of one tile, from a multiple of R on, into out[r * out_stride + 0..15], without bias.
using TileKernel = void (*)(const LinearArgs&, int64_t row, int64_t tile, float* out, int64_t out_stride);

#if defined(NETGAIN_MATRIX_UNIT)
// See linear_amx.h, which multiplies quantised weights.
void linear_on_tiles(const LinearArgs&, int64_t row_begin, int64_t row_end, int64_t tile_begin, int64_t tile_end);
void gated_on_tiles(const GatedArgs&, int64_t row_begin, int64_t row_end, int64_t unit_begin, int64_t unit_end);
#else
template <WeightFormat W, int R>
void quantized_tile(const LinearArgs& args, int64_t row, int64_t tile, float* out, int64_t out_stride) {
  constexpr bool has_minimum = W == WeightFormat::kQ4_1;
  constexpr int64_t block_bytes = quantized_block_bytes(W);
  constexpr int64_t payload_at = has_minimum ? 64 : 32;
  const int64_t blocks = args.quantized.blocks;
  const uint8_t* weights = args.weight.tile(tile);
  const int64_t first = args.quantized.index(row, 0);  // R rows never cross a row group
  const int8_t* values = args.quantized.values + first * kBlockValues;
  const float* scales = args.quantized.scales + first;
  const int32_t* offsets = args.quantized.offsets + first;
  const float* scaled_sums = args.quantized.scaled_sums + first;
#pragma GCC unroll 4
  for (int part = 0; part < kParts; ++part) {
    F total[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) total[r] = zero();
    const uint8_t* block = weights;
    for (int64_t b = 0; b < blocks; ++b, block += block_bytes) {
      if (part == 0) fetch_ahead(block, block_bytes);
      F dot[R];
      dots<W, R>(block + payload_at, part, values + b * kRowGroup * kBlockValues, offsets + b * kRowGroup, dot);
      const F scale = load_fp16(block + part * kLanes * 2);
      const F minimum = has_minimum ? load_fp16(block + 32 + part * kLanes * 2) : zero();
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        total[r] = fma(dot[r], mul(scale, set1(scales[b * kRowGroup + r])), total[r]);
        if constexpr (has_minimum) total[r] = fma(minimum, set1(scaled_sums[b * kRowGroup + r]), total[r]);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) store(out + r * out_stride + part * kLanes, total[r]);
  }
}

template <WeightFormat W, int... R>
TileKernel quantized_kernel(int rows, std::integer_sequence<int, R...>) {
  static constexpr TileKernel kernels[] = {quantized_tile<W, R + 1>...};
  return kernels[rows - 1];
}
#endif

template <WeightFormat W>
inline F load_dense(const uint8_t* data, int64_t element) {
  if constexpr (W == WeightFormat::kFp32) return load(reinterpret_cast<const float*>(data) + element);
  if constexpr (W == WeightFormat::kBf16) return load_bf16(data + element * 2);
  return load_fp16(data + element * 2);
}

template <WeightFormat W, int R>
void dense_tile(const LinearArgs& args, int64_t row, int64_t tile, float* out, int64_t out_stride) {
  const int64_t columns = args.weight.columns;
  const uint8_t* weights = args.weight.tile(tile);
  const float* x = args.x + row * args.x_stride;
  F total[R][kParts];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int part = 0; part < kParts; ++part) total[r][part] = zero();
  }
  for (int64_t i = 0; i < columns; ++i) {
    F weight[kParts];
#pragma GCC unroll 4
    for (int part = 0; part < kParts; ++part) weight[part] = load_dense<W>(weights, i * kTile + part * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      F value = set1(x[r * args.x_stride + i]);
#pragma GCC unroll 4
      for (int part = 0; part < kParts; ++part) total[r][part] = fma(weight[part], value, total[r][part]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int part = 0; part < kParts; ++part) store(out + r * out_stride + part * kLanes, total[r][part]);
  }
}

constexpr int kDenseRows = kLanes == 16 ? 12 : 4;
constexpr int kMostRows = 16;  // of any kernel below

template <WeightFormat W, int... R>
TileKernel dense_kernel(int rows, std::integer_sequence<int, R...>) {
  static constexpr TileKernel kernels[] = {dense_tile<W, R + 1>...};
  return kernels[rows - 1];
}

#if defined(NETGAIN_MATRIX_UNIT)
inline int most_rows(WeightFormat) { return kDenseRows; }
#else
inline int most_rows(WeightFormat format) { return is_quantized(format) ? kQuantizedRows : kDenseRows; }
#endif

inline TileKernel tile_kernel(WeightFormat format, int rows) {
  constexpr auto dense = std::make_integer_sequence<int, kDenseRows>();
#if !defined(NETGAIN_MATRIX_UNIT)
  constexpr auto quantized = std::make_integer_sequence<int, kQuantizedRows>();
#endif
  switch (format) {
    case WeightFormat::kFp32: return dense_kernel<WeightFormat::kFp32>(rows, dense);
    case WeightFormat::kBf16: return dense_kernel<WeightFormat::kBf16>(rows, dense);
    case WeightFormat::kFp16: return dense_kernel<WeightFormat::kFp16>(rows, dense);
#if !defined(NETGAIN_MATRIX_UNIT)
    case WeightFormat::kQ8_0: return quantized_kernel<WeightFormat::kQ8_0>(rows, quantized);
    case WeightFormat::kQ4_0: return quantized_kernel<WeightFormat::kQ4_0>(rows, quantized);
    case WeightFormat::kQ4_1: return quantized_kernel<WeightFormat::kQ4_1>(rows, quantized);
#endif
    default: return nullptr;
  }
}

inline void add_bias(const LinearArgs& args, int64_t tile, float* out, int64_t out_stride, int rows) {
  if (!args.weight.bias) return;
  for (int part = 0; part < kParts; ++part) {
    F bias = load(args.weight.bias + tile * kTile + part * kLanes);
    for (int r = 0; r < rows; ++r) {
      float* at = out + r * out_stride + part * kLanes;
      store(at, add(load(at), bias));
    }
  }
}

inline void write_tile(const LinearArgs& args, int64_t row, int64_t tile, const float* out, int64_t out_stride,
                       int rows) {
  const int64_t first = tile * kTile, width = smaller(kTile, args.weight.rows - first);
  for (int r = 0; r < rows; ++r) {
    const float* from = out + r * out_stride;
    float* to = args.y + (row + r) * args.y_stride + first;
    const float* residual = args.residual ? args.residual + (row + r) * args.residual_stride + first : nullptr;
    if (width == kTile) {
      for (int part = 0; part < kParts; ++part) {
        F value = load(from + part * kLanes);
        store(to + part * kLanes, residual ? add(load(residual + part * kLanes), value) : value);
      }
    } else {
      for (int64_t i = 0; i < width; ++i) to[i] = residual ? residual[i] + from[i] : from[i];
    }
  }
}

// `row_begin` is a multiple of 16.
void linear(const LinearArgs& args, int64_t row_begin, int64_t row_end, int64_t tile_begin, int64_t tile_end) {
#if defined(NETGAIN_MATRIX_UNIT)
  if (is_quantized(args.weight.format)) return linear_on_tiles(args, row_begin, row_end, tile_begin, tile_end);
#endif
  const int most = most_rows(args.weight.format);
  const TileKernel full = tile_kernel(args.weight.format, most);
  float out[kMostRows * kTile];
  for (int64_t tile = tile_begin; tile < tile_end; ++tile) {
    for (int64_t row = row_begin; row < row_end; row += most) {
      const int rows = static_cast<int>(smaller(most, row_end - row));
      // Rows of the result lie too far apart to be foreseen: fetched while their sums are made.
      for (int r = 0; r < rows; ++r) __builtin_prefetch(args.y + (row + r) * args.y_stride + tile * kTile, 1, 2);
      (rows == most ? full : tile_kernel(args.weight.format, rows))(args, row, tile, out, kTile);
      add_bias(args, tile, out, kTile, rows);
      write_tile(args, row, tile, out, kTile, rows);
    }
  }
}

inline F activate(Activation activation, F x) {
  // x * sigmoid(z); GELU's tanh form is sigmoid at twice its argument.
  F z = x;
  if (activation == Activation::kGeluTanh) {
    F cubed = mul(mul(x, x), x);
    z = mul(set1(1.5957691216057308f), fma(set1(0.044715f), cubed, x));
  }
  return quotient(x, add(set1(1.0f), exponential(sub(zero(), z))));
}

constexpr int64_t kUnitTiles = 2 * kScaled / kTile;     // gate, up, gate, up ... of kScaled features
constexpr int64_t kUnitStride = kUnitTiles * kTile;

inline int64_t unit_tiles(const LinearArgs& args, int64_t unit) {
  const int64_t tiles = round_up(args.weight.rows / 2, kBlock) * 2 / kTile;
  return smaller(kUnitTiles, tiles - unit * kUnitTiles);
}

// Activates one unit of gate and up features of some rows, `out` [rows][kUnitStride].
inline void write_gated(const GatedArgs& gate, int64_t row, int64_t unit, const float* out, int rows) {
  constexpr int vectors = kScaled / kLanes;
  const int64_t features = gate.linear.weight.rows / 2;
  const int count = static_cast<int>(unit_tiles(gate.linear, unit)) / 2 * kParts;
  for (int r = 0; r < rows; ++r) {
    F results[vectors];
    for (int i = 0; i < count; ++i) {
      const float* at = out + r * kUnitStride + i / kParts * 2 * kTile + i % kParts * kLanes;
      results[i] = mul(activate(gate.activation, load(at)), load(at + kTile));
    }
    if (!gate.linear.y) {
      quantize_blocks(results, row + r, unit * kScaleBlocks, gate.out);
      continue;
    }
    float wide[kScaled];
    for (int i = 0; i < count; ++i) store(wide + i * kLanes, results[i]);
    float* to = gate.linear.y + (row + r) * gate.linear.y_stride + unit * kScaled;
    const int64_t width = smaller(kScaled, features - unit * kScaled);
    for (int64_t i = 0; i < width; ++i) to[i] = wide[i];
  }
}

void gated(const GatedArgs& gate, int64_t row_begin, int64_t row_end, int64_t unit_begin, int64_t unit_end) {
  const LinearArgs& args = gate.linear;
#if defined(NETGAIN_MATRIX_UNIT)
  if (is_quantized(args.weight.format)) return gated_on_tiles(gate, row_begin, row_end, unit_begin, unit_end);
#endif
  const int most = most_rows(args.weight.format);
  float out[kMostRows * kUnitStride];
  for (int64_t unit = unit_begin; unit < unit_end; ++unit) {
    const int64_t tiles = unit_tiles(args, unit), first_tile = unit * kUnitTiles;
    for (int64_t row = row_begin; row < row_end; row += most) {
      const int rows = static_cast<int>(smaller(most, row_end - row));
      const TileKernel kernel = tile_kernel(args.weight.format, rows);
      for (int64_t t = 0; t < tiles; ++t) {
        kernel(args, row, first_tile + t, out + t * kTile, kUnitStride);
        add_bias(args, first_tile + t, out + t * kTile, kUnitStride, rows);
      }
      write_gated(gate, row, unit, out, rows);
    }
  }
}

}  // namespace
}  // namespace netgain
