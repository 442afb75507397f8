#include "api.h"
#include "pack.h"

using netgain::SourceKind;
using netgain::WeightFormat;

// Bytes of a packed matrix.
NG_API int64_t ng_packed_bytes(int32_t format, int64_t rows, int64_t columns) {
  return netgain::round_up(rows, netgain::kTile) / netgain::kTile *
         netgain::tile_bytes(static_cast<WeightFormat>(format), columns);
}

// 0, or 1 and nothing done where the pair of formats, or the number of columns, cannot be packed.
NG_API int ng_pack_rows(int32_t format, const uint8_t* source, int32_t kind, const int32_t* destination_rows,
                        int64_t rows, int64_t columns, uint8_t* packed) {
  auto to = static_cast<WeightFormat>(format);
  auto from = static_cast<SourceKind>(kind);
  if (!netgain::can_pack(to, from, columns)) return 1;
  netgain::pack_rows(to, source, from, destination_rows, rows, columns, packed);
  return 0;
}

NG_API void ng_unpack_row(int32_t format, const uint8_t* packed, int64_t row, int64_t columns, float* values) {
  netgain::unpack_row(static_cast<WeightFormat>(format), packed, row, columns, values);
}
