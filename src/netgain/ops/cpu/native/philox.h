// Uniform numbers that belong to a seed and a position: whoever asks, in whatever step.
#pragma once

#include <cstdint>

namespace netgain {
namespace {

// Philox4x64-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
// The first of the four words, which is all that one number takes.
inline uint64_t philox(const uint64_t (&counter)[4], const uint64_t (&key)[2]) {
  uint64_t x[4] = {counter[0], counter[1], counter[2], counter[3]};
  uint64_t k[2] = {key[0], key[1]};
  for (int round = 0; round < 10; ++round) {
    __extension__ using Wide = unsigned __int128;
    const Wide first = static_cast<Wide>(x[0]) * 0xD2E7470EE14C6C93u;
    const Wide second = static_cast<Wide>(x[2]) * 0xCA5A826395121157u;
    const uint64_t next[4] = {static_cast<uint64_t>(second >> 64) ^ x[1] ^ k[0], static_cast<uint64_t>(second),
                              static_cast<uint64_t>(first >> 64) ^ x[3] ^ k[1], static_cast<uint64_t>(first)};
    for (int i = 0; i < 4; ++i) x[i] = next[i];
    k[0] += 0x9E3779B97F4A7C15u;
    k[1] += 0xBB67AE8584CAA73Bu;
  }
  return x[0];
}

// The number in [0, 1) that numpy gives: Generator(Philox(key=seed, counter=position)).random().
// numpy steps its counter before it draws; `position` is not negative.
inline double uniform(uint64_t seed, int64_t position) {
  const uint64_t counter[4] = {static_cast<uint64_t>(position) + 1, 0, 0, 0};
  const uint64_t key[2] = {seed, 0};
  return static_cast<double>(philox(counter, key) >> 11) * 0x1.0p-53;
}

}  // namespace
}  // namespace netgain
