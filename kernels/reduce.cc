#include <cmath>

#include "kernels/reduce.h"

namespace tercet::kernels {

// log x = e·log 2 + log m with m in [√½, √2), and log m = 2·artanh(s), s = (m − 1) / (m + 1), |s| < 0.172: the series up
// to s^15 / 15 leaves less than 2^−44. Plain double operations, which every machine rounds alike.
float Log(float x) {
  int exponent;
  double m = std::frexp(static_cast<double>(x), &exponent);  // [½, 1)
  if (m < 0.70710678118654752440) {
    m *= 2.0;
    --exponent;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double square = s * s;
  double series = 0.0;
  for (int i = 15; i >= 1; i -= 2) series = series * square + 1.0 / i;
  return static_cast<float>(exponent * 0.69314718055994530942 + 2.0 * s * series);
}

}  // namespace tercet::kernels
