// Products of 16-bit words on processors with AVX-VNNI and without AVX-512.
#pragma once

namespace netgain {
namespace {

inline __m256i add_pairs(__m256i total, __m256i weights, __m256i pair) {
  return _mm256_dpwssd_avx_epi32(total, weights, pair);
}

}  // namespace
}  // namespace netgain

#include "dot_words.h"
