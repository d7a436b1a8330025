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

// The noise of one position of one request: for every token a standard exponential variate E, independent of the others,
// and the Gumbel variate -log E.
//
// Tokens come in blocks of kBlock. The least E of a block is drawn first, -log(1 - u) / kBlock, and so is whose it is; the
// others' lie above it by an exponential variate of their own each. (The least of n exponential variates is exponential
// with rate n, and the rest begin anew there.) That gives independent variates, and a whole block can be ruled out by one
// hash: without it, drawing from a vocabulary would cost a fifth of a small model's step.
class Noise {
 public:
  static constexpr uint32_t kBlock = 16;

  // `position` is the index that the drawn token gets in its sequence (prompt included).
  Noise(uint64_t seed, uint64_t position);

  // Standard Gumbel variate of a token.
  double Gumbel(uint32_t token) const;

  // At least the Gumbel variates of all tokens [block · kBlock, (block + 1) · kBlock). Costs no logarithm:
  // -log(1 - u) ≥ u ≥ 2^-(leading zeros + 1), so E ≥ that / kBlock.
  double BlockBound(uint32_t block) const {
    // ln 2, rounded up by far more than Gumbel() can be off.
    constexpr double kLn2Above = 0.69314718056;
    return (std::countl_zero(BlockBits(block)) + 1 + std::countr_zero(kBlock)) * kLn2Above;
  }

 private:
  static constexpr uint64_t kWeyl = 0x9e3779b97f4a7c15u;

  // 64 uniform bits: the finalizer of SplitMix64 over a Weyl sequence that starts at a key of this position.
  static uint64_t Bits(uint64_t key, uint32_t index) {
    uint64_t z = key + (uint64_t{index} + 1) * kWeyl;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // The top 52 bits are the block's variate, the lowest 4 whose it is.
  uint64_t BlockBits(uint32_t block) const { return Bits(block_key_, block); }

  uint64_t token_key_;
  uint64_t block_key_;
};

}  // namespace tercet::executor
