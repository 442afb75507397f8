// What this machine could do at most, for benchmarks to hold the kernels against: how fast all
// threads together read memory, multiply floats and multiply bytes, each with the instructions of
// the kernels in use and nothing else to do.
//
// A unit of its own without the flags of an instruction set: each loop names the one it needs, so
// that adding it compiles no kernel again.
#include <chrono>
#include <cstring>

#include "api.h"
#include "dispatch.h"
#include "pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

// Compilers before these know no AVX-VNNI and no AMX; their libraries have no such kernels either.
#if defined(__x86_64__) && (defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 11)
#define NETGAIN_RECENT_X86 1
#endif

#define NETGAIN_TARGET(isa) __attribute__((target(isa)))
// Enough independent sums to hide an instruction's latency, few enough for 16 registers.
#define NETGAIN_SUMS 12
#define NETGAIN_EACH_SUM _Pragma("GCC unroll 16") for (int k = 0; k < NETGAIN_SUMS; ++k)
// The compiler may neither know a value nor take what is made of it out of a loop.
#if defined(__x86_64__)
#define NETGAIN_OPAQUE(value) asm volatile("" : "+x"(value))
#elif defined(__aarch64__)
#define NETGAIN_OPAQUE(value) asm volatile("" : "+w"(value))
#else
#define NETGAIN_OPAQUE(value) asm volatile("" : "+m"(value))
#endif

namespace {

using netgain::Pool;

// Runs `rounds` rounds of a loop; returns how many multiply-adds that were.
using Loop = int64_t (*)(int64_t rounds);

struct Loops {
  const char* isa;
  Loop floats, bytes;
};

// The body of a loop: NETGAIN_SUMS independent sums, each `next` of `sum`, `x` and `y` in every round,
// which is `lanes` multiply-adds. A macro, since a template would not take its caller's target.
#define NETGAIN_LOOP(Vector, zero, one, next, lanes) \
  Vector sums[NETGAIN_SUMS], x = one, y = one;       \
  NETGAIN_OPAQUE(y);                                 \
  NETGAIN_EACH_SUM sums[k] = zero;                   \
  for (int64_t i = 0; i < rounds; ++i) {             \
    NETGAIN_EACH_SUM {                               \
      Vector& sum = sums[k];                         \
      NETGAIN_OPAQUE(x);                             \
      sum = next;                                    \
    }                                                \
  }                                                  \
  NETGAIN_EACH_SUM NETGAIN_OPAQUE(sums[k]);          \
  return rounds * NETGAIN_SUMS * (lanes)

// Vectors that every processor has; the compiler sees plain arithmetic, as in the plain kernels,
// which multiply bytes as 32-bit words.
typedef float PlainFloats __attribute__((vector_size(16)));
typedef int32_t PlainWords __attribute__((vector_size(16)));

int64_t plain_floats(int64_t rounds) {
  NETGAIN_LOOP(PlainFloats, PlainFloats{}, (PlainFloats{1, 1, 1, 1}), sum + x * y, 4);
}

int64_t plain_bytes(int64_t rounds) {
  NETGAIN_LOOP(PlainWords, PlainWords{}, (PlainWords{1, 1, 1, 1}), sum + x * y, 4);
}

#if defined(__x86_64__)
NETGAIN_TARGET("avx2,fma") int64_t avx2_floats(int64_t rounds) {
  NETGAIN_LOOP(__m256, _mm256_setzero_ps(), _mm256_set1_ps(1), _mm256_fmadd_ps(x, y, sum), 8);
}

// Pairs of products to 16 bits, and the addition without which they are of no use.
NETGAIN_TARGET("avx2") int64_t avx2_bytes(int64_t rounds) {
  NETGAIN_LOOP(__m256i, _mm256_setzero_si256(), _mm256_set1_epi8(1), _mm256_add_epi16(sum, _mm256_maddubs_epi16(x, y)),
               32);
}

NETGAIN_TARGET("avx512f") int64_t avx512_floats(int64_t rounds) {
  NETGAIN_LOOP(__m512, _mm512_setzero_ps(), _mm512_set1_ps(1), _mm512_fmadd_ps(x, y, sum), 16);
}

NETGAIN_TARGET("avx512f,avx512vnni") int64_t avx512_vnni_bytes(int64_t rounds) {
  NETGAIN_LOOP(__m512i, _mm512_setzero_si512(), _mm512_set1_epi32(1), _mm512_dpbusd_epi32(sum, x, y), 64);
}
#endif

#if defined(NETGAIN_RECENT_X86)
NETGAIN_TARGET("avx2,avxvnni") int64_t avx_vnni_bytes(int64_t rounds) {
  NETGAIN_LOOP(__m256i, _mm256_setzero_si256(), _mm256_set1_epi32(1), _mm256_dpbusd_avx_epi32(sum, x, y), 32);
}

// Four sums of 16 x 16, 64 products each; by hand for the reason that tiles_amx.h gives.
NETGAIN_TARGET("amx-tile,amx-int8") int64_t amx_bytes(int64_t rounds) {
  struct alignas(64) {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16};
  } config;
  asm volatile("ldtilecfg %0" ::"m"(config));
  asm volatile(
      "tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3\n\t"
      "tilezero %%tmm4\n\ttilezero %%tmm5" ::);
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile(
        "tdpbssd %%tmm5, %%tmm4, %%tmm0\n\ttdpbssd %%tmm5, %%tmm4, %%tmm1\n\t"
        "tdpbssd %%tmm5, %%tmm4, %%tmm2\n\ttdpbssd %%tmm5, %%tmm4, %%tmm3" ::);
  }
  asm volatile("tilerelease" ::);
  return rounds * 4 * 16 * 16 * 64;
}
#endif

#if defined(__aarch64__)
// Compilers differ in how a function asks for this extension; assemblers do not.
inline int32x4_t add_quads(int32x4_t sum, int8x16_t x, int8x16_t y) {
  asm(".arch armv8.2-a+dotprod\n\tsdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(x), "w"(y));
  return sum;
}

int64_t neon_floats(int64_t rounds) {
  NETGAIN_LOOP(float32x4_t, vdupq_n_f32(0), vdupq_n_f32(1), vfmaq_f32(sum, x, y), 4);
}

int64_t neon_bytes(int64_t rounds) {
  NETGAIN_LOOP(int8x16_t, vdupq_n_s8(0), vdupq_n_s8(1),
               vreinterpretq_s8_s32(add_quads(vreinterpretq_s32_s8(sum), x, y)), 16);
}
#endif

constexpr Loops kLoops[] = {
    {"plain", plain_floats, plain_bytes},
#if defined(__x86_64__)
    {"avx2", avx2_floats, avx2_bytes},         {"avx512_vnni", avx512_floats, avx512_vnni_bytes},
#endif
#if defined(NETGAIN_RECENT_X86)
    {"avx_vnni", avx2_floats, avx_vnni_bytes}, {"amx", avx512_floats, amx_bytes},
#endif
#if defined(__aarch64__)
    {"neon", neon_floats, neon_bytes},
#endif
};

// One phase of equal chunks, so that a thread that loses its core delays one chunk only.
class Phase : public netgain::Program {
 public:
  explicit Phase(int chunks) : chunks_(chunks) {}
  int phases() const override { return 1; }
  int chunks(int) override { return chunks_; }
  void finished(int) override {}

 private:
  int chunks_;
};

template <class T>
inline T load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

class Reading : public Phase {
 public:
  Reading(const uint8_t* data, int chunks, int64_t bytes) : Phase(chunks), data_(data), bytes_(bytes) {}
  void execute(int, int chunk, int) override {
    typedef uint64_t Two __attribute__((vector_size(16)));
    const uint8_t* at = data_ + chunk * bytes_;
    Two a{}, b{}, c{}, d{};
    constexpr int64_t ahead = 12 * 1024;  // as the kernels do: loads alone draw a fifth less
    for (const uint8_t* end = at + bytes_; at < end; at += 64) {
      __builtin_prefetch(at + ahead, 0, 2);
      a += load<Two>(at);
      b += load<Two>(at + 16);
      c += load<Two>(at + 32);
      d += load<Two>(at + 48);
    }
    a += b + c + d;
    NETGAIN_OPAQUE(a);
  }

 private:
  const uint8_t* data_;
  int64_t bytes_;
};

class Multiplying : public Phase {
 public:
  Multiplying(Loop loop, int chunks, int64_t rounds) : Phase(chunks), loop_(loop), rounds_(rounds) {}
  void execute(int, int, int) override { loop_(rounds_); }

 private:
  Loop loop_;
  int64_t rounds_;
};

int64_t timed_ns(Pool& pool, netgain::Program& program) {
  const auto began = std::chrono::steady_clock::now();
  pool.run(program);
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - began).count();
}

}  // namespace

// Nanoseconds in which all threads together read `chunks` x `bytes` at `data`; `bytes` is a
// multiple of 64.
NETGAIN_API int64_t ng_time_reading(Pool* pool, const uint8_t* data, int chunks, int64_t bytes) {
  Reading reading(data, chunks, bytes);
  return timed_ns(*pool, reading);
}

// Nanoseconds of `chunks` x `rounds` rounds of multiply-adds, of floats or of bytes, and how many
// they were; -1 where there is no loop for the kernels in use.
NETGAIN_API int64_t ng_time_multiplying(Pool* pool, int bytes, int chunks, int64_t rounds, int64_t* multiply_adds) {
  for (const Loops& loops : kLoops) {
    if (std::strcmp(loops.isa, netgain::kernels().name) != 0) continue;
    const Loop loop = bytes ? loops.bytes : loops.floats;
    *multiply_adds = chunks * loop(rounds);
    Multiplying multiplying(loop, chunks, rounds);
    return timed_ns(*pool, multiplying);
  }
  return -1;
}
