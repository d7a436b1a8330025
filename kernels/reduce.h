// Reductions over a vector, of logits mostly.
//
// The tree by which all kernels fold 16 partial results: s[i] += s[i + 8] for i < 8, then s[i + 4] for i < 4, s[i + 2] for
// i < 2, s[1]. Thread safety: pure functions.
#pragma once

#include <cstdint>

namespace tercet::kernels {

// Index of the largest of x[n]; the lowest index among equals. NaN and −inf (a masked logit) never win: −1 if nothing
// else is there.
int64_t MaxIndex(const float* x, int64_t n);

// log Σ exp(x_i), as max + log(Σ exp(x_i − max)): the sum is 16 strided partial sums folded by the tree, exp is exp.h, the
// logarithm is Log below. −inf if n = 0 or all are −inf; NaN if one is NaN or +inf.
float LogSumExp(const float* x, int64_t n);

// Natural logarithm of a positive, finite number; NaN of NaN; the same bits on every machine (a libm gives no such promise).
// Computed in double, so the error is below 0.51 units in the last place.
float Log(float x);

}  // namespace tercet::kernels
