// Products of 16-bit words on AVX2.
#pragma once

namespace netgain {
namespace {

inline __m256i add_pairs(__m256i total, __m256i weights, __m256i pair) {
  return _mm256_add_epi32(total, _mm256_madd_epi16(weights, pair));
}

}  // namespace
}  // namespace netgain

#include "dot_words.h"
