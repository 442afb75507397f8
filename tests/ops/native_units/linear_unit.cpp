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

const Entry kEntries[] = {{"linear", linear}, {nullptr, nullptr}};
