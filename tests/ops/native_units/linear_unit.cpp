// NETGAIN_VECTOR and NETGAIN_DOT: the vectors and the dot products of one instruction set.
#include "kernels.h"
#include NETGAIN_VECTOR
#include "common_impl.h"
#include NETGAIN_DOT
#include "linear_impl.h"
#include "unit.h"

// packed weight, sizes (format, outputs, columns, rows), then values, scales, offsets, scaled sums, sum tiles, y
NETGAIN_TEST void linear(Buffers buffers) {
  const int64_t* sizes = array<int64_t>(buffers, 1);
  netgain::LinearArgs args = {};
  args.weight = {static_cast<netgain::WeightFormat>(sizes[0]), sizes[1], sizes[2], array<uint8_t>(buffers, 0), nullptr};
  args.quantized = {array<int8_t>(buffers, 2),
                    array<float>(buffers, 3),
                    array<int32_t>(buffers, 4),
                    array<float>(buffers, 5),
                    (sizes[2] + netgain::kBlock - 1) / netgain::kBlock,
                    array<uint32_t>(buffers, 6)};
  args.y = array<float>(buffers, 7);
  args.y_stride = sizes[1];
  netgain::linear(args, 0, sizes[3], 0, (sizes[1] + netgain::kTile - 1) / netgain::kTile);
}

// packed weight, sizes (format, gate and up features, columns, rows), then values, scales, offsets, scaled
// sums, sum tiles of the input, and of the output
NETGAIN_TEST void gated(Buffers buffers) {
  const int64_t* sizes = array<int64_t>(buffers, 1);
  const auto rows_of = [&](int first, int64_t columns) {
    return netgain::QuantizedRows{array<int8_t>(buffers, first),
                                  array<float>(buffers, first + 1),
                                  array<int32_t>(buffers, first + 2),
                                  array<float>(buffers, first + 3),
                                  (columns + netgain::kBlock - 1) / netgain::kBlock,
                                  array<uint32_t>(buffers, first + 4)};
  };
  const int64_t features = sizes[1] / 2;
  netgain::GatedArgs args = {};
  args.linear.weight = {static_cast<netgain::WeightFormat>(sizes[0]), sizes[1], sizes[2], array<uint8_t>(buffers, 0),
                        nullptr};
  args.linear.quantized = rows_of(2, sizes[2]);
  args.activation = netgain::Activation::kSilu;
  args.out = rows_of(7, features);
  netgain::gated(args, 0, sizes[3], 0, (features + netgain::kScaled - 1) / netgain::kScaled);
}

const Entry kEntries[] = {{"linear", linear}, {"gated", gated}, {nullptr, nullptr}};
