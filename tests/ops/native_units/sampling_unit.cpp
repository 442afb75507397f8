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

// logits [count], count, temperature, top_k, top_p, min_p, draws, uniform numbers, scratch, tokens
NETGAIN_TEST void draw(Buffers buffers) {
  for (int64_t i = 0; i < scalar<int64_t>(buffers, 6); ++i) {
    array<int32_t>(buffers, 9)[i] = netgain::draw(
        array<float>(buffers, 0), scalar<int64_t>(buffers, 1), scalar<float>(buffers, 2), scalar<int32_t>(buffers, 3),
        scalar<float>(buffers, 4), scalar<float>(buffers, 5), array<double>(buffers, 7)[i], array<float>(buffers, 8));
  }
}

// logits [count], count, tokens, how many, tops, scratch, log-probabilities, ranks, top ids, their log-probabilities
NETGAIN_TEST void score(Buffers buffers) {
  const int32_t tops = scalar<int32_t>(buffers, 4);
  for (int64_t i = 0; i < scalar<int64_t>(buffers, 3); ++i) {
    netgain::score(array<float>(buffers, 0), scalar<int64_t>(buffers, 1), array<int32_t>(buffers, 2)[i], tops,
                   array<float>(buffers, 6) + i, array<int32_t>(buffers, 7) + i, array<int32_t>(buffers, 8) + i * tops,
                   array<float>(buffers, 9) + i * tops, array<float>(buffers, 5));
  }
}

// seeds, positions, count, numbers
NETGAIN_TEST void uniform(Buffers buffers) {
  for (int64_t i = 0; i < scalar<int64_t>(buffers, 2); ++i) {
    array<double>(buffers, 3)[i] = netgain::uniform(array<uint64_t>(buffers, 0)[i], array<int64_t>(buffers, 1)[i]);
  }
}

const Entry kEntries[] = {
    {"argmax", argmax}, {"draw", draw}, {"score", score}, {"uniform", uniform}, {nullptr, nullptr}};
