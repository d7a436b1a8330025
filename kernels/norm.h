// Root-mean-square normalization.
//
// Exactness: Σx² is 16 strided partial sums (partial i takes elements i, i+16, … in order, each by one FMA), folded by the
// fixed tree of reduce.h; r = 1 / sqrt(Σx² / n + eps), each operation rounded to f32; out = (x · r) · weight.
// Thread safety: pure function.
#pragma once

#include <cstdint>

namespace tercet::kernels {

// out[n] from x[n] and weight[n], n ≥ 1 of any remainder. `out` may be `x`.
void RmsNorm(const float* x, const float* weight, int64_t n, float eps, float* out);

}  // namespace tercet::kernels
