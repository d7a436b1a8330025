#include "kernels/exp.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/scalar/ops.h"

namespace tercet::kernels {

float Exp(float x) {
  using C = ExpConstants;
  if (x > C::kHighest) return std::numeric_limits<float>::infinity();
  if (x < C::kLowest) return 0.0f;
  const float t = std::fma(x, C::kLog2E, C::kRound);
  const float n = t - C::kRound;
  float r = std::fma(n, -C::kLn2High, x);
  r = std::fma(n, -C::kLn2Low, r);
  float p = C::kPolynomial[5];
  for (int i = 4; i >= 0; --i) p = std::fma(p, r, C::kPolynomial[i]);
  const float y = 1.0f + std::fma(p, r * r, r);
  // The integer n is in the low bits of t; the shift drops the rest, and adding 1.0's exponent makes it 2^n.
  const float power = std::bit_cast<float>((std::bit_cast<uint32_t>(t) << 23) + 0x3f800000);
  return y * power;
}

namespace scalar {

void ExpEach(const float* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = Exp(x[i]);
}

}  // namespace scalar

}  // namespace tercet::kernels
