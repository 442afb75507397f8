// Integer dot products of one block for 16 output features, as the compiler makes them.
#pragma once

namespace netgain {
namespace {

// The activations of a row's block, see Rounding in formats.h.
template <WeightFormat W>
inline void whole_numbers(const int8_t* values, int32_t* to) {
  for (int i = 0; i < kBlock; ++i) {
    if constexpr (rounding_for(W) == Rounding::kTwelveBits) {
      to[i] = 16 * values[i] + values[kPlane + i];
    } else {
      const int shared = values[kPlane + i / 8 * 4 + i % 4];
      to[i] = 64 * values[i] + (i % 8 < 4 ? 1 : 7) * shared;
    }
  }
}

template <WeightFormat W, int R>
inline void dots(const uint8_t* payload, int /*part*/, const int8_t* values, const int32_t* offsets, F* out) {
  for (int r = 0; r < R; ++r) {
    int32_t of_row[kBlock], total[kTile] = {};
    whole_numbers<W>(values + r * kBlockValues, of_row);
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
          total[o] += weight * of_row[4 * q + k];
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
