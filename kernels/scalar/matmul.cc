#include <algorithm>
#include <cmath>

#include "kernels/layout.h"
#include "kernels/panel_block.h"
#include "kernels/scalar/ops.h"

namespace tercet::kernels::scalar {

void Matmul(const PackedMatrix& w, int64_t panel_begin, int64_t panel_end, const QuantizedRows& x, int64_t row_begin,
            int64_t row_end, float* out, int64_t out_stride) {
  const bool has_minimum = kLayouts[static_cast<int>(w.format)].has_minimum;
  // Integer sums end where a weight scale ends: at 16 k for Q6_K, at 32 k for all others.
  const int span = w.format == Format::kQ6_K ? 16 : 32;
  for (int64_t n = panel_begin * kPanelRows; n < std::min(panel_end * kPanelRows, w.rows); ++n) {
    for (int64_t m = row_begin; m < row_end; ++m) out[m * out_stride + n] = 0.0f;
    for (int64_t block = 0; block < w.cols / 32; ++block) {
      const PanelBlock weights = ReadPanelBlock(w, n, block);
      for (int64_t m = row_begin; m < row_end; ++m) {
        const QuantizedBlock& activations = x.blocks[m * x.row_stride + block];
        float acc = out[m * out_stride + n];
        for (int begin = 0; begin < 32; begin += span) {
          int isum = 0;
          for (int i = begin; i < begin + span; ++i) isum += weights.q[i] * activations.q[i];
          const float scale = weights.scale[begin / 16] * activations.scale;
          acc = std::fma(static_cast<float>(isum), scale, acc);
        }
        if (has_minimum) acc = std::fma(weights.minimum, activations.scaled_sum, acc);
        out[m * out_stride + n] = acc;
      }
    }
  }
}

void MatmulF32(const PackedMatrix& w, int64_t panel_begin, int64_t panel_end, const float* x, int64_t x_stride,
               int64_t row_begin, int64_t row_end, float* out, int64_t out_stride) {
  for (int64_t n = panel_begin * kPanelRows; n < std::min(panel_end * kPanelRows, w.rows); ++n) {
    for (int64_t m = row_begin; m < row_end; ++m) {
      float acc = 0.0f;
      for (int64_t k = 0; k < w.cols; ++k) acc = std::fma(ReadPanelFloat(w, n, k), x[m * x_stride + k], acc);
      out[m * out_stride + n] = acc;
    }
  }
}

}  // namespace tercet::kernels::scalar
