// How a phase of products is cut into chunks: rows by units of output features.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels.h"

namespace netgain {

// Rough rates of one core, only to cut phases into chunks of a sensible size.
inline constexpr double kBytesPerNs = 8, kDenseProductsPerNs = 100;
// A chunk is worth a few microseconds: far more than taking it costs, far less than a step.
inline constexpr double kLeastChunkNs = 3000, kMostChunkNs = 60000;
inline constexpr int64_t kMostDenseRows = 256;  // that meet dense weights at once
inline constexpr int64_t kMostChunks = 65535;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct Division {
  int64_t row_chunk = 0, row_chunks = 0;
  int64_t units = 1, together = 1;  // units that stay in one chunk
  int64_t unit_chunks = 1;

  int64_t chunks() const { return row_chunks * unit_chunks; }
  // Chunks of units differ by no more than what stays together.
  int64_t first_unit(int64_t unit_chunk) const {
    return std::min(units, ceil_div(units, together) * unit_chunk / unit_chunks * together);
  }
};

// `units` of `unit_tiles` packed tiles each, by `rows`. Chunks cost about the same, and where there are more than threads
// their number is a multiple of that of threads: nobody waits for an odd one.
inline Division divide_products(const Matrix& matrix, int64_t units, int64_t unit_tiles, int64_t together, int64_t rows,
                                const Cutting& cutting, int64_t threads) {
  Division cut;
  if (rows == 0) return cut;
  const bool quantized = is_quantized(matrix.format);
  const int64_t most_rows = quantized ? cutting.rows : kMostDenseRows;
  const double products_per_ns = quantized ? cutting.products_per_ns : kDenseProductsPerNs;
  // Chunks of rows begin at multiples of 16, as kernels want.
  cut.row_chunk = std::min(rows, round_up(ceil_div(rows, ceil_div(rows, most_rows)), kRowGroup));
  cut.row_chunks = ceil_div(rows, cut.row_chunk);
  cut.units = units;
  cut.together = together;
  const auto bytes = static_cast<double>(unit_tiles * tile_bytes(matrix.format, matrix.columns));
  const auto products = static_cast<double>(cut.row_chunk * unit_tiles * kTile * matrix.columns);
  const double unit_ns = std::max(bytes / kBytesPerNs, products / products_per_ns);
  const double total_ns = unit_ns * static_cast<double>(units * cut.row_chunks);
  const double wanted =
      std::clamp(static_cast<double>(cutting.chunks * threads), total_ns / kMostChunkNs, total_ns / kLeastChunkNs);
  auto chunks = static_cast<int64_t>(std::ceil(wanted / static_cast<double>(cut.row_chunks)));
  if (chunks * cut.row_chunks > threads) chunks = round_up(chunks, threads / std::gcd(threads, cut.row_chunks));
  const int64_t most = std::min(ceil_div(units, together), std::max<int64_t>(1, kMostChunks / cut.row_chunks));
  cut.unit_chunks = std::clamp<int64_t>(chunks, 1, most);
  return cut;
}

}  // namespace netgain
