#include <limits>

#include "kernels/scalar/ops.h"

namespace tercet::kernels::scalar {

int64_t CollectAtLeast(const float* logits, int64_t begin, int64_t n, float threshold, Candidate* out, int64_t room,
                       int64_t* next) {
  int64_t count = 0;
  int64_t i = begin;
  for (; i < n && count < room; ++i) {
    if (logits[i] >= threshold && logits[i] > -std::numeric_limits<float>::infinity()) {
      out[count++] = {static_cast<int32_t>(i), logits[i]};
    }
  }
  *next = i;
  return count;
}

}  // namespace tercet::kernels::scalar
