// The one exponential function of all kernels (softmax, silu, gelu, log-sum-exp).
//
// Definition, every operation rounded to f32:
//   x > 88.37626   → +inf           (2^127.5: above it the power of two would need the exponent 128)
//   x < −87.33654  → +0             (2^−126: no result is denormal, so flushing modes cannot matter)
//   t = fma(x, log2(e), 1.5·2^23);  n = t − 1.5·2^23          n = x·log2(e) rounded to an integer
//   r = fma(n, −ln2_high, x);  r = fma(n, −ln2_low, r)        |r| ≤ 0.3466
//   p = c5; p = fma(p, r, c4); … fma(p, r, c0);               p ≈ (e^r − 1 − r) / r²
//   y = 1 + fma(p, r·r, r);  exp = y · 2^n                    2^n from the low bits of t
// NaN gives NaN. exp(0) is exactly 1. Error: below 1.5 units in the last place.
#pragma once

namespace tercet::kernels {

struct ExpConstants {
  static constexpr float kHighest = 88.37626f;
  static constexpr float kLowest = -87.33654f;
  static constexpr float kLog2E = 1.44269504f;
  static constexpr float kRound = 12582912.0f;  // 1.5 · 2^23
  // ln 2 in two parts; the high one has 9 trailing zero bits, so n · high is exact.
  static constexpr float kLn2High = 0.693359375f;
  static constexpr float kLn2Low = -2.12194440e-4f;
  static constexpr float kPolynomial[6] = {0.5f, 0.166666672f, 0.0416664667f, 0.00833331048f, 0.00139336509f, 0.000198909911f};
};

// The definition as a scalar function.
float Exp(float x);

}  // namespace tercet::kernels
