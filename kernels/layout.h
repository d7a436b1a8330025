// The panel layouts of panels.h as data. Internal to kernels/.
//
// Data only, no functions: this header is included by files compiled for different instruction sets, and an inline function
// shared by them could end up in the binary in its AVX-512 form.
#pragma once

#include <cstdint>

#include "kernels/formats.h"
#include "kernels/panels.h"

#ifdef __FAST_MATH__
#error "the kernels define their bits operation by operation; -ffast-math takes that away"
#endif

namespace tercet::kernels {

struct Layout {
  const char* name;
  int16_t block;        // Weights of a GGUF block,
  int16_t block_bytes;  // and its bytes.
  int16_t line_k;       // A panel's lines come in groups: for each line_k consecutive k,
  int16_t line_bytes;   // this many bytes.
  int16_t scale_k;      // Its scales as well: for each scale_k consecutive k,
  int16_t scale_bytes;  // this many bytes; 0 for the float formats.
  int8_t bits;          // Of a stored weight.
  uint8_t offset;       // Weight = stored − offset.
  bool has_minimum;
};

// Indexed by Format.
inline constexpr Layout kLayouts[] = {
    {"F32", 1, 4, 1, 64, 1, 0, 32, 0, false},
    {"F16", 1, 2, 1, 32, 1, 0, 16, 0, false},
    {"BF16", 1, 2, 1, 32, 1, 0, 16, 0, false},
    {"Q8_0", 32, 34, 32, 512, 32, 32, 8, 128, false},
    {"Q4_0", 32, 18, 32, 256, 32, 32, 4, 8, false},
    {"Q4_1", 32, 20, 32, 256, 32, 64, 4, 0, true},
    {"Q5_0", 32, 22, 32, 320, 32, 32, 5, 16, false},
    {"Q5_1", 32, 24, 32, 320, 32, 64, 5, 0, true},
    {"Q4_K", 256, 144, 32, 256, 256, 320, 4, 0, true},
    {"Q5_K", 256, 176, 32, 320, 256, 320, 5, 0, true},
    {"Q6_K", 256, 210, 32, 384, 256, 288, 6, 32, false},
};

}  // namespace tercet::kernels
