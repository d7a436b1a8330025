#include "services/executor/sampling/noise.h"

#include <cmath>

namespace tercet::executor {
namespace {

uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 33)) * 0xff51afd7ed558ccdu;
  z = (z ^ (z >> 33)) * 0xc4ceb9fe1a85ec53u;
  return z ^ (z >> 33);
}

constexpr double kLn2High = 0x1.62e42fee00000p-1;  // 20 trailing zero bits: k * kLn2High is exact for |k| < 2^20
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

// Standard exponential variate -log(1 - u), where u = (top 52 bits + 1/2) / 2^52 lies in (0, 1); 1 - u is exact.
double Exponential52(uint64_t bits) {
  return -NaturalLog(1 - (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52);
}

}  // namespace

double NaturalLog(double x) {
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(s), s = (m-1)/(m+1), |s| ≤ 0.1716.
  int e = 0;
  double m = std::frexp(x, &e);
  if (m < 0.70710678118654752) {
    m *= 2;
    --e;
  }
  const double f = m - 1;  // exact
  const double s = f / (2 + f);
  const double z = s * s;
  // z^k / (2k+1); the first term left out is below 2^-60.
  double series = 1.0 / 23;
  for (int k = 10; k >= 1; --k) series = series * z + 1.0 / (2 * k + 1);
  // 2s + 2s·z·series, with 2s = f - s·f, so that the large part of the sum is exact.
  const double log_m = f - s * (f - 2 * z * series);
  return e * kLn2High + (log_m + e * kLn2Low);
}

double Exponential(double x) {
  constexpr double kLog2E = 1.4426950408889634;
  const double k = std::nearbyint(x * kLog2E);
  const double r = (x - k * kLn2High) - k * kLn2Low;  // |r| ≤ 0.3466
  // Taylor to r^13/13!; the next term is below 2^-57.
  double sum = 1.0;
  for (int n = 13; n >= 1; --n) sum = 1.0 + sum * r / n;
  return std::ldexp(sum, static_cast<int>(k));
}

Noise::Noise(uint64_t seed, uint64_t position)
    : token_key_(Mix(Mix(seed + kWeyl) ^ (position * 0xd6e8feb86659fd93u + 1))), block_key_(Mix(token_key_ + kWeyl)) {}

double Noise::Gumbel(uint32_t token) const {
  const uint64_t block_bits = BlockBits(token / kBlock);
  double exponential = Exponential52(block_bits) / kBlock;
  if (token % kBlock != block_bits % kBlock) exponential += Exponential52(Bits(token_key_, token));
  return -NaturalLog(exponential);
}

}  // namespace tercet::executor
