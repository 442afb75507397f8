// Row by row: normalisation, quantisation, embedding.
#pragma once

#include "half.h"

namespace netgain {
namespace {

// kLanes floats from column `at` of a row; zeros behind its last column.
inline F load_columns(const float* row, int64_t at, int64_t columns) {
  return at < columns ? load_at_most(row + at, columns - at) : zero();
}

inline void store_columns(float* row, int64_t at, int64_t columns, F x) {
  if (at < columns) store_at_most(row + at, x, columns - at);
}

// Four sums, so that additions overlap; their order depends on the number of columns only.
inline float sum_of_squares(const float* row, int64_t columns) {
  F sums[4] = {zero(), zero(), zero(), zero()};
  int64_t at = 0;
  for (; at + 4 * kLanes <= columns; at += 4 * kLanes) {
    for (int i = 0; i < 4; ++i) {
      F x = load(row + at + i * kLanes);
      sums[i] = fma(x, x, sums[i]);
    }
  }
  for (; at < columns; at += kLanes) {
    F x = load_columns(row, at, columns);
    sums[0] = fma(x, x, sums[0]);
  }
  return reduce_add(add(add(sums[0], sums[1]), add(sums[2], sums[3])));
}

// x / sqrt(mean(x ** 2) + eps) * gain. The quantised result is padded with zeros to whole blocks.
void rms_norm(const NormArgs& args, int64_t row_begin, int64_t row_end) {
  const int64_t columns = args.columns;
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float* x = args.x + row * args.x_stride;
    const float mean = sum_of_squares(x, columns) / static_cast<float>(columns);
    const F scale = set1(1.0f / __builtin_sqrtf(mean + args.eps));
    auto normed = [&](int64_t at) {
      return mul(mul(load_columns(x, at, columns), scale), load_columns(args.gain, at, columns));
    };
    if (args.y) {
      float* y = args.y + row * args.y_stride;
      for (int64_t at = 0; at < columns; at += kLanes) store_columns(y, at, columns, normed(at));
      continue;
    }
    for (int64_t block = 0; block < args.out.blocks; block += kScaleBlocks) {
      F values[kScaled / kLanes];
      for (int i = 0; i < kScaled / kLanes; ++i) values[i] = normed(block * kBlock + i * kLanes);
      quantize_blocks(values, row, block, args.out);
    }
  }
}

void quantize(const float* x, int64_t x_stride, int64_t columns, const QuantizedRows& out, int64_t row_begin,
              int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float* from = x + row * x_stride;
    for (int64_t block = 0; block < out.blocks; block += kScaleBlocks) {
      F values[kScaled / kLanes];
      for (int i = 0; i < kScaled / kLanes; ++i) values[i] = load_columns(from, block * kBlock + i * kLanes, columns);
      quantize_blocks(values, row, block, out);
    }
  }
}

// The whole numbers of one output feature of a block, without the scale.
template <WeightFormat W>
inline void gather_block(const uint8_t* payload, int64_t lane, int8_t* values) {
#if defined(NETGAIN_MATRIX_UNIT)
  // See CodeLayout::kByOutput.
  constexpr bool bytes = W == WeightFormat::kQ8_0;
  const uint8_t* words = payload + lane / (bytes ? 2 : 4) * 64;
  for (int i = 0; i < kBlock; ++i) {
    if constexpr (bytes) {
      uint32_t word;
      __builtin_memcpy(&word, words + i / 2 * 4, 4);
      const uint32_t turned_back = word >> 15 | word << 17;
      values[i] = static_cast<int8_t>((turned_back >> (lane % 2 * 16 + i % 2 * 8) & 255) - 128);
    } else {
      uint16_t word;
      __builtin_memcpy(&word, words + 2 * i, 2);
      values[i] = static_cast<int8_t>((word >> 1 | word << 15) >> lane % 4 * 4 & 15);
    }
  }
#else
  constexpr int64_t quad_bytes = 4 * kTile;
  const uint8_t* at = payload + 4 * lane;
  if constexpr (W == WeightFormat::kQ8_0) {
    for (int q = 0; q < 8; ++q) __builtin_memcpy(values + 4 * q, at + q * quad_bytes, 4);
  } else {
    for (int q = 0; q < 4; ++q) {
      uint32_t pair;
      __builtin_memcpy(&pair, at + q * quad_bytes, 4);
      const uint32_t low = pair & 0x0f0f0f0fu, high = pair >> 4 & 0x0f0f0f0fu;
      __builtin_memcpy(values + 8 * q, &low, 4);
      __builtin_memcpy(values + 8 * q + 4, &high, 4);
    }
  }
#endif
}

template <WeightFormat W>
void embed_quantized(const Matrix& table, int64_t token, float* y) {
  constexpr bool has_minimum = W == WeightFormat::kQ4_1;
  const int64_t lane = token % kTile;
  const uint8_t* block = table.tile(token / kTile);
  for (int64_t b = 0; b < table.blocks(); ++b, block += quantized_block_bytes(W)) {
    uint16_t halves[2] = {};
    __builtin_memcpy(halves, block + 2 * lane, 2);
    if constexpr (has_minimum) __builtin_memcpy(halves + 1, block + 2 * (kTile + lane), 2);
    const F scale = set1(fp16_to_float(halves[0])), minimum = set1(fp16_to_float(halves[1]));
    int8_t values[kBlock];
    gather_block<W>(block + (has_minimum ? 4 : 2) * kTile, lane, values);
    for (int i = 0; i < kBlock / kLanes; ++i) {
      F q = load_int8(values + i * kLanes);
      if constexpr (W == WeightFormat::kQ4_0) q = sub(q, set1(8.0f));
      F weight = mul(scale, q);
      // Two roundings: what whoever wrote the file saw.
      if constexpr (has_minimum) weight = add(weight, minimum);
      store_columns(y, b * kBlock + i * kLanes, table.columns, weight);
    }
  }
}

template <WeightFormat W>
void embed_dense(const Matrix& table, int64_t token, float* y) {
  constexpr int64_t bytes = W == WeightFormat::kFp32 ? 4 : 2;
  const uint8_t* from = table.tile(token / kTile) + token % kTile * bytes;
  for (int64_t at = 0; at < table.columns; at += kLanes) {
    uint8_t values[kLanes * bytes] = {};
    const int64_t count = smaller(kLanes, table.columns - at);
    for (int64_t i = 0; i < count; ++i) {
      __builtin_memcpy(values + i * bytes, from + (at + i) * kTile * bytes, bytes);
    }
    F x;
    if constexpr (W == WeightFormat::kFp32) {
      __builtin_memcpy(&x, values, sizeof x);
    } else if constexpr (W == WeightFormat::kBf16) {
      x = load_bf16(values);
    } else {
      x = load_fp16(values);
    }
    store_columns(y, at, table.columns, x);
  }
}

// Rows of the table, dequantised exactly. Token ids lie within the table.
void embed(const Matrix& table, const int32_t* token_ids, float* y, int64_t y_stride, int64_t row_begin,
           int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    const int64_t token = token_ids[row];
    float* to = y + row * y_stride;
    switch (table.format) {
      case WeightFormat::kFp32: embed_dense<WeightFormat::kFp32>(table, token, to); break;
      case WeightFormat::kBf16: embed_dense<WeightFormat::kBf16>(table, token, to); break;
      case WeightFormat::kFp16: embed_dense<WeightFormat::kFp16>(table, token, to); break;
      case WeightFormat::kQ8_0: embed_quantized<WeightFormat::kQ8_0>(table, token, to); break;
      case WeightFormat::kQ4_0: embed_quantized<WeightFormat::kQ4_0>(table, token, to); break;
      case WeightFormat::kQ4_1: embed_quantized<WeightFormat::kQ4_1>(table, token, to); break;
    }
  }
}

}  // namespace
}  // namespace netgain
