// The gated activations of the feed-forward block.
//
// Both divide by 1 + exp(·) with the exp of exp.h, so they have the same bits on every instruction set.
// Thread safety: pure functions.
#pragma once

#include <cstdint>

namespace tercet::kernels {

// out = silu(gate) · up with silu(x) = x / (1 + exp(−x)). `out` may be `gate` or `up`.
void SiluMul(const float* gate, const float* up, int64_t n, float* out);

// −2·sqrt(2/π) and that times 0.044715.
constexpr float kGeluLinear = -1.59576912f;
constexpr float kGeluCubic = -0.0713548163f;

// out = gelu(gate) · up in its tanh form, 0.5·x·(1 + tanh(u)) = x / (1 + exp(−2u)) with
// u = sqrt(2/π) · (x + 0.044715·x³), computed as −2u = x · fma(x·x, kGeluCubic, kGeluLinear).
void GeluTanhMul(const float* gate, const float* up, int64_t n, float* out);

}  // namespace tercet::kernels
