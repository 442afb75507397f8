#include "processor.h"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__linux__) && defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace netgain {

#if defined(__x86_64__)
namespace {

bool bit(uint32_t word, int index) { return (word >> index & 1) != 0; }

// Registers that the operating system saves: an instruction without them faults, whatever CPUID says.
uint64_t saved_state() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

bool may_use_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace

// Intel SDM volume 2, CPUID; volume 1, 13.3 (XCR0).
Processor detect_processor() {
  Processor found;
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return found;
  bool fma = bit(c, 12), os_saves = bit(c, 27), avx = bit(c, 28), f16c = bit(c, 29);
  if (!os_saves || !avx || !fma || !f16c) return found;
  uint64_t state = saved_state();
  constexpr uint64_t kYmm = 0x6, kZmm = 0xe6, kTiles = 0x60000;
  if ((state & kYmm) != kYmm || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return found;

  uint32_t subleaves = a;
  found.avx2 = bit(b, 5);
  if (!found.avx2) return found;
  bool avx512 = bit(b, 16) && bit(b, 17) && bit(b, 30) && bit(b, 31) && bit(c, 11);
  found.avx512_vnni = avx512 && (state & kZmm) == kZmm;
  bool amx = bit(c, 1) && bit(c, 6) && bit(d, 22) && bit(d, 24) && bit(d, 25) && (state & kTiles) == kTiles;
  if (subleaves >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) {
    found.avx_vnni = bit(a, 4);
    found.amx = found.avx512_vnni && amx && bit(a, 5) && may_use_tiles();
  }
  return found;
}

#elif defined(__aarch64__)

Processor detect_processor() {
  Processor found;
#if defined(__linux__)
  constexpr unsigned long kHalf = 1ul << 10, kDot = 1ul << 20;  // HWCAP_ASIMDHP, HWCAP_ASIMDDP
  found.neon_dot = (getauxval(AT_HWCAP) & (kHalf | kDot)) == (kHalf | kDot);
#else
  found.neon_dot = true;  // every Apple processor of this kind
#endif
  return found;
}

#else

Processor detect_processor() { return {}; }

#endif

}  // namespace netgain
