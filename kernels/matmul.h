// out[m][n] = Σ_k w[n][k] · x[m][k]: the weights come packed (panels.h), a thread does a range of panels for a range of rows.
//
// Exactness: an output's bits depend only on its weight row and its activation row; not on the ranges, the other rows, or
// the instruction set.
//   Quantized weights. k is walked in blocks of 32 (Q6_K: in halves of 16), in order, from acc = +0:
//     isum = Σ (q_w − offset) · q_x               an exact integer
//     acc  = fma((float)isum, s_w · s_x, acc)     the product s_w · s_x is rounded to f32
//     acc  = fma(m_w, scaled_sum_x, acc)          formats with a minimum only
//   where s_w = d, m_w = m for the formats of 32-blocks; s_w = d·scale, m_w = −(dmin·minimum), exact, for the K-formats.
//   F32, F16, BF16 weights: acc = fma(w[n][k], x[m][k], acc), k in order, from acc = +0.
//
// Cost: a panel's weights are read from memory once for the whole row range (they stay in L1/L2 while the rows pass).
// Thread safety: pure functions; threads write disjoint ranges.
#pragma once

#include <cstdint>

#include "kernels/panels.h"
#include "kernels/quantize.h"

namespace tercet::kernels {

// Rows [row_begin, row_end) of quantized activations x (w.cols each) times panels [panel_begin, panel_end) of `w`, a matrix
// for which IsQuantized is true. Writes out[m · out_stride + n] for these m and n = 16·panel_begin … min(16·panel_end, w.rows).
void Matmul(const PackedMatrix& w, int64_t panel_begin, int64_t panel_end, const QuantizedRows& x, int64_t row_begin,
            int64_t row_end, float* out, int64_t out_stride);

// The same for F32, F16 and BF16 weights and f32 activations: row m at x + m · x_stride.
void MatmulF32(const PackedMatrix& w, int64_t panel_begin, int64_t panel_end, const float* x, int64_t x_stride,
               int64_t row_begin, int64_t row_end, float* out, int64_t out_stride);

}  // namespace tercet::kernels
