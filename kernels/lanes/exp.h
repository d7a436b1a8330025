// exp.h for 16 lanes. Internal to kernels/; include after a vocabulary.
#pragma once

#include "kernels/exp.h"
#include "kernels/lanes/inline.h"
#include "kernels/lanes/tail.h"

namespace tercet::kernels {
namespace {

TERCET_INLINE F32 ExpLanes(F32 x) {
  using C = ExpConstants;
  const F32 t = Fma(x, Set(C::kLog2E), Set(C::kRound));
  const F32 n = Sub(t, Set(C::kRound));
  F32 r = Fma(n, Set(-C::kLn2High), x);
  r = Fma(n, Set(-C::kLn2Low), r);
  F32 p = Set(C::kPolynomial[5]);
  Unroll<5>([&](auto i) TERCET_INLINE_LAMBDA { p = Fma(p, r, Set(C::kPolynomial[4 - i.value])); });
  const F32 y = Add(Set(1.0f), Fma(p, Mul(r, r), r));
  F32 result = Mul(y, PowerOfTwo(t));
  result = Select(Greater(Set(C::kLowest), x), Zero(), result);
  return Select(Greater(x, Set(C::kHighest)), Set(__builtin_inff()), result);
}

void ExpEachLanes(const float* x, int64_t n, float* out) {
  ForEach(x, x, n, out, [](F32 a, F32) TERCET_INLINE_LAMBDA { return ExpLanes(a); });
}

}  // namespace
}  // namespace tercet::kernels
