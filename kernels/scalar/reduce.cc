#include <limits>

#include "kernels/exp.h"
#include "kernels/reduce.h"
#include "kernels/scalar/ops.h"

namespace tercet::kernels::scalar {

float FoldSum(float* partial) {
  for (int width = 8; width >= 1; width /= 2) {
    for (int i = 0; i < width; ++i) partial[i] += partial[i + width];
  }
  return partial[0];
}

int64_t MaxIndex(const float* x, int64_t n) {
  float max = -std::numeric_limits<float>::infinity();
  int64_t index = -1;
  for (int64_t i = 0; i < n; ++i) {
    if (x[i] > max) {
      max = x[i];
      index = i;
    }
  }
  return index;
}

float LogSumExp(const float* x, int64_t n) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float max = -kInfinity;
  for (int64_t i = 0; i < n; ++i) {
    if (x[i] > max) max = x[i];
  }
  if (max == -kInfinity) max = 0.0f;
  float partial[16] = {};
  for (int64_t i = 0; i < n; ++i) partial[i % 16] += Exp(x[i] - max);
  const float sum = FoldSum(partial);
  return sum == 0.0f ? -kInfinity : max + Log(sum);
}

}  // namespace tercet::kernels::scalar
