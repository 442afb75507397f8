// NETGAIN_VECTOR: the vectors of one instruction set.
#include "kernels.h"
#include NETGAIN_VECTOR
#include "common_impl.h"
#include "philox.h"
#include "sampling_impl.h"
#include "unit.h"

// logits, rows, count, largest of each row, its token
NETGAIN_TEST void argmax(Buffers buffers) {
  const int64_t rows = scalar<int64_t>(buffers, 1), count = scalar<int64_t>(buffers, 2);
  for (int64_t row = 0; row < rows; ++row) {
    netgain::argmax(array<float>(buffers, 0) + row * count, count, array<float>(buffers, 3) + row,
                    array<int32_t>(buffers, 4) + row);
  }
}

// logits [count], count, temperature, top_k, top_p, draws, uniform numbers, scratch, tokens
NETGAIN_TEST void draw(Buffers buffers) {
  for (int64_t i = 0; i < scalar<int64_t>(buffers, 5); ++i) {
    array<int32_t>(buffers, 8)[i] = netgain::draw(
        array<float>(buffers, 0), scalar<int64_t>(buffers, 1), scalar<float>(buffers, 2), scalar<int32_t>(buffers, 3),
        scalar<float>(buffers, 4), array<double>(buffers, 6)[i], array<float>(buffers, 7));
  }
}

// seeds, positions, count, numbers
NETGAIN_TEST void uniform(Buffers buffers) {
  for (int64_t i = 0; i < scalar<int64_t>(buffers, 2); ++i) {
    array<double>(buffers, 3)[i] = netgain::uniform(array<uint64_t>(buffers, 0)[i], array<int64_t>(buffers, 1)[i]);
  }
}

const Entry kEntries[] = {{"argmax", argmax}, {"draw", draw}, {"uniform", uniform}, {nullptr, nullptr}};
