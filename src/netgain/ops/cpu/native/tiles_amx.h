// The matrix unit of AMX. Its presence changes what linear_impl.h and attention_impl.h compile.
#pragma once

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
// before them may come too late.
inline void tile_configure(const TileConfig& config) { asm volatile("ldtilecfg %0" ::"m"(config)); }
#define NETGAIN_TILE_LOAD(tile, base, stride) \
  asm volatile("tileloadd (%0,%1,1), %%tmm" #tile::"r"(base), "r"(static_cast<int64_t>(stride)) : "memory")
#define NETGAIN_TILE_STORE(tile, base, stride) \
  asm volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(base), "r"(static_cast<int64_t>(stride)) : "memory")

}  // namespace
}  // namespace netgain
