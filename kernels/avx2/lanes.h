// The vector vocabulary of AVX2: 16 lanes are a pair of ymm registers. Internal to kernels/; see kernels/lanes/inline.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/lanes/inline.h"

namespace tercet::kernels {
namespace {

struct F32 {
  __m256 lo, hi;
};
struct I32 {
  __m256i lo, hi;
};
struct Bytes {
  __m256i lo, hi;
};
struct Mask {
  __m256 lo, hi;  // All bits of a lane, or none.
};

// --- f32 ---
TERCET_INLINE F32 Set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
TERCET_INLINE F32 Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
TERCET_INLINE F32 Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
TERCET_INLINE void Store(float* p, F32 x) {
  _mm256_storeu_ps(p, x.lo);
  _mm256_storeu_ps(p + 8, x.hi);
}
TERCET_INLINE F32 Add(F32 a, F32 b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
TERCET_INLINE F32 Sub(F32 a, F32 b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
TERCET_INLINE F32 Mul(F32 a, F32 b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
TERCET_INLINE F32 Div(F32 a, F32 b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
// a·b + c and a·b − c, rounded once.
TERCET_INLINE F32 Fma(F32 a, F32 b, F32 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
TERCET_INLINE F32 Fms(F32 a, F32 b, F32 c) {
  return {_mm256_fmsub_ps(a.lo, b.lo, c.lo), _mm256_fmsub_ps(a.hi, b.hi, c.hi)};
}
// a > b ? a : b, so b if one is NaN.
TERCET_INLINE F32 Max(F32 a, F32 b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
TERCET_INLINE F32 Negate(F32 a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_xor_ps(a.lo, sign), _mm256_xor_ps(a.hi, sign)};
}
TERCET_INLINE float FirstLane(F32 a) { return _mm256_cvtss_f32(a.lo); }

// The tree of reduce.h.
TERCET_INLINE float FoldSum(F32 x) {
  const __m256 eight = _mm256_add_ps(x.lo, x.hi);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
TERCET_INLINE float FoldMax(F32 x) {
  const __m256 eight = _mm256_max_ps(x.lo, x.hi);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// p[0], p[2], … p[30] and p[1], p[3], … p[31].
TERCET_INLINE void LoadPairs(const float* p, F32* even, F32* odd) {
  const auto pick = [](__m256 a, __m256 b, auto take) TERCET_INLINE_LAMBDA {
    const __m256 mixed = take(a, b);  // a0 a2 b0 b2 | a4 a6 b4 b6
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(mixed), 0xD8));
  };
  const auto evens = [](__m256 a, __m256 b) TERCET_INLINE_LAMBDA { return _mm256_shuffle_ps(a, b, 0x88); };
  const auto odds = [](__m256 a, __m256 b) TERCET_INLINE_LAMBDA { return _mm256_shuffle_ps(a, b, 0xDD); };
  const F32 low = Load(p), high = Load(p + 16);
  *even = {pick(low.lo, low.hi, evens), pick(high.lo, high.hi, evens)};
  *odd = {pick(low.lo, low.hi, odds), pick(high.lo, high.hi, odds)};
}
TERCET_INLINE void StorePairs(float* p, F32 even, F32 odd) {
  const auto interleave = [](float* to, __m256 a, __m256 b) TERCET_INLINE_LAMBDA {
    const __m256 low = _mm256_unpacklo_ps(a, b), high = _mm256_unpackhi_ps(a, b);
    _mm256_storeu_ps(to, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(to + 8, _mm256_permute2f128_ps(low, high, 0x31));
  };
  interleave(p, even.lo, odd.lo);
  interleave(p + 16, even.hi, odd.hi);
}

// --- comparisons: false for NaN ---
TERCET_INLINE Mask Greater(F32 a, F32 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_GT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_GT_OQ)};
}
TERCET_INLINE Mask GreaterOrEqual(F32 a, F32 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_GE_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_GE_OQ)};
}
// mask ? a : b
TERCET_INLINE F32 Select(Mask mask, F32 a, F32 b) {
  return {_mm256_blendv_ps(b.lo, a.lo, mask.lo), _mm256_blendv_ps(b.hi, a.hi, mask.hi)};
}
TERCET_INLINE I32 Select(Mask mask, I32 a, I32 b) {
  return {_mm256_blendv_epi8(b.lo, a.lo, _mm256_castps_si256(mask.lo)),
          _mm256_blendv_epi8(b.hi, a.hi, _mm256_castps_si256(mask.hi))};
}
// Bit i is lane i.
TERCET_INLINE uint32_t Bits(Mask mask) {
  return static_cast<uint32_t>(_mm256_movemask_ps(mask.lo)) | static_cast<uint32_t>(_mm256_movemask_ps(mask.hi)) << 8;
}
// Lanes first … last − 1.
TERCET_INLINE Mask LanesBetween(int first, int last) {
  const __m256i low = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i high = _mm256_add_epi32(low, _mm256_set1_epi32(8));
  const __m256i from = _mm256_set1_epi32(first - 1), to = _mm256_set1_epi32(last);
  const auto between = [&](__m256i lane) TERCET_INLINE_LAMBDA {
    return _mm256_castsi256_ps(_mm256_and_si256(_mm256_cmpgt_epi32(lane, from), _mm256_cmpgt_epi32(to, lane)));
  };
  return {between(low), between(high)};
}

// --- 16-bit floats ---
TERCET_INLINE F32 LoadHalf(const void* p) {
  const __m128i* from = static_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(from)), _mm256_cvtph_ps(_mm_loadu_si128(from + 1))};
}
TERCET_INLINE F32 LoadBrainFloat(const void* p) {
  const __m128i* from = static_cast<const __m128i*>(p);
  const auto widen = [](__m128i x) TERCET_INLINE_LAMBDA {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
  };
  return {widen(_mm_loadu_si128(from)), widen(_mm_loadu_si128(from + 1))};
}
TERCET_INLINE void StoreHalf(uint16_t* p, F32 x) {
  __m128i* to = reinterpret_cast<__m128i*>(p);
  _mm_storeu_si128(to, _mm256_cvtps_ph(x.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(to + 1, _mm256_cvtps_ph(x.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

// --- int32 ---
TERCET_INLINE I32 SetInt(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
TERCET_INLINE I32 LaneIndex() {
  return {_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
}
TERCET_INLINE I32 Add(I32 a, I32 b) { return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)}; }
TERCET_INLINE I32 Sub(I32 a, I32 b) { return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)}; }
TERCET_INLINE I32 Max(I32 a, I32 b) { return {_mm256_max_epi32(a.lo, b.lo), _mm256_max_epi32(a.hi, b.hi)}; }
// Two int16 in each lane.
TERCET_INLINE I32 SetPair(const int16_t* p) {
  int32_t bits;
  __builtin_memcpy(&bits, p, 4);
  return SetInt(bits);
}
TERCET_INLINE I32 SubPairs(I32 a, I32 b) { return {_mm256_sub_epi16(a.lo, b.lo), _mm256_sub_epi16(a.hi, b.hi)}; }
TERCET_INLINE void Store(int32_t* p, I32 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), x.hi);
}
TERCET_INLINE F32 ToFloat(I32 x) { return {_mm256_cvtepi32_ps(x.lo), _mm256_cvtepi32_ps(x.hi)}; }
// Rounded to nearest even.
TERCET_INLINE I32 ToInt(F32 x) { return {_mm256_cvtps_epi32(x.lo), _mm256_cvtps_epi32(x.hi)}; }
// The bits of |x|.
TERCET_INLINE I32 Magnitude(F32 x) {
  const __m256i mask = _mm256_set1_epi32(0x7fffffff);
  return {_mm256_and_si256(_mm256_castps_si256(x.lo), mask), _mm256_and_si256(_mm256_castps_si256(x.hi), mask)};
}
// 2^n from t = 1.5·2^23 + n; see exp.h.
TERCET_INLINE F32 PowerOfTwo(F32 t) {
  const auto power = [](__m256 x) TERCET_INLINE_LAMBDA {
    return _mm256_castsi256_ps(
        _mm256_add_epi32(_mm256_slli_epi32(_mm256_castps_si256(x), 23), _mm256_set1_epi32(0x3f800000)));
  };
  return {power(t.lo), power(t.hi)};
}
TERCET_INLINE PairSums FoldPairs(I32 x) {
  const __m256i eight = _mm256_add_epi32(x.lo, x.hi);
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1));
  return {{_mm_cvtsi128_si32(s), _mm_extract_epi32(s, 2)}};
}
TERCET_INLINE int32_t FoldMax(I32 x) {
  const __m256i eight = _mm256_max_epi32(x.lo, x.hi);
  __m128i s = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  s = _mm_max_epi32(s, _mm_shuffle_epi32(s, 0x4E));
  return _mm_cvtsi128_si32(_mm_max_epi32(s, _mm_shuffle_epi32(s, 0xB1)));
}

// --- bytes ---
TERCET_INLINE F32 LoadUnsignedBytes(const std::byte* p) {
  const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(x)), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(x, 8)))};
}
TERCET_INLINE F32 LoadSignedBytes(const std::byte* p) {
  const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(x, 8)))};
}
// Lanes of −128 … 127 as 16 bytes.
TERCET_INLINE void StoreBytes(int8_t* p, I32 x) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.lo, x.hi), 0xD8);
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
TERCET_INLINE Bytes LoadLine(const std::byte* p) {
  const __m256i* from = reinterpret_cast<const __m256i*>(p);
  return {_mm256_load_si256(from), _mm256_load_si256(from + 1)};
}
// (x >> kShift) & mask in each byte; a negative kShift is to the left. The mask must drop what crosses from the next byte.
template <int kShift>
TERCET_INLINE Bytes ShiftAnd(Bytes x, uint8_t mask) {
  const __m256i m = _mm256_set1_epi8(static_cast<char>(mask));
  if constexpr (kShift > 0) x = {_mm256_srli_epi32(x.lo, kShift), _mm256_srli_epi32(x.hi, kShift)};
  if constexpr (kShift < 0) x = {_mm256_slli_epi32(x.lo, -kShift), _mm256_slli_epi32(x.hi, -kShift)};
  return {_mm256_and_si256(x.lo, m), _mm256_and_si256(x.hi, m)};
}
TERCET_INLINE Bytes Or(Bytes a, Bytes b) { return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)}; }

// --- integer dot products ---

// 4 activation bytes, for all lanes.
using Four = __m256i;
TERCET_INLINE Four Broadcast4(const int8_t* q) {
  int32_t bits;
  __builtin_memcpy(&bits, q, 4);
  return _mm256_set1_epi32(bits);
}

// A line of stored weights (unsigned kBits), ready to be multiplied with several activations.
template <int kBits>
struct Operand {
  Bytes stored;
};
// 8 bits: VPMADDUBSW adds two products in int16, which 255 · 127 · 2 overflows but 128 · 127 · 2 = 32512 does not. So the
// magnitude of the weight is the unsigned factor, and the activation takes over its sign.
template <>
struct Operand<8> {
  Bytes magnitude, weight;
};
template <int kBits>
TERCET_INLINE Operand<kBits> MakeOperand(Bytes stored) {
  if constexpr (kBits == 8) {
    const __m256i flip = _mm256_set1_epi8(-128);
    const Bytes weight = {_mm256_xor_si256(stored.lo, flip), _mm256_xor_si256(stored.hi, flip)};
    return {{_mm256_abs_epi8(weight.lo), _mm256_abs_epi8(weight.hi)}, weight};
  } else {
    return {stored};
  }
}

// Σ (stored − 2^kLog2Offset) · q over the steps 0 … kSteps − 1 of 4 k each; kLog2Offset < 0: no offset. 4 · kSteps ≤ 32.
//
// VPMADDUBSW adds two products in an int16, and all steps are added up in int16 before one VPMADDWD widens them. That is exact
// because the final sum fits; on the way it may wrap around, which modulo 2^16 does no harm:
//   4 bits, 8 steps, no offset: 15 · 127 · 2 · 8 = 30480
//   5 bits, 8 steps, centred on 16: 16 · 127 · 2 · 8 = 32512;  6 bits, 4 steps, centred on 32: 32 · 127 · 2 · 4 = 32512
// So 5 and 6 bits are always centred; where the format has no such offset, it is added back in int32. A single step does not
// saturate: 63 · 127 · 2 = 16002.
template <int kBits, int kLog2Offset, int kSteps>
class Dot {
 public:
  // `pair_sums`: the int16 sums of q over each lane's first and second two, as the quantized block holds them.
  TERCET_INLINE void Begin(I32 pair_sums) {
    if constexpr (kCentred) sum_ = {_mm256_slli_epi16(pair_sums.lo, kLog2Centre), _mm256_slli_epi16(pair_sums.hi, kLog2Centre)};
  }

  template <int kStep>
  TERCET_INLINE void Step(const Operand<kBits>& w, Four q) {
    const Bytes product = {_mm256_maddubs_epi16(w.stored.lo, q), _mm256_maddubs_epi16(w.stored.hi, q)};
    if constexpr (kStep > 0) {
      sum_ = {_mm256_add_epi16(sum_.lo, product.lo), _mm256_add_epi16(sum_.hi, product.hi)};
    } else if constexpr (kCentred) {
      sum_ = {_mm256_sub_epi16(product.lo, sum_.lo), _mm256_sub_epi16(product.hi, sum_.hi)};
    } else {
      sum_ = product;
    }
  }

  // The sum, from the same `pair_sums`.
  TERCET_INLINE I32 End(I32 pair_sums) {
    const I32 sum = AddPairs(sum_, 1);
    if constexpr (kCentred && kLog2Offset < 0) return Add(sum, AddPairs({pair_sums.lo, pair_sums.hi}, 1 << kLog2Centre));
    return sum;
  }

 private:
  static constexpr bool kCentred = kLog2Offset >= 0 || kBits > 4;
  static constexpr int kLog2Centre = kLog2Offset >= 0 ? kLog2Offset : kBits - 1;

  static TERCET_INLINE I32 AddPairs(Bytes words, int16_t factor) {
    const __m256i factors = _mm256_set1_epi16(factor);
    return {_mm256_madd_epi16(words.lo, factors), _mm256_madd_epi16(words.hi, factors)};
  }

  Bytes sum_;
};

// 8 bits: the operand has the offset applied, and each step is widened at once.
template <int kLog2Offset, int kSteps>
class Dot<8, kLog2Offset, kSteps> {
 public:
  TERCET_INLINE void Begin(I32) {}

  template <int kStep>
  TERCET_INLINE void Step(const Operand<8>& w, Four q) {
    const __m256i ones = _mm256_set1_epi16(1);
    const auto products = [&](__m256i magnitude, __m256i weight) TERCET_INLINE_LAMBDA {
      return _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(q, weight)), ones);
    };
    const I32 product = {products(w.magnitude.lo, w.weight.lo), products(w.magnitude.hi, w.weight.hi)};
    sum_ = kStep == 0 ? product : Add(sum_, product);
  }

  TERCET_INLINE I32 End(I32) { return sum_; }

 private:
  I32 sum_;
};

// --- tiles ---

// Quantized matmul, tokens a tile: 4 tokens need 8 registers of int16 sums, 4 for a line and its unpacked half, 2 for
// products; more would spill.
constexpr int kTileTokens = 4;
// Panels that share an activation's broadcast: a second one would not find registers.
constexpr int kTilePanels = 1;
constexpr int64_t kRowsForTilePanels = 0;

// Float matmul and attention. Two FMAs a cycle with a latency of 4 need 8 chains; 16 registers leave room for 12.
constexpr int kFloatTileTokens = 6;
constexpr int kFloatTilePanels[kFloatTileTokens + 1] = {0, 4, 2, 1, 1, 1, 1};  // By tokens.

}  // namespace
}  // namespace tercet::kernels
