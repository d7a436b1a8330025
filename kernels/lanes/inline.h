// What the shared algorithms in kernels/lanes/ are made of, apart from a vector vocabulary. Internal to kernels/.
//
// Each algorithm is written once, over 16 lanes. kernels/avx2/lanes.h and kernels/avx512/lanes.h supply the vocabulary: types
// F32, I32 and Bytes (16 lanes of 32 bits, the latter as 4 bytes each) and the operations on them, with the same bits. A file
// of an instruction set's folder includes its vocabulary first, then the algorithms.
// Everything here and there is in an anonymous namespace and inlined, and uses no function of the standard library: no
// function compiled for a newer machine may be shared with code that runs on an older one.
#pragma once

#include <cstdint>

#define TERCET_INLINE inline __attribute__((always_inline))
#define TERCET_INLINE_LAMBDA __attribute__((always_inline))

namespace tercet::kernels {
namespace {

// A compile-time index: an argument that is a constant.
template <int kValue>
struct Index {
  static constexpr int value = kValue;
};

// body(Index<0>), body(Index<1>), … body(Index<kCount − 1>), so that arrays of vectors are registers.
template <int kCount, int kFirst = 0, typename Body>
TERCET_INLINE void Unroll(const Body& body) {
  if constexpr (kFirst < kCount) {
    body(Index<kFirst>());
    Unroll<kCount, kFirst + 1>(body);
  }
}

// Calls body(Index<tokens>, first token) for tiles of nearly equal size, at most kMost tokens each, that cover [begin, end).
template <int kMost, typename Body>
TERCET_INLINE void ForTokenTiles(int64_t begin, int64_t end, const Body& body) {
  int64_t tiles = (end - begin + kMost - 1) / kMost;
  for (int64_t first = begin; first < end; --tiles) {
    const int64_t tokens = (end - first + tiles - 1) / tiles;
    Unroll<kMost>([&](auto i) TERCET_INLINE_LAMBDA {
      if (tokens == i.value + 1) body(Index<i.value + 1>(), first);
    });
    first += tokens;
  }
}

TERCET_INLINE int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }
TERCET_INLINE int64_t Larger(int64_t a, int64_t b) { return a > b ? a : b; }

constexpr int kLanes = 16;

// Sums over the lanes 0, 1 and over the lanes 2, 3 of each four.
struct PairSums {
  int32_t sums[2];
};

}  // namespace
}  // namespace tercet::kernels
