#include "api.h"
#include "dispatch.h"
#include "pack.h"

using netgain::CodeLayout;
using netgain::SourceKind;
using netgain::WeightFormat;

// Bytes of a packed matrix.
NETGAIN_API int64_t ng_packed_bytes(int32_t format, int64_t rows, int64_t columns) {
  return netgain::round_up(rows, netgain::kTile) / netgain::kTile *
         netgain::tile_bytes(static_cast<WeightFormat>(format), columns);
}

// See source_row_bytes; whoever packs asks it first.
NETGAIN_API int64_t ng_source_row_bytes(int32_t kind, int64_t columns) {
  return netgain::source_row_bytes(static_cast<SourceKind>(kind), columns);
}

// The order of codes that the kernels in use read, a CodeLayout.
NETGAIN_API int32_t ng_code_layout() { return static_cast<int32_t>(netgain::kernels().codes); }

NETGAIN_API void ng_pack_rows(int32_t format, int32_t codes, const uint8_t* source, int32_t kind,
                              const int32_t* destination_rows, int64_t rows, int64_t columns, uint8_t* packed) {
  netgain::pack_rows(static_cast<WeightFormat>(format), static_cast<CodeLayout>(codes), source,
                     static_cast<SourceKind>(kind), destination_rows, rows, columns, packed);
}

NETGAIN_API void ng_unpack_row(int32_t format, int32_t codes, const uint8_t* packed, int64_t row, int64_t columns,
                               float* values) {
  netgain::unpack_row(static_cast<WeightFormat>(format), static_cast<CodeLayout>(codes), packed, row, columns, values);
}
