#include <cmath>

#include "kernels/scalar/ops.h"

namespace tercet::kernels::scalar {

void RmsNorm(const float* x, const float* weight, int64_t n, float eps, float* out) {
  float partial[16] = {};
  for (int64_t i = 0; i < n; ++i) partial[i % 16] = std::fma(x[i], x[i], partial[i % 16]);
  const float mean = FoldSum(partial) / static_cast<float>(n);
  const float r = 1.0f / std::sqrt(mean + eps);
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * r * weight[i];
}

}  // namespace tercet::kernels::scalar
