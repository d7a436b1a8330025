// Vectors whose length is no multiple of 16. Internal to kernels/; include after a vocabulary.
#pragma once

#include "kernels/lanes/inline.h"

namespace tercet::kernels {
namespace {

// p[0 … n), then `fill`; n < 16.
TERCET_INLINE F32 LoadFirst(const float* p, int64_t n, float fill) {
  float lanes[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) lanes[i] = i < n ? p[i] : fill;
  return Load(lanes);
}

TERCET_INLINE void StoreFirst(float* p, F32 x, int64_t n) {
  float lanes[kLanes];
  Store(lanes, x);
  for (int64_t i = 0; i < n; ++i) p[i] = lanes[i];
}

// out[i] = function(a[i], b[i]) for i < n.
template <typename Function>
TERCET_INLINE void ForEach(const float* a, const float* b, int64_t n, float* out, const Function& function) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store(out + i, function(Load(a + i), Load(b + i)));
  if (i < n) StoreFirst(out + i, function(LoadFirst(a + i, n - i, 0.0f), LoadFirst(b + i, n - i, 0.0f)), n - i);
}

}  // namespace
}  // namespace tercet::kernels
