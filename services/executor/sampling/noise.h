// Randomness without state: the noise of a token is a function of (seed, position, token id) and of nothing else. So a
// token is drawn the same way in every batch, after every restart, and with any draft behind it.
//
// The functions here use only IEEE additions, multiplications and divisions. The C library is no choice for them: it
// picks another `log` on a machine with fused multiply-add, and a last bit may differ.
//
// Thread safety: pure functions.
#pragma once

#include <bit>
#include <cstdint>

namespace tercet::executor {

// Natural logarithm of a normal x > 0, within 2 units in the last place (relative, near 1 as well).
double NaturalLog(double x);

// e^x for x in [-700, 700], within 2 units in the last place.
double Exponential(double x);

// The noise of one position of one request.
class Noise {
 public:
  // `position` is the index that the drawn token gets in its sequence (prompt included).
  Noise(uint64_t seed, uint64_t position);

  // 64 uniform bits for a token: the finalizer of SplitMix64 over a Weyl sequence that starts at this position's key.
  uint64_t Bits(uint32_t token) const {
    uint64_t z = key_ + (uint64_t{token} + 1) * kWeyl;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // Standard Gumbel variate: -log(-log(1 - v)), where v = (top 52 bits + 1/2) / 2^52 lies in (0, 1); 1 - v is exact.
  static double Gumbel(uint64_t bits);

  // An upper bound of Gumbel(bits) that costs no logarithm: -log(1 - v) ≥ v ≥ 2^-(leading zeros + 1).
  static double GumbelBound(uint64_t bits) {
    // ln 2, rounded up by far more than Gumbel() can be off.
    constexpr double kLn2Above = 0.69314718056;
    return (std::countl_zero(bits) + 1) * kLn2Above;
  }

 private:
  static constexpr uint64_t kWeyl = 0x9e3779b97f4a7c15u;

  uint64_t key_;
};

}  // namespace tercet::executor
