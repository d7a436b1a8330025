// The matmul with F32, F16 or BF16 weights. Internal to kernels/; include after a vocabulary. Bits and layouts: matmul.h,
// panels.h.
#pragma once

#include "kernels/lanes/float_tile.h"
#include "kernels/lanes/inline.h"
#include "kernels/lanes/outputs.h"
#include "kernels/layout.h"
#include "kernels/matmul.h"

namespace tercet::kernels {
namespace {

// kPanels panels from `panel` on × kTokens rows from `row` on.
template <Format kFormat, int kPanels, int kTokens>
__attribute__((noinline)) void FloatTileOf(const PackedMatrix& w, int64_t panel, int64_t panel_bytes, const float* x,
                                           int64_t x_stride, int64_t row, float* out, int64_t out_stride) {
  const std::byte* lines[kPanels];
  F32 acc[kPanels][kTokens];
  Unroll<kPanels>([&](auto p) TERCET_INLINE_LAMBDA {
    lines[p.value] = w.panels + (panel + p.value) * panel_bytes;
    Unroll<kTokens>([&](auto t) TERCET_INLINE_LAMBDA { acc[p.value][t.value] = Zero(); });
  });
  FloatTile<kFormat, kPanels, kTokens>(lines, kLayouts[static_cast<int>(kFormat)].line_bytes, w.cols, x + row * x_stride,
                                       x_stride, acc);
  Unroll<kPanels>([&](auto p) TERCET_INLINE_LAMBDA {
    Unroll<kTokens>([&](auto t) TERCET_INLINE_LAMBDA {
      StoreOutputs(w, panel + p.value, acc[p.value][t.value], out + (row + t.value) * out_stride);
    });
  });
}

template <Format kFormat>
void MatmulF32Of(const PackedMatrix& w, int64_t panel_begin, int64_t panel_end, const float* x, int64_t x_stride,
                 int64_t row_begin, int64_t row_end, float* out, int64_t out_stride) {
  const int64_t bytes = w.cols * kLayouts[static_cast<int>(kFormat)].line_bytes;
  const int64_t panel_bytes = (bytes + 63) / 64 * 64;
  // Groups of panels outside, so that a group's weights stay in the cache while the rows pass. All panels of the largest
  // group are walked by each tile in steps of its own width.
  constexpr int64_t kGroup = kFloatTilePanels[1];
  for (int64_t group = panel_begin; group < panel_end; group += kGroup) {
    const int64_t group_end = Smaller(group + kGroup, panel_end);
    ForTokenTiles<kFloatTileTokens>(row_begin, row_end, [&](auto tokens, int64_t row) TERCET_INLINE_LAMBDA {
      constexpr int kPanels = kFloatTilePanels[tokens.value];
      int64_t panel = group;
      for (; panel + kPanels <= group_end; panel += kPanels) {
        FloatTileOf<kFormat, kPanels, tokens.value>(w, panel, panel_bytes, x, x_stride, row, out, out_stride);
      }
      for (; kPanels > 1 && panel < group_end; ++panel) {
        FloatTileOf<kFormat, 1, tokens.value>(w, panel, panel_bytes, x, x_stride, row, out, out_stride);
      }
    });
  }
}

void MatmulF32Lanes(const PackedMatrix& w, int64_t panel_begin, int64_t panel_end, const float* x, int64_t x_stride,
                    int64_t row_begin, int64_t row_end, float* out, int64_t out_stride) {
  const auto run = [&](auto* of) { of(w, panel_begin, panel_end, x, x_stride, row_begin, row_end, out, out_stride); };
  if (w.format == Format::kF32) run(&MatmulF32Of<Format::kF32>);
  if (w.format == Format::kF16) run(&MatmulF32Of<Format::kF16>);
  if (w.format == Format::kBF16) run(&MatmulF32Of<Format::kBF16>);
}

}  // namespace
}  // namespace tercet::kernels
