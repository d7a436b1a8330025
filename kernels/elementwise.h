// Element-by-element operations of the residual stream. Each element is rounded once. Thread safety: pure functions.
#pragma once

#include <cstdint>

namespace tercet::kernels {

// dst += src, n elements.
void AddInto(float* dst, const float* src, int64_t n);

// dst *= factor, n elements.
void Scale(float* dst, float factor, int64_t n);

}  // namespace tercet::kernels
