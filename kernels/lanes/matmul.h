// The quantized matmul. Internal to kernels/; include after a vocabulary. Bits and layouts: matmul.h, panels.h.
#pragma once

#include "kernels/layout.h"
#include "kernels/lanes/inline.h"
#include "kernels/lanes/outputs.h"
#include "kernels/matmul.h"

namespace tercet::kernels {
namespace {

template <Format kFormat>
struct Traits {
  static constexpr Layout kLayout = kLayouts[static_cast<int>(kFormat)];
  static constexpr int kBits = kLayout.bits;
  static constexpr bool kHasMinimum = kLayout.has_minimum;
  // Weight scales within 32 k, and steps of 4 k for each.
  static constexpr int kSpans = kFormat == Format::kQ6_K ? 2 : 1;
  static constexpr int kSteps = 8 / kSpans;
  static constexpr int kLog2Offset = kLayout.offset == 0 ? -1 : __builtin_ctz(kLayout.offset == 0 ? 1 : kLayout.offset);
  using WeightOperand = Operand<kBits>;
  using BlockDot = Dot<kBits, kLog2Offset, kSteps>;
};

// The stored weights of k-dword kDword (0 … 7) of 32 k, 16 rows.
template <int kBits, int kDword>
TERCET_INLINE Bytes Unpack(const std::byte* lines) {
  if constexpr (kBits == 8) {
    return LoadLine(lines + 64 * kDword);
  } else {
    const Bytes low = ShiftAnd<kDword / 4 * 4>(LoadLine(lines + 64 * (kDword % 4)), 0x0f);
    if constexpr (kBits == 5) return Or(low, ShiftAnd<kDword - 4>(LoadLine(lines + 256), 0x10));
    if constexpr (kBits == 6) {
      return Or(low, ShiftAnd<2 * (kDword % 4) - 4>(LoadLine(lines + 256 + 64 * (kDword / 4)), 0x30));
    }
    return low;
  }
}

// The pair sums of 32 activations, or of one half of them, in all lanes.
template <int kSpans, int kSpan>
TERCET_INLINE I32 PairSumsOf(const QuantizedBlock& x) {
  if constexpr (kSpans == 1) return SetPair(x.pair_sums);
  if constexpr (kSpan == 0) return SetPair(x.low_pair_sums);
  return SubPairs(SetPair(x.pair_sums), SetPair(x.low_pair_sums));
}

// The scales of a scale group (32 or 256 k) of a panel, as f32.
template <Format kFormat>
struct GroupScales {
  using T = Traits<kFormat>;
  F32 d, m;
  const std::byte* bytes;

  TERCET_INLINE explicit GroupScales(const std::byte* scales) : d(LoadHalf(scales)), m(d), bytes(scales) {
    if constexpr (T::kHasMinimum) m = LoadHalf(scales + 32);
    if constexpr (T::kHasMinimum && T::kLayout.scale_k == 256) m = Negate(m);
  }
  // Of the 32 k number `sub` in the group, span kSpan.
  template <int kSpan>
  TERCET_INLINE F32 Scale(int64_t sub) const {
    if constexpr (T::kLayout.scale_k == 32) return d;
    if constexpr (T::kSpans == 2) return Mul(d, LoadSignedBytes(bytes + 32 + 32 * sub + 16 * kSpan));
    return Mul(d, LoadUnsignedBytes(bytes + 64 + 16 * sub));
  }
  TERCET_INLINE F32 Minimum(int64_t sub) const {
    if constexpr (T::kLayout.scale_k == 32) return m;
    return Mul(m, LoadUnsignedBytes(bytes + 192 + 16 * sub));
  }
};

// kPanels panels × kTokens rows of activations. `ahead`: bytes from a line to the one worth prefetching meanwhile.
template <Format kFormat, int kPanels, int kTokens>
__attribute__((noinline)) void Tile(const std::byte* panels, int64_t panel_bytes, int64_t cols, int64_t ahead,
                                    const QuantizedBlock* x, int64_t x_stride, F32* out) {
  using T = Traits<kFormat>;
  constexpr int64_t kSubs = T::kLayout.scale_k / 32;
  const int64_t scales_at = cols / 32 * T::kLayout.line_bytes;

  F32 acc[kPanels][kTokens];
  Unroll<kPanels>([&](auto p) TERCET_INLINE_LAMBDA { Unroll<kTokens>([&](auto t) TERCET_INLINE_LAMBDA { acc[p.value][t.value] = Zero(); }); });

  const std::byte* lines = panels;
  for (int64_t group = 0; group < cols / T::kLayout.scale_k; ++group) {
    const std::byte* scales = panels + scales_at + group * T::kLayout.scale_bytes;
    for (int64_t sub = 0; sub < kSubs; ++sub, lines += T::kLayout.line_bytes, ++x) {
      Unroll<kPanels * T::kLayout.line_bytes / 64>([&](auto i) TERCET_INLINE_LAMBDA {
        constexpr int kLines = T::kLayout.line_bytes / 64;
        __builtin_prefetch(lines + (i.value / kLines) * panel_bytes + ahead + 64 * (i.value % kLines));
      });
      Unroll<T::kSpans>([&](auto span) TERCET_INLINE_LAMBDA {
        typename T::BlockDot dot[kPanels][kTokens];
        Unroll<kPanels>([&](auto p) TERCET_INLINE_LAMBDA {
          Unroll<kTokens>([&](auto t) TERCET_INLINE_LAMBDA { dot[p.value][t.value].Begin(PairSumsOf<T::kSpans, span.value>(x[t.value * x_stride])); });
        });
        Unroll<T::kSteps>([&](auto step) TERCET_INLINE_LAMBDA {
          // Low and high nibbles of a line in turn, so that it is loaded once.
          constexpr int kDword = T::kSpans == 2   ? 4 * span.value + step.value
                                 : T::kBits == 8 ? step.value
                                                 : step.value / 2 + step.value % 2 * 4;
          typename T::WeightOperand w[kPanels];
          Unroll<kPanels>([&](auto p) TERCET_INLINE_LAMBDA {
            w[p.value] = MakeOperand<T::kBits>(Unpack<T::kBits, kDword>(lines + p.value * panel_bytes));
          });
          Unroll<kTokens>([&](auto t) TERCET_INLINE_LAMBDA {
            const Four q = Broadcast4(x[t.value * x_stride].q + 4 * kDword);
            Unroll<kPanels>([&](auto p) TERCET_INLINE_LAMBDA { dot[p.value][t.value].template Step<step.value>(w[p.value], q); });
          });
        });
        Unroll<kPanels>([&](auto p) TERCET_INLINE_LAMBDA {
          const GroupScales<kFormat> group_scales(scales + p.value * panel_bytes);
          const F32 scale = group_scales.template Scale<span.value>(sub);
          Unroll<kTokens>([&](auto t) TERCET_INLINE_LAMBDA {
            const F32 isum = ToFloat(dot[p.value][t.value].End(PairSumsOf<T::kSpans, span.value>(x[t.value * x_stride])));
            F32& a = acc[p.value][t.value];
            a = Fma(isum, Mul(scale, Set(x[t.value * x_stride].scale)), a);
            if constexpr (T::kHasMinimum) a = Fma(group_scales.Minimum(sub), Set(x[t.value * x_stride].scaled_sum), a);
          });
        });
      });
    }
  }
  Unroll<kPanels>([&](auto p) TERCET_INLINE_LAMBDA {
    Unroll<kTokens>([&](auto t) TERCET_INLINE_LAMBDA { out[p.value * kTokens + t.value] = acc[p.value][t.value]; });
  });
}

// One tile, and its outputs.
template <Format kFormat, int kPanels, int kTokens>
TERCET_INLINE void TileOf(const PackedMatrix& w, int64_t panel, int64_t panel_bytes, int64_t ahead, const QuantizedRows& x,
                          int64_t row, float* out, int64_t out_stride) {
  F32 acc[kPanels * kTokens];
  Tile<kFormat, kPanels, kTokens>(w.panels + panel * panel_bytes, panel_bytes, w.cols, ahead,
                                  x.blocks + row * x.row_stride, x.row_stride, acc);
  for (int p = 0; p < kPanels; ++p) {
    for (int t = 0; t < kTokens; ++t) {
      StoreOutputs(w, panel + p, acc[p * kTokens + t], out + (row + t) * out_stride);
    }
  }
}

// All rows past kPanels panels, in tiles of nearly equal size. The first tile reads the panels from memory and prefetches
// the next ones; the others find them in the cache.
template <Format kFormat, int kPanels>
TERCET_INLINE void PanelsTimesRows(const PackedMatrix& w, int64_t panel, int64_t panel_bytes, const QuantizedRows& x,
                                   int64_t row_begin, int64_t row_end, float* out, int64_t out_stride) {
  ForTokenTiles<kTileTokens>(row_begin, row_end, [&](auto tokens, int64_t row) TERCET_INLINE_LAMBDA {
    const int64_t ahead = row == row_begin ? kPanels * panel_bytes : 0;
    TileOf<kFormat, kPanels, tokens.value>(w, panel, panel_bytes, ahead, x, row, out, out_stride);
  });
}

template <Format kFormat>
void MatmulOf(const PackedMatrix& w, int64_t panel_begin, int64_t panel_end, const QuantizedRows& x, int64_t row_begin,
              int64_t row_end, float* out, int64_t out_stride) {
  using T = Traits<kFormat>;
  const int64_t bytes =
      w.cols / 32 * T::kLayout.line_bytes + w.cols / T::kLayout.scale_k * T::kLayout.scale_bytes;
  const int64_t panel_bytes = (bytes + 63) / 64 * 64;
  int64_t panel = panel_begin;
  if (kTilePanels > 1 && row_end - row_begin >= kRowsForTilePanels) {
    for (; panel + kTilePanels <= panel_end; panel += kTilePanels) {
      PanelsTimesRows<kFormat, kTilePanels>(w, panel, panel_bytes, x, row_begin, row_end, out, out_stride);
    }
  }
  for (; panel < panel_end; ++panel) {
    PanelsTimesRows<kFormat, 1>(w, panel, panel_bytes, x, row_begin, row_end, out, out_stride);
  }
}

void MatmulLanes(const PackedMatrix& w, int64_t panel_begin, int64_t panel_end, const QuantizedRows& x, int64_t row_begin,
                 int64_t row_end, float* out, int64_t out_stride) {
  const auto run = [&](auto* of) { of(w, panel_begin, panel_end, x, row_begin, row_end, out, out_stride); };
  switch (w.format) {
    case Format::kQ8_0:
      return run(&MatmulOf<Format::kQ8_0>);
    case Format::kQ4_0:
      return run(&MatmulOf<Format::kQ4_0>);
    case Format::kQ4_1:
      return run(&MatmulOf<Format::kQ4_1>);
    case Format::kQ5_0:
      return run(&MatmulOf<Format::kQ5_0>);
    case Format::kQ5_1:
      return run(&MatmulOf<Format::kQ5_1>);
    case Format::kQ4_K:
      return run(&MatmulOf<Format::kQ4_K>);
    case Format::kQ5_K:
      return run(&MatmulOf<Format::kQ5_K>);
    case Format::kQ6_K:
      return run(&MatmulOf<Format::kQ6_K>);
    case Format::kF32:
    case Format::kF16:
    case Format::kBF16:
      return;  // MatmulF32 has them.
  }
}

}  // namespace
}  // namespace tercet::kernels
