// Quantised rows of four buffers: values, scales, offsets, scaled sums.
#pragma once

#include "formats.h"
#include "unit.h"

inline netgain::QuantizedRows quantized_rows(Buffers buffers, int first, int64_t columns, netgain::Rounding rounding,
                                             int64_t pair_rows) {
  return {array<int8_t>(buffers, first),
          array<float>(buffers, first + 1),
          array<int32_t>(buffers, first + 2),
          array<float>(buffers, first + 3),
          (columns + netgain::kBlock - 1) / netgain::kBlock,
          rounding,
          pair_rows};
}
