// NETGAIN_VECTOR: the vectors of one instruction set.
#include "kernels.h"
#include NETGAIN_VECTOR
#include "common_impl.h"
#include "rows_impl.h"
#include "quantized_rows.h"
#include "unit.h"

// x, gain, eps, sizes (rows, x_stride, columns, y_stride), y
NETGAIN_TEST void norm(Buffers buffers) {
  const int64_t* sizes = array<int64_t>(buffers, 3);
  netgain::NormArgs args = {
      array<float>(buffers, 0), sizes[1], sizes[2], array<float>(buffers, 1), scalar<float>(buffers, 2),
      array<float>(buffers, 4), sizes[3], {}};
  netgain::rms_norm(args, 0, sizes[0]);
}

// x, gain, eps, sizes (rows, x_stride, columns, rows by pair, rounding), then values, scales, offsets, scaled sums
NETGAIN_TEST void norm_quantized(Buffers buffers) {
  const int64_t* sizes = array<int64_t>(buffers, 3);
  netgain::NormArgs args = {array<float>(buffers, 0),
                            sizes[1],
                            sizes[2],
                            array<float>(buffers, 1),
                            scalar<float>(buffers, 2),
                            nullptr,
                            0,
                            quantized_rows(buffers, 4, sizes[2], static_cast<netgain::Rounding>(sizes[4]), sizes[3])};
  netgain::rms_norm(args, 0, sizes[0]);
}

// x, sizes (row begin, row end, x_stride, columns, rows by pair, rounding), then values, scales, offsets, scaled sums
NETGAIN_TEST void quantize(Buffers buffers) {
  const int64_t* sizes = array<int64_t>(buffers, 1);
  netgain::quantize(array<float>(buffers, 0), sizes[2], sizes[3],
                    quantized_rows(buffers, 2, sizes[3], static_cast<netgain::Rounding>(sizes[5]), sizes[4]), sizes[0],
                    sizes[1]);
}

// packed table, sizes (format, rows, columns, token count, y_stride), token ids, y
NETGAIN_TEST void embed(Buffers buffers) {
  const int64_t* sizes = array<int64_t>(buffers, 1);
  netgain::Matrix table = {static_cast<netgain::WeightFormat>(sizes[0]), sizes[1], sizes[2], array<uint8_t>(buffers, 0),
                           nullptr};
  netgain::embed(table, array<int32_t>(buffers, 2), array<float>(buffers, 3), sizes[4], 0, sizes[3]);
}

const Entry kEntries[] = {
    {"norm", norm}, {"norm_quantized", norm_quantized}, {"quantize", quantize}, {"embed", embed}, {nullptr, nullptr}};
