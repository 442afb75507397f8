// Puts rows of a checkpoint's matrix into the packed tiles of formats.h, and reads them back.
#pragma once

#include "formats.h"

namespace netgain {

// How the rows come. Values are GGML type ids (https://github.com/ggml-org/ggml, `enum ggml_type`).
enum class SourceKind : int32_t { kF32 = 0, kF16 = 1, kQ4_0 = 2, kQ4_1 = 3, kQ8_0 = 8, kBf16 = 30 };

// Bytes of a row; -1 for another kind, and for a quantised row that does not divide into blocks.
int64_t source_row_bytes(SourceKind kind, int64_t columns);

// Row r of `source` (`rows` of them, one after the other as in the file) becomes packed row
// `destination_rows[r]`. What other rows stand for does not change: who packs part of a tile zeroes the
// rest first. Rows of different tiles may be packed by several threads at once.
//
// Exact, in that the packed row stands for the same numbers: from the same format, from Q4_0 to
// Q8_0 and Q4_1, from 16 bits to float32. Otherwise each number goes to the nearest that its block's
// scale allows; scales are those that float16 can hold:
//     kQ8_0  largest magnitude / 127
//     kQ4_0  number of largest magnitude / -8
//     kQ4_1  (maximum - minimum) / 15, and the minimum
void pack_rows(WeightFormat format, CodeLayout codes, const uint8_t* source, SourceKind kind,
               const int32_t* destination_rows, int64_t rows, int64_t columns, uint8_t* packed);

// What packed row `row` stands for, in float32.
void unpack_row(WeightFormat format, CodeLayout codes, const uint8_t* packed, int64_t row, int64_t columns,
                float* values);

}  // namespace netgain
