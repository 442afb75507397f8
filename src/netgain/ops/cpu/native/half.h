// Scalar conversions of 16-bit floats.
#pragma once

#include <cstdint>
#include <cstring>

namespace netgain {
namespace {

inline float float_of_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint32_t bits_of_float(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float bf16_to_float(uint16_t half) { return float_of_bits(static_cast<uint32_t>(half) << 16); }

// Nearest, ties to even; a NaN stays one.
inline uint16_t float_to_bf16(float value) {
  uint32_t bits = bits_of_float(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline float fp16_to_float(uint16_t half) {
  uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  uint32_t rest = half & 0x7fffu;
  if (rest >= 0x7c00u) return float_of_bits(sign | 0x7f800000u | ((rest & 0x3ffu) << 13));
  if (rest >= 0x400u) return float_of_bits(sign | ((rest << 13) + 0x38000000u));
  float subnormal = static_cast<float>(rest) * 5.9604644775390625e-8f;  // 2 ** -24
  return sign ? -subnormal : subnormal;
}

// Nearest, ties to even; beyond 65504 infinity; a NaN stays one.
inline uint16_t float_to_fp16(float value) {
  uint32_t bits = bits_of_float(value);
  uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  uint32_t rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (rest >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (rest < 0x38800000u) {  // subnormal: let the adder round
    float shifted = float_of_bits(rest) + 0.5f;
    return static_cast<uint16_t>(sign | (bits_of_float(shifted) - 0x3f000000u));
  }
  uint32_t rounded = rest + 0xfffu + ((rest >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

}  // namespace
}  // namespace netgain
