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
#include "quantized_rows.h"
#include "unit.h"

// packed weight, sizes (format, outputs, columns, row begin, row end, rows by pair), then values, scales, offsets,
// scaled sums, y, which holds what is added to, and bias of whole tiles
NETGAIN_TEST void linear(Buffers buffers) {
  const int64_t* sizes = array<int64_t>(buffers, 1);
  netgain::LinearArgs args = {};
  args.weight = {static_cast<netgain::WeightFormat>(sizes[0]), sizes[1], sizes[2], array<uint8_t>(buffers, 0),
                 array<float>(buffers, 7)};
  args.quantized = quantized_rows(buffers, 2, sizes[2], sizes[5]);
  args.y = array<float>(buffers, 6);
  args.residual = args.y;
  args.y_stride = args.residual_stride = sizes[1];
  netgain::linear(args, sizes[3], sizes[4], 0, (sizes[1] + netgain::kTile - 1) / netgain::kTile);
}

// packed weight, sizes (format, gate and up features, columns, rows, rows by pair), then values, scales,
// offsets and scaled sums of the input, and of the output, y (used unless its first number is 0), bias
NETGAIN_TEST void gated(Buffers buffers) {
  const int64_t* sizes = array<int64_t>(buffers, 1);
  const int64_t features = sizes[1] / 2;
  netgain::GatedArgs args = {};
  args.linear.weight = {static_cast<netgain::WeightFormat>(sizes[0]), sizes[1], sizes[2], array<uint8_t>(buffers, 0),
                        array<float>(buffers, 11)};
  args.linear.quantized = quantized_rows(buffers, 2, sizes[2], sizes[4]);
  args.linear.y = *array<float>(buffers, 10) == 0 ? nullptr : array<float>(buffers, 10);
  args.linear.y_stride = features;
  args.activation = netgain::Activation::kSilu;
  args.out = quantized_rows(buffers, 6, features, sizes[4]);
  netgain::gated(args, 0, sizes[3], 0, (features + netgain::kScaled - 1) / netgain::kScaled);
}

const Entry kEntries[] = {{"linear", linear}, {"gated", gated}, {nullptr, nullptr}};
