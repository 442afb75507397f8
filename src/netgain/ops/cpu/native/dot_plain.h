// Integer dot products of one block for 16 output features, as the compiler makes them.
#pragma once

namespace netgain {
namespace {

template <WeightFormat W, int R>
inline void dots(const uint8_t* payload, int /*part*/, const int8_t* values, const int32_t* offsets, F* out) {
  for (int r = 0; r < R; ++r) {
    const int8_t *high = values + r * kBlockValues, *low = high + kPlane;
    int32_t total[kTile] = {};
    for (int q = 0; q < 8; ++q) {
      for (int o = 0; o < kTile; ++o) {
        for (int k = 0; k < 4; ++k) {
          int32_t weight;
          if constexpr (W == WeightFormat::kQ8_0) {
            weight = static_cast<int8_t>(payload[64 * q + 4 * o + k]);
          } else {
            uint8_t both = payload[64 * (q / 2) + 4 * o + k];
            weight = q % 2 ? both >> 4 : both & 0x0f;
          }
          total[o] += weight * (16 * high[4 * q + k] + low[4 * q + k]);
        }
      }
    }
    int32_t offset = W == WeightFormat::kQ4_0 ? offsets[r] : 0;
    float dots_of_row[kTile];
    for (int o = 0; o < kTile; ++o) dots_of_row[o] = static_cast<float>(total[o] + offset);
    out[r] = load(dots_of_row);
  }
}

constexpr int kQuantizedRows = 4;

}  // namespace
}  // namespace netgain
