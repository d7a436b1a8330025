#include <cmath>

#include "kernels/scalar/ops.h"

namespace tercet::kernels::scalar {

void Rope(float* head, int64_t rotary_dim, const float* cos, const float* sin, RopeStyle style) {
  const int64_t pairs = rotary_dim / 2;
  for (int64_t i = 0; i < pairs; ++i) {
    float& first = style == RopeStyle::kInterleaved ? head[2 * i] : head[i];
    float& second = style == RopeStyle::kInterleaved ? head[2 * i + 1] : head[i + pairs];
    const float a = first, b = second;
    first = std::fma(a, cos[i], -(b * sin[i]));
    second = std::fma(a, sin[i], b * cos[i]);
  }
}

}  // namespace tercet::kernels::scalar
