// NETGAIN_VECTOR and NETGAIN_DOT: the vectors and the products of one instruction set.
#include "kernels.h"
#include NETGAIN_VECTOR
#include "common_impl.h"
#if defined(NETGAIN_MATRIX_UNIT)
#include "linear_impl.h"
#include NETGAIN_DOT
#else
#include NETGAIN_DOT
#include "linear_impl.h"
#endif
#include "division.h"
#include "quantized_rows.h"
#include "unit.h"

// packed weight, sizes (format, outputs, columns, row begin, row end, rows by pair), then values, scales, offsets,
// scaled sums, y, which holds what is added to, and bias of whole tiles
NETGAIN_TEST void linear(Buffers buffers) {
  const int64_t* sizes = array<int64_t>(buffers, 1);
  netgain::LinearArgs args = {};
  args.weight = {static_cast<netgain::WeightFormat>(sizes[0]), sizes[1], sizes[2], array<uint8_t>(buffers, 0),
                 array<float>(buffers, 7)};
  args.quantized = quantized_rows(buffers, 2, sizes[2], netgain::rounding_for(args.weight.format), sizes[5]);
  args.y = array<float>(buffers, 6);
  args.residual = args.y;
  args.y_stride = args.residual_stride = sizes[1];
  netgain::linear(args, sizes[3], sizes[4], 0, (sizes[1] + netgain::kTile - 1) / netgain::kTile);
}

// packed weight, sizes (format, gate and up features, columns, rows, rows by pair, rounding), then values, scales,
// offsets and scaled sums of the input, and of the output, y (used unless its first number is 0), bias
NETGAIN_TEST void gated(Buffers buffers) {
  const int64_t* sizes = array<int64_t>(buffers, 1);
  const int64_t features = sizes[1] / 2;
  netgain::GatedArgs args = {};
  args.linear.weight = {static_cast<netgain::WeightFormat>(sizes[0]), sizes[1], sizes[2], array<uint8_t>(buffers, 0),
                        array<float>(buffers, 11)};
  args.linear.quantized =
      quantized_rows(buffers, 2, sizes[2], netgain::rounding_for(args.linear.weight.format), sizes[4]);
  args.linear.y = *array<float>(buffers, 10) == 0 ? nullptr : array<float>(buffers, 10);
  args.linear.y_stride = features;
  args.activation = netgain::Activation::kSilu;
  args.out = quantized_rows(buffers, 6, features, static_cast<netgain::Rounding>(sizes[5]), sizes[4]);
  netgain::gated(args, 0, sizes[3], 0, (features + netgain::kScaled - 1) / netgain::kScaled);
}

// sizes (format, columns, units, unit tiles, together, rows; of a processor most rows, chunks of a thread, products in a
// nanosecond; threads), then rows of a chunk, chunks of rows and of units, and the first unit of each chunk and the end
NETGAIN_TEST void divide(Buffers buffers) {
  const int64_t* sizes = array<int64_t>(buffers, 0);
  const netgain::Matrix matrix = {static_cast<netgain::WeightFormat>(sizes[0]), 0, sizes[1], nullptr, nullptr};
  const netgain::Cutting cutting = {sizes[4], sizes[6], sizes[7], static_cast<double>(sizes[8])};
  const netgain::Division cut =
      netgain::divide_products(matrix, sizes[2], sizes[3], sizes[4], sizes[5], cutting, sizes[9]);
  int64_t* to = array<int64_t>(buffers, 1);
  to[0] = cut.row_chunk;
  to[1] = cut.row_chunks;
  to[2] = cut.unit_chunks;
  for (int64_t i = 0; i <= cut.unit_chunks; ++i) array<int64_t>(buffers, 2)[i] = cut.first_unit(i);
}

const Entry kEntries[] = {{"linear", linear}, {"gated", gated}, {"divide", divide}, {nullptr, nullptr}};
