#include "services/executor/forward/rotary.h"

#include <cmath>

namespace tercet::executor {

void SinCos(double x, double* sine, double* cosine) {
  // x = n·π/2 + r with |r| ≤ π/4; π/2 in two parts, of which the first has 33 bits, so that n times it is exact.
  constexpr double kHalfPiHigh = 1.57079632673412561417e+00, kHalfPiLow = 6.07710050650619224932e-11;
  double n = std::nearbyint(x * 0.63661977236758134308);
  double r = (x - n * kHalfPiHigh) - n * kHalfPiLow;
  double z = r * r;
  // Minimax polynomials on [-π/4, π/4], errors below 2^-58 (the coefficients of fdlibm).
  double s = r + r * z * (-1.66666666666666324348e-01 +
                          z * (8.33333333332248946124e-03 +
                               z * (-1.98412698298579493134e-04 +
                                    z * (2.75573137070700676789e-06 +
                                         z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)))));
  double c = 1 - 0.5 * z +
             z * z * (4.16666666666666019037e-02 +
                      z * (-1.38888888888741095749e-03 +
                           z * (2.48015872894767294178e-05 +
                                z * (-2.75573143513906633035e-07 +
                                     z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)))));
  switch (static_cast<int64_t>(n) & 3) {
    case 0: *sine = s; *cosine = c; break;
    case 1: *sine = c; *cosine = -s; break;
    case 2: *sine = -s; *cosine = -c; break;
    default: *sine = -c; *cosine = s; break;
  }
}

std::vector<double> RotaryFrequencies(int32_t rotary_dim, double base, double scale, const std::vector<float>& factors) {
  std::vector<double> frequencies(rotary_dim / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    double factor = factors.empty() ? 1.0 : factors[i];
    frequencies[i] = std::pow(base, -2.0 * static_cast<double>(i) / rotary_dim) / (scale * factor);
  }
  return frequencies;
}

void RotaryAngles(const std::vector<double>& frequencies, int32_t position, float* cos, float* sin) {
  for (size_t i = 0; i < frequencies.size(); ++i) {
    double sine, cosine;
    SinCos(position * frequencies[i], &sine, &cosine);
    cos[i] = static_cast<float>(cosine);
    sin[i] = static_cast<float>(sine);
  }
}

}  // namespace tercet::executor
