// The vectors of AVX-512 and the matrix unit of AMX, whose presence changes what the headers of kernels
// compile.
#pragma once

#define NETGAIN_MATRIX_UNIT 1

#include "vector_avx512.h"

namespace netgain {
namespace {

constexpr int64_t kTileBytes = 1024;  // sixteen rows of 64

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16];
  uint8_t rows[16];
};

// Nearest, ties to even: `low` to the first sixteen bfloat16, `high` to the others.
inline __m512i to_bf16(F low, F high) { return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)); }

// Denormal numbers are zero to vector instructions, as they are to the matrix unit, for as long as it lives.
class NoDenormals {
 public:
  NoDenormals() : modes_(_mm_getcsr()) {
    constexpr unsigned flush_to_zero = 0x8000, denormals_are_zeros = 0x0040;
    _mm_setcsr(modes_ | flush_to_zero | denormals_are_zeros);
  }
  NoDenormals(const NoDenormals&) = delete;
  NoDenormals& operator=(const NoDenormals&) = delete;
  ~NoDenormals() { _mm_setcsr(modes_); }

 private:
  const unsigned modes_;
};

// The compiler's own intrinsics for these do not say that they read memory (gcc 12), so stores
// before them may come too late, and they take the numbers of tiles as literals only.
inline void tile_configure(const TileConfig& config) { asm volatile("ldtilecfg %0" ::"m"(config)); }
template <int TILE>
inline void tile_load(const void* base, int64_t stride) {
  asm volatile("tileloadd (%1,%2,1), %%tmm%c0" ::"i"(TILE), "r"(base), "r"(stride) : "memory");
}
// What is not needed again soon: it does not drive out of the first-level cache what is.
template <int TILE>
inline void tile_load_once(const void* base, int64_t stride) {
  asm volatile("tileloaddt1 (%1,%2,1), %%tmm%c0" ::"i"(TILE), "r"(base), "r"(stride) : "memory");
}
template <int TILE>
inline void tile_store(void* base, int64_t stride) {
  asm volatile("tilestored %%tmm%c0, (%1,%2,1)" ::"i"(TILE), "r"(base), "r"(stride) : "memory");
}
template <int TILE>
inline void tile_zero() {
  asm volatile("tilezero %%tmm%c0" ::"i"(TILE));
}
// Adds the products of bfloat16, rows of tile A times columns of tile B, to tile SUM in float32: for each
// sum two chains of fused multiply-adds from zero, over even and over odd pairs, then both together, then
// the sum so far; all rounded to nearest, what is denormal taken for zero (Intel SDM volume 2, TDPBF16PS).
template <int SUM, int A, int B>
inline void tile_add_products() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(SUM), "i"(A), "i"(B));
}

}  // namespace
}  // namespace netgain
