// Products with weights, keys or values which are floats. Internal to kernels/; include after a vocabulary.
#pragma once

#include "kernels/formats.h"
#include "kernels/lanes/inline.h"

namespace tercet::kernels {
namespace {

// 16 consecutive numbers of a format, as f32.
template <Format kFormat>
TERCET_INLINE F32 LoadNumbers(const std::byte* p) {
  if constexpr (kFormat == Format::kF32) return Load(reinterpret_cast<const float*>(p));
  if constexpr (kFormat == Format::kF16) return LoadHalf(p);
  if constexpr (kFormat == Format::kBF16) return LoadBrainFloat(p);
}

// acc[p][t] += Σ_k w[p][k] · x[t][k], k in order, one FMA each: lanes of 16 numbers at w[p] + k · k_bytes, and x[t · x_stride + k].
// kPanels · kTokens accumulators are as many chains of dependent FMAs; a vocabulary says how many hide the latency.
template <Format kFormat, int kPanels, int kTokens>
TERCET_INLINE void FloatTile(const std::byte* const (&w)[kPanels], int64_t k_bytes, int64_t count, const float* x,
                             int64_t x_stride, F32 (&acc)[kPanels][kTokens]) {
  for (int64_t k = 0; k < count; ++k) {
    Unroll<kPanels>([&](auto p) TERCET_INLINE_LAMBDA {
      const F32 lanes = LoadNumbers<kFormat>(w[p.value] + k * k_bytes);
      Unroll<kTokens>([&](auto t) TERCET_INLINE_LAMBDA {
        F32& a = acc[p.value][t.value];
        a = Fma(lanes, Set(x[t.value * x_stride + k]), a);
      });
    });
  }
}

}  // namespace
}  // namespace tercet::kernels
