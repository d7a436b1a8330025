// The scalar reference: for each operation the loop that defines its bits. Internal to kernels/.
// Compiled for plain x86-64, so it runs everywhere. What each operation does stands in its public header.
#pragma once

#include <cstdint>

#include "kernels/table.h"

namespace tercet::kernels::scalar {

void QuantizeRow(const float* x, int64_t cols, QuantizedBlock* out);
void Matmul(const PackedMatrix& w, int64_t panel_begin, int64_t panel_end, const QuantizedRows& x, int64_t row_begin,
            int64_t row_end, float* out, int64_t out_stride);
void MatmulF32(const PackedMatrix& w, int64_t panel_begin, int64_t panel_end, const float* x, int64_t x_stride,
               int64_t row_begin, int64_t row_end, float* out, int64_t out_stride);
void RmsNorm(const float* x, const float* weight, int64_t n, float eps, float* out);
void Rope(float* head, int64_t rotary_dim, const float* cos, const float* sin, RopeStyle style);
void SiluMul(const float* gate, const float* up, int64_t n, float* out);
void GeluTanhMul(const float* gate, const float* up, int64_t n, float* out);
void AttendChunk(const AttentionChunk& chunk);
void MergeChunks(int64_t chunks, const float* max, const float* sum, const float* const* out, int64_t head_dim,
                 float* result);
void StoreKv(const float* k, const float* v, int64_t head_dim, int64_t slot, uint16_t* k_page, uint16_t* v_page);
void AddInto(float* dst, const float* src, int64_t n);
void Scale(float* dst, float factor, int64_t n);
int64_t MaxIndex(const float* x, int64_t n);
float LogSumExp(const float* x, int64_t n);
int64_t CollectAtLeast(const float* logits, int64_t begin, int64_t n, float threshold, Candidate* out, int64_t room,
                       int64_t* next);
void ExpEach(const float* x, int64_t n, float* out);

// Folds 16 partial results by the tree of reduce.h; overwrites them.
float FoldSum(float* partial);

extern const Table kTable;

}  // namespace tercet::kernels::scalar
