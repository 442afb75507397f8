// The vectors of AVX-512 and the matrix unit of AMX, whose presence changes what the headers of kernels
// compile.
#pragma once

#include "vector_avx512.h"

#define NETGAIN_MATRIX_UNIT 1

namespace netgain {
namespace {

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16];
  uint8_t rows[16];
};

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
template <int TILE>
inline void tile_store(void* base, int64_t stride) {
  asm volatile("tilestored %%tmm%c0, (%1,%2,1)" ::"i"(TILE), "r"(base), "r"(stride) : "memory");
}
template <int TILE>
inline void tile_zero() {
  asm volatile("tilezero %%tmm%c0" ::"i"(TILE));
}
// Adds the products of signed bytes, rows of tile A times columns of tile B, to tile SUM.
template <int SUM, int A, int B>
inline void tile_add_products() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(SUM), "i"(A), "i"(B));
}
// The same of bfloat16, in float32.
template <int SUM, int A, int B>
inline void tile_add_bf16_products() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(SUM), "i"(A), "i"(B));
}

}  // namespace
}  // namespace netgain
