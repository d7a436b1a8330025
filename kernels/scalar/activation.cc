#include "kernels/activation.h"

#include <cmath>

#include "kernels/exp.h"
#include "kernels/scalar/ops.h"

namespace tercet::kernels::scalar {

void SiluMul(const float* gate, const float* up, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = gate[i] / (1.0f + Exp(-gate[i])) * up[i];
}

void GeluTanhMul(const float* gate, const float* up, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    const float x = gate[i];
    const float minus_2u = x * std::fma(x * x, kGeluCubic, kGeluLinear);
    out[i] = x / (1.0f + Exp(minus_2u)) * up[i];
  }
}

}  // namespace tercet::kernels::scalar
