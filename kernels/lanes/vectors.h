// Operations on single vectors: norm, rotary embedding, activations, residual, reductions, candidates, quantization. Internal
// to kernels/; include after a vocabulary. What each does, and its bits, stands in its public header.
#pragma once

#include "kernels/activation.h"
#include "kernels/candidates.h"
#include "kernels/lanes/exp.h"
#include "kernels/lanes/inline.h"
#include "kernels/lanes/tail.h"
#include "kernels/quantize.h"
#include "kernels/reduce.h"
#include "kernels/rope.h"

namespace tercet::kernels {
namespace {

void RmsNormLanes(const float* x, const float* weight, int64_t n, float eps, float* out) {
  F32 partial = Zero();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const F32 v = Load(x + i);
    partial = Fma(v, v, partial);
  }
  if (i < n) {
    const F32 v = LoadFirst(x + i, n - i, 0.0f);
    partial = Fma(v, v, partial);
  }
  const float mean = FoldSum(partial) / static_cast<float>(n);
  const F32 r = Set(1.0f / __builtin_sqrtf(mean + eps));
  ForEach(x, weight, n, out, [&](F32 a, F32 w) TERCET_INLINE_LAMBDA { return Mul(Mul(a, r), w); });
}

void RopeLanes(float* head, int64_t rotary_dim, const float* cos, const float* sin, RopeStyle style) {
  const int64_t pairs = rotary_dim / 2;
  const auto turn = [](F32 a, F32 b, F32 c, F32 s, F32* first, F32* second) TERCET_INLINE_LAMBDA {
    *first = Fms(a, c, Mul(b, s));
    *second = Fma(a, s, Mul(b, c));
  };
  F32 first, second;
  for (int64_t i = 0; i < pairs; i += kLanes) {
    const int64_t count = Smaller(pairs - i, kLanes);
    if (count == kLanes) {
      const F32 c = Load(cos + i), s = Load(sin + i);
      if (style == RopeStyle::kInterleaved) {
        F32 a, b;
        LoadPairs(head + 2 * i, &a, &b);
        turn(a, b, c, s, &first, &second);
        StorePairs(head + 2 * i, first, second);
      } else {
        turn(Load(head + i), Load(head + i + pairs), c, s, &first, &second);
        Store(head + i, first);
        Store(head + i + pairs, second);
      }
      continue;
    }
    // The last pairs, through arrays.
    float a[kLanes] = {}, b[kLanes] = {};
    const int64_t step = style == RopeStyle::kInterleaved ? 2 : 1;
    float* from_a = head + step * i;
    float* from_b = style == RopeStyle::kInterleaved ? from_a + 1 : from_a + pairs;
    for (int64_t j = 0; j < count; ++j) {
      a[j] = from_a[step * j];
      b[j] = from_b[step * j];
    }
    turn(Load(a), Load(b), LoadFirst(cos + i, count, 0.0f), LoadFirst(sin + i, count, 0.0f), &first, &second);
    Store(a, first);
    Store(b, second);
    for (int64_t j = 0; j < count; ++j) {
      from_a[step * j] = a[j];
      from_b[step * j] = b[j];
    }
  }
}

void SiluMulLanes(const float* gate, const float* up, int64_t n, float* out) {
  ForEach(gate, up, n, out, [](F32 x, F32 u) TERCET_INLINE_LAMBDA {
    return Mul(Div(x, Add(Set(1.0f), ExpLanes(Negate(x)))), u);
  });
}

void GeluTanhMulLanes(const float* gate, const float* up, int64_t n, float* out) {
  ForEach(gate, up, n, out, [](F32 x, F32 u) TERCET_INLINE_LAMBDA {
    const F32 minus_2u = Mul(x, Fma(Mul(x, x), Set(kGeluCubic), Set(kGeluLinear)));
    return Mul(Div(x, Add(Set(1.0f), ExpLanes(minus_2u))), u);
  });
}

void AddIntoLanes(float* dst, const float* src, int64_t n) {
  ForEach(dst, src, n, dst, [](F32 a, F32 b) TERCET_INLINE_LAMBDA { return Add(a, b); });
}

void ScaleLanes(float* dst, float factor, int64_t n) {
  ForEach(dst, dst, n, dst, [&](F32 a, F32) TERCET_INLINE_LAMBDA { return Mul(a, Set(factor)); });
}

int64_t MaxIndexLanes(const float* x, int64_t n) {
  F32 max = Set(-__builtin_inff());
  I32 index = SetInt(-1), here = LaneIndex();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const F32 v = Load(x + i);
    const Mask larger = Greater(v, max);
    max = Select(larger, v, max);
    index = Select(larger, here, index);
    here = Add(here, SetInt(kLanes));
  }
  // A lane holds its first maximum; among equal lanes the lowest index is the first of all.
  float lane_max[kLanes];
  int32_t lane_index[kLanes];
  Store(lane_max, max);
  Store(lane_index, index);
  float best = -__builtin_inff();
  int64_t best_index = -1;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (lane_max[lane] > best || (lane_max[lane] == best && lane_index[lane] < best_index)) {
      best = lane_max[lane];
      best_index = lane_index[lane];
    }
  }
  for (; i < n; ++i) {
    if (x[i] > best) {
      best = x[i];
      best_index = i;
    }
  }
  return best_index;
}

float LogSumExpLanes(const float* x, int64_t n) {
  const int64_t whole = n / kLanes * kLanes;
  F32 maxima = Set(-__builtin_inff());
  for (int64_t i = 0; i < whole; i += kLanes) maxima = Max(Load(x + i), maxima);
  if (whole < n) maxima = Max(LoadFirst(x + whole, n - whole, -__builtin_inff()), maxima);
  float max = FoldMax(maxima);
  if (max == -__builtin_inff()) max = 0.0f;

  F32 partial = Zero();
  for (int64_t i = 0; i < whole; i += kLanes) partial = Add(partial, ExpLanes(Sub(Load(x + i), Set(max))));
  if (whole < n) {
    partial = Add(partial, ExpLanes(Sub(LoadFirst(x + whole, n - whole, -__builtin_inff()), Set(max))));
  }
  const float sum = FoldSum(partial);
  return sum == 0.0f ? -__builtin_inff() : max + Log(sum);
}

int64_t CollectAtLeastLanes(const float* logits, int64_t begin, int64_t n, float threshold, Candidate* out, int64_t room,
                            int64_t* next) {
  // −inf is no candidate: with a threshold of −inf the comparison is with the lowest finite number.
  const float least = threshold == -__builtin_inff() ? -__FLT_MAX__ : threshold;
  int64_t count = 0;
  int64_t i = begin;
  for (; i + kLanes <= n && count + kLanes <= room; i += kLanes) {
    uint32_t found = Bits(GreaterOrEqual(Load(logits + i), Set(least)));
    for (; found != 0; found &= found - 1) {
      const int64_t id = i + __builtin_ctz(found);
      out[count++] = {static_cast<int32_t>(id), logits[id]};
    }
  }
  for (; i < n && count < room; ++i) {
    if (logits[i] >= least) out[count++] = {static_cast<int32_t>(i), logits[i]};
  }
  *next = i;
  return count;
}

void QuantizeRowLanes(const float* x, int64_t cols, QuantizedBlock* out) {
  for (int64_t block = 0; block < cols / kActivationBlock; ++block, x += kActivationBlock) {
    const F32 low = Load(x), high = Load(x + kLanes);
    const int32_t largest = FoldMax(Max(Magnitude(low), Magnitude(high)));
    float amax;
    __builtin_memcpy(&amax, &largest, sizeof amax);

    float scale = 0.0f, inverse = 0.0f;
    I32 q_low = SetInt(0), q_high = SetInt(0);
    if (largest >= 0x7f800000) {
      scale = __builtin_nanf("");
    } else if (amax >= 0x1p-110f) {
      scale = amax / 127.0f;
      inverse = 127.0f / amax;
      q_low = ToInt(Mul(low, Set(inverse)));
      q_high = ToInt(Mul(high, Set(inverse)));
    }
    QuantizedBlock& to = out[block];
    StoreBytes(to.q, q_low);
    StoreBytes(to.q + kLanes, q_high);
    to.scale = scale;
    const PairSums low_sums = FoldPairs(q_low), high_sums = FoldPairs(q_high);
    for (int i = 0; i < 2; ++i) {
      to.low_pair_sums[i] = static_cast<int16_t>(low_sums.sums[i]);
      to.pair_sums[i] = static_cast<int16_t>(low_sums.sums[i] + high_sums.sums[i]);
    }
    to.scaled_sum = scale * static_cast<float>(to.pair_sums[0] + to.pair_sums[1]);
  }
}

}  // namespace
}  // namespace tercet::kernels
