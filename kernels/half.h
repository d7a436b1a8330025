// Conversions between f32 and the 16-bit floats, with the bits that F16C hardware gives. Internal to kernels/; included by
// files compiled for plain x86-64 only.
#pragma once

#include <bit>
#include <cstdint>

namespace tercet::kernels {

// Exact. A signalling NaN becomes quiet.
inline float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 31;
  const uint32_t mantissa = half & 0x3ff;
  if (exponent == 31) {
    return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13 | (mantissa != 0 ? 0x400000 : 0));
  }
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

// Rounds to nearest even; magnitudes from 65520 on become infinite.
inline uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);
  if (magnitude < 0x38800000) {
    // Denormal: adding 0.5 leaves the value as a multiple of 2^-24 in the low bits, rounded by the addition.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000));
  }
  const uint32_t rounded = magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | rounded >> 13);
}

inline float BrainFloatToFloat(uint16_t brain) { return std::bit_cast<float>(static_cast<uint32_t>(brain) << 16); }

}  // namespace tercet::kernels
