// 32 weights of a GGUF row, taken apart: the one place that knows the bytes of the quantized GGUF blocks. Internal to kernels/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/formats.h"

namespace tercet::kernels {

inline uint16_t LoadU16(const std::byte* p) {
  uint16_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// Weight k = (q[k] − offset) · (d·scale[k / 16]) + m·minimum, with the offset of layout.h.
struct GgufBlock {
  uint8_t q[32];  // As the panels store it: unsigned (Q8_0: + 128).
  uint16_t d_bits, m_bits;  // f16, as in the file; m_bits is dmin for the K-formats.
  int8_t scale[2];          // For k = 0…15 and 16…31; 1 for the formats of 32-blocks, equal for all but Q6_K.
  uint8_t minimum;          // 1 for the formats of 32-blocks.
  float d, m;               // m: −dmin for the K-formats, 0 for those without a minimum.
};

// Part `sub` (k = 32·sub …) of the GGUF block at `block`; `format` is quantized.
GgufBlock ReadGgufBlock(Format format, const std::byte* block, int sub);

}  // namespace tercet::kernels
