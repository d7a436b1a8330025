#include "kernels/scalar/ops.h"

namespace tercet::kernels::scalar {

void AddInto(float* dst, const float* src, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dst[i] += src[i];
}

void Scale(float* dst, float factor, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dst[i] *= factor;
}

}  // namespace tercet::kernels::scalar
