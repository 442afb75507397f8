#include "pack.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "half.h"

namespace netgain {
namespace {

constexpr int kQuad = 4;  // input features whose products one integer instruction sums

template <typename T>
T read(const uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

template <typename T>
void write(uint8_t* p, T value) {
  std::memcpy(p, &value, sizeof value);
}

// Where the parts of one row's block lie in a packed block.
struct PackedBlock {
  CodeLayout layout;
  int shift;         // kByOutput: of a row's codes in their words
  uint8_t* scale;
  uint8_t* minimum;  // kQ4_1
  uint8_t* codes;    // kByQuad: then every kTile * kQuad bytes
};

template <WeightFormat format>
PackedBlock locate(CodeLayout layout, uint8_t* block, int64_t lane) {
  constexpr int64_t kHalves = kTile * 2, kHead = format == WeightFormat::kQ4_1 ? 2 * kHalves : kHalves;
  constexpr int64_t kShared = format == WeightFormat::kQ8_0 ? 2 : 4;  // rows of a word of codes
  const int64_t first = layout == CodeLayout::kByQuad ? lane * kQuad : lane / kShared * 64;
  const int shift = format == WeightFormat::kQ8_0 ? static_cast<int>(lane % 2) * 16 : static_cast<int>(lane % 4) * 4;
  return {layout, shift, block + lane * 2, block + kHalves + lane * 2, block + kHead + first};
}

// A word of codes, turned back; of 4 bits each, or of 8.
template <typename Word>
Word read_word(const uint8_t* at) {
  constexpr int turned = sizeof(Word) == 2 ? 1 : 15, bits = 8 * sizeof(Word);
  const auto word = read<Word>(at);
  return static_cast<Word>(word >> turned | word << (bits - turned));
}
template <typename Word>
void write_word(uint8_t* at, Word word) {
  constexpr int turned = sizeof(Word) == 2 ? 1 : 15, bits = 8 * sizeof(Word);
  write(at, static_cast<Word>(word << turned | word >> (bits - turned)));
}

void write_bytes(const PackedBlock& to, const int8_t* values) {
  if (to.layout == CodeLayout::kByOutput) {
    for (int i = 0; i < kBlock; i += 2) {
      uint8_t* at = to.codes + 2 * i;
      const uint32_t others = read_word<uint32_t>(at) & ~(0xffffu << to.shift);
      const uint32_t pair = static_cast<uint32_t>(values[i] + 128) | static_cast<uint32_t>(values[i + 1] + 128) << 8;
      write_word(at, others | pair << to.shift);
    }
    return;
  }
  for (int quad = 0; quad < kBlock / kQuad; ++quad) {
    write(to.codes + quad * kTile * kQuad, read<uint32_t>(reinterpret_cast<const uint8_t*>(values) + quad * kQuad));
  }
}

// Codes of 4 bits, one a byte.
void write_nibbles(const PackedBlock& to, const uint8_t* codes) {
  if (to.layout == CodeLayout::kByOutput) {
    for (int i = 0; i < kBlock; ++i) {
      uint8_t* at = to.codes + 2 * i;
      const int others = read_word<uint16_t>(at) & ~(15 << to.shift);
      write_word(at, static_cast<uint16_t>(others | codes[i] << to.shift));
    }
    return;
  }
  for (int pair = 0; pair < kBlock / (2 * kQuad); ++pair) {
    const auto eight = read<uint64_t>(codes + pair * 2 * kQuad);
    write(to.codes + pair * kTile * kQuad, static_cast<uint32_t>(eight | eight >> 28));
  }
}

template <WeightFormat format>
void read_codes(const PackedBlock& from, int8_t* codes) {
  const bool by_quad = from.layout == CodeLayout::kByQuad;
  for (int64_t i = 0; i < kBlock; ++i) {
    if constexpr (format == WeightFormat::kQ8_0) {
      const uint32_t word = by_quad ? 0 : read_word<uint32_t>(from.codes + i / 2 * 4) >> from.shift;
      codes[i] = by_quad ? read<int8_t>(from.codes + i / kQuad * kTile * kQuad + i % kQuad)
                         : static_cast<int8_t>((word >> i % 2 * 8 & 255) - 128);
    } else if (by_quad) {
      const uint8_t both = from.codes[i / (2 * kQuad) * kTile * kQuad + i % kQuad];
      codes[i] = static_cast<int8_t>(i / kQuad % 2 ? both >> 4 : both & 15);
    } else {
      codes[i] = static_cast<int8_t>(read_word<uint16_t>(from.codes + 2 * i) >> from.shift & 15);
    }
  }
}

// --- Blocks of GGUF: low nibbles are features 0..15, high nibbles 16..31.

constexpr uint64_t kLow = 0x0f0f0f0f0f0f0f0full;

template <WeightFormat format, SourceKind kind>
void pack_gguf_block(const uint8_t* source, const PackedBlock& to) {
  write(to.scale, read<uint16_t>(source));
  if constexpr (kind == SourceKind::kQ8_0) {
    write_bytes(to, reinterpret_cast<const int8_t*>(source + 2));
    return;
  }
  uint64_t first = read<uint64_t>(source + (kind == SourceKind::kQ4_1 ? 4 : 2));
  uint64_t second = read<uint64_t>(source + (kind == SourceKind::kQ4_1 ? 12 : 10));
  if constexpr (format == WeightFormat::kQ8_0) {  // scale * (q - 8)
    uint64_t eights[4] = {first & kLow, second & kLow, first >> 4 & kLow, second >> 4 & kLow};
    int8_t values[kBlock];
    std::memcpy(values, eights, sizeof values);
    for (int8_t& value : values) value = static_cast<int8_t>(value - 8);
    write_bytes(to, values);
  } else {
    if constexpr (kind == SourceKind::kQ4_1) write(to.minimum, read<uint16_t>(source + 2));
    if constexpr (kind == SourceKind::kQ4_0 && format == WeightFormat::kQ4_1) {
      write(to.minimum, float_to_fp16(-8.0f * fp16_to_float(read<uint16_t>(source))));
    }
    const uint64_t eights[4] = {first & kLow, second & kLow, first >> 4 & kLow, second >> 4 & kLow};
    write_nibbles(to, reinterpret_cast<const uint8_t*>(eights));
  }
}

// --- Blocks of floats.

// The float16 nearest to a scale; larger ones than it holds become the largest.
uint16_t half_scale(float scale) {
  if (scale > 65504.0f) scale = 65504.0f;
  if (scale < -65504.0f) scale = -65504.0f;
  return float_to_fp16(scale);
}

// Four floats: what every processor has registers for. (Wider ones the compiler takes apart element
// by element where it compares them.)
typedef float Four __attribute__((vector_size(16)));
typedef int32_t FourInts __attribute__((vector_size(16)));
constexpr int kFours = kBlock / 4;

struct Range {
  float least, most;
};

Range range_of(const Four* x) {
  Four least = x[0], most = x[0];
  for (int i = 1; i < kFours; ++i) {
    least = x[i] < least ? x[i] : least;
    most = x[i] > most ? x[i] : most;
  }
  Range all{least[0], most[0]};
  for (int i = 1; i < 4; ++i) {
    all.least = least[i] < all.least ? least[i] : all.least;
    all.most = most[i] > all.most ? most[i] : all.most;
  }
  return all;
}

// The whole numbers nearest to (x - origin) * inverse + offset, within [low, high].
void nearest(const Four* x, float origin, float inverse, float offset, float low, float high, int8_t* codes) {
  const Four lows = Four{} + low, highs = Four{} + high;
  int32_t whole[kBlock];
  for (int i = 0; i < kFours; ++i) {
    Four code = (x[i] - origin) * inverse + offset;
    code = code > lows ? code : lows;
    code = code < highs ? code : highs;
    FourInts rounded = __builtin_convertvector(code - low + 0.5f, FourInts) + static_cast<int32_t>(low);
    std::memcpy(whole + i * 4, &rounded, sizeof rounded);
  }
  for (int i = 0; i < kBlock; ++i) codes[i] = static_cast<int8_t>(whole[i]);
}

template <WeightFormat format>
void pack_float_block(const float* numbers, const PackedBlock& to) {
  Four x[kFours];
  std::memcpy(x, numbers, sizeof x);
  auto [least, most] = range_of(x);
  float extreme = -least > most ? least : most;
  float scale = format == WeightFormat::kQ8_0   ? (extreme < 0.0f ? -extreme : extreme) / 127.0f
                : format == WeightFormat::kQ4_0 ? extreme / -8.0f
                                                : (most - least) / 15.0f;
  uint16_t half = half_scale(scale);
  write(to.scale, half);
  scale = fp16_to_float(half);
  float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;

  int8_t codes[kBlock];
  if constexpr (format == WeightFormat::kQ8_0) {
    nearest(x, 0.0f, inverse, 0.0f, -127.0f, 127.0f, codes);
    write_bytes(to, codes);
    return;
  }
  if constexpr (format == WeightFormat::kQ4_1) {
    uint16_t minimum = half_scale(least);
    write(to.minimum, minimum);
    nearest(x, fp16_to_float(minimum), inverse, 0.0f, 0.0f, 15.0f, codes);
  } else {
    nearest(x, 0.0f, inverse, 8.0f, 0.0f, 15.0f, codes);
  }
  write_nibbles(to, reinterpret_cast<const uint8_t*>(codes));
}

// --- Sources as floats.

int64_t source_block_bytes(SourceKind kind) {
  switch (kind) {
    case SourceKind::kF32: return kBlock * 4;
    case SourceKind::kQ4_0: return 18;
    case SourceKind::kQ4_1: return 20;
    case SourceKind::kQ8_0: return 34;
    default: return kBlock * 2;
  }
}

// The first `count` numbers of a block of 32.
void to_floats(SourceKind kind, const uint8_t* source, int64_t count, float* x) {
  switch (kind) {
    case SourceKind::kF32: std::memcpy(x, source, static_cast<size_t>(count) * sizeof(float)); break;
    case SourceKind::kF16:
      for (int64_t i = 0; i < count; ++i) x[i] = fp16_to_float(read<uint16_t>(source + i * 2));
      break;
    case SourceKind::kBf16:
      for (int64_t i = 0; i < count; ++i) x[i] = bf16_to_float(read<uint16_t>(source + i * 2));
      break;
    case SourceKind::kQ8_0: {
      float scale = fp16_to_float(read<uint16_t>(source));
      for (int i = 0; i < kBlock; ++i) x[i] = scale * static_cast<float>(read<int8_t>(source + 2 + i));
      break;
    }
    case SourceKind::kQ4_0: {
      float scale = fp16_to_float(read<uint16_t>(source));
      for (int i = 0; i < kBlock / 2; ++i) {
        x[i] = scale * static_cast<float>((source[2 + i] & 15) - 8);
        x[i + kBlock / 2] = scale * static_cast<float>((source[2 + i] >> 4) - 8);
      }
      break;
    }
    case SourceKind::kQ4_1: {
      float scale = fp16_to_float(read<uint16_t>(source));
      float minimum = fp16_to_float(read<uint16_t>(source + 2));
      for (int i = 0; i < kBlock / 2; ++i) {
        x[i] = scale * static_cast<float>(source[4 + i] & 15) + minimum;
        x[i + kBlock / 2] = scale * static_cast<float>(source[4 + i] >> 4) + minimum;
      }
      break;
    }
  }
}

// --- Rows.

struct Rows {
  CodeLayout codes;
  const uint8_t* source;
  SourceKind kind;
  const int32_t* destination_rows;
  int64_t rows, columns;
  uint8_t* packed;
};

template <WeightFormat format, SourceKind kind>
void pack_gguf_rows(const Rows& all) {
  constexpr int64_t kBytes = quantized_block_bytes(format);
  int64_t blocks = all.columns / kBlock, source_bytes = source_block_bytes(kind);
  const uint8_t* source = all.source;
  for (int64_t row = 0; row < all.rows; ++row) {
    int64_t to = all.destination_rows[row];
    uint8_t* tile = all.packed + to / kTile * blocks * kBytes;
    for (int64_t block = 0; block < blocks; ++block, source += source_bytes) {
      pack_gguf_block<format, kind>(source, locate<format>(all.codes, tile + block * kBytes, to % kTile));
    }
  }
}

template <WeightFormat format>
void pack_quantized_rows(const Rows& all) {
  constexpr int64_t kBytes = quantized_block_bytes(format);
  int64_t blocks = round_up(all.columns, kBlock) / kBlock, source_bytes = source_block_bytes(all.kind);
  for (int64_t row = 0; row < all.rows; ++row) {
    const uint8_t* source = all.source + row * source_row_bytes(all.kind, all.columns);
    int64_t to = all.destination_rows[row];
    uint8_t* tile = all.packed + to / kTile * blocks * kBytes;
    for (int64_t block = 0; block < blocks; ++block) {
      int64_t rest = all.columns - block * kBlock, count = rest < kBlock ? rest : kBlock;
      float x[kBlock];
      to_floats(all.kind, source + block * source_bytes, count, x);
      // What follows the last column meets activations of next to zero (Rounding::kPairs): as small as may be
      // without widening the range.
      const float* least = std::min_element(x, x + count, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
      std::fill(x + count, x + kBlock, *least);
      pack_float_block<format>(x, locate<format>(all.codes, tile + block * kBytes, to % kTile));
    }
  }
}

struct Bf16 {
  using Element = uint16_t;
  static constexpr SourceKind kSame = SourceKind::kBf16;
  static uint16_t from(float x) { return float_to_bf16(x); }
};
struct Fp16 {
  using Element = uint16_t;
  static constexpr SourceKind kSame = SourceKind::kF16;
  static uint16_t from(float x) { return float_to_fp16(x); }
};
struct Fp32 {
  using Element = float;
  static constexpr SourceKind kSame = SourceKind::kF32;
  static float from(float x) { return x; }
};

template <typename Format>
void pack_dense_rows(const Rows& all) {
  using Element = typename Format::Element;
  int64_t row_bytes = source_row_bytes(all.kind, all.columns), source_bytes = source_block_bytes(all.kind);
  for (int64_t row = 0; row < all.rows; ++row) {
    const uint8_t* source = all.source + row * row_bytes;
    int64_t to = all.destination_rows[row];
    auto* tile = reinterpret_cast<Element*>(all.packed) + to / kTile * kTile * all.columns + to % kTile;
    if (all.kind == Format::kSame) {
      for (int64_t i = 0; i < all.columns; ++i) tile[i * kTile] = read<Element>(source + i * sizeof(Element));
      continue;
    }
    for (int64_t first = 0; first < all.columns; first += kBlock, source += source_bytes) {
      int64_t rest = all.columns - first, count = rest < kBlock ? rest : kBlock;
      float x[kBlock];
      to_floats(all.kind, source, count, x);
      for (int64_t i = 0; i < count; ++i) tile[(first + i) * kTile] = Format::from(x[i]);
    }
  }
}

template <WeightFormat format>
void unpack_quantized_row(CodeLayout layout, const uint8_t* packed, int64_t row, int64_t columns, float* values) {
  auto* block = const_cast<uint8_t*>(packed + row / kTile * tile_bytes(format, columns));
  for (int64_t first = 0; first < columns; first += kBlock, block += quantized_block_bytes(format)) {
    const PackedBlock from = locate<format>(layout, block, row % kTile);
    const float scale = fp16_to_float(read<uint16_t>(from.scale));
    int8_t codes[kBlock];
    read_codes<format>(from, codes);
    for (int64_t i = 0; i < kBlock && first + i < columns; ++i) {
      const auto code = static_cast<float>(codes[i]);
      values[first + i] = format == WeightFormat::kQ8_0   ? scale * code
                          : format == WeightFormat::kQ4_0 ? scale * (code - 8.0f)
                                                          : scale * code + fp16_to_float(read<uint16_t>(from.minimum));
    }
  }
}

}  // namespace

int64_t source_row_bytes(SourceKind kind, int64_t columns) {
  switch (kind) {
    case SourceKind::kF32: return columns * 4;
    case SourceKind::kF16:
    case SourceKind::kBf16: return columns * 2;
    case SourceKind::kQ8_0:
    case SourceKind::kQ4_0:
    case SourceKind::kQ4_1: return columns % kBlock == 0 ? columns / kBlock * source_block_bytes(kind) : -1;
  }
  return -1;
}

void pack_rows(WeightFormat format, CodeLayout codes, const uint8_t* source, SourceKind kind,
               const int32_t* destination_rows, int64_t rows, int64_t columns, uint8_t* packed) {
  Rows all{codes, source, kind, destination_rows, rows, columns, packed};
  using W = WeightFormat;
  using S = SourceKind;
  switch (format) {
    case W::kFp32: return pack_dense_rows<Fp32>(all);
    case W::kBf16: return pack_dense_rows<Bf16>(all);
    case W::kFp16: return pack_dense_rows<Fp16>(all);
    case W::kQ8_0:
      if (kind == S::kQ8_0) return pack_gguf_rows<W::kQ8_0, S::kQ8_0>(all);
      if (kind == S::kQ4_0) return pack_gguf_rows<W::kQ8_0, S::kQ4_0>(all);
      return pack_quantized_rows<W::kQ8_0>(all);
    case W::kQ4_0:
      if (kind == S::kQ4_0) return pack_gguf_rows<W::kQ4_0, S::kQ4_0>(all);
      return pack_quantized_rows<W::kQ4_0>(all);
    case W::kQ4_1:
      if (kind == S::kQ4_1) return pack_gguf_rows<W::kQ4_1, S::kQ4_1>(all);
      if (kind == S::kQ4_0) return pack_gguf_rows<W::kQ4_1, S::kQ4_0>(all);
      return pack_quantized_rows<W::kQ4_1>(all);
  }
}

void unpack_row(WeightFormat format, CodeLayout codes, const uint8_t* packed, int64_t row, int64_t columns,
                float* values) {
  using W = WeightFormat;
  switch (format) {
    case W::kQ8_0: return unpack_quantized_row<W::kQ8_0>(codes, packed, row, columns, values);
    case W::kQ4_0: return unpack_quantized_row<W::kQ4_0>(codes, packed, row, columns, values);
    case W::kQ4_1: return unpack_quantized_row<W::kQ4_1>(codes, packed, row, columns, values);
    default: break;
  }
  const uint8_t* tile = packed + row / kTile * tile_bytes(format, columns);
  for (int64_t column = 0; column < columns; ++column) {
    int64_t at = column * kTile + row % kTile;
    values[column] = format == W::kFp32   ? read<float>(tile + at * 4)
                     : format == W::kBf16 ? bf16_to_float(read<uint16_t>(tile + at * 2))
                                          : fp16_to_float(read<uint16_t>(tile + at * 2));
  }
}

}  // namespace netgain
