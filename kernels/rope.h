// Rotary position embedding of one head.
//
// Each pair (a, b) is turned by its angle: a' = fma(a, cos, −(b·sin)), b' = fma(a, sin, b·cos).
// Thread safety: pure function.
#pragma once

#include <cstdint>

namespace tercet::kernels {

enum class RopeStyle : uint8_t {
  kInterleaved,  // Pair i is (2i, 2i + 1): llama.
  kHalves,       // Pair i is (i, i + rotary_dim / 2): NeoX, qwen, gemma.
};

// Turns head[0 … rotary_dim) in place and leaves the rest; cos and sin have rotary_dim / 2 entries, one a pair.
// rotary_dim: even.
void Rope(float* head, int64_t rotary_dim, const float* cos, const float* sin, RopeStyle style);

}  // namespace tercet::kernels
