// The operations of one instruction set as a table of functions: what a folder scalar/, avx2/, avx512/ supplies.
// What each one does stands in the header of the operation.
#pragma once

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/candidates.h"
#include "kernels/matmul.h"
#include "kernels/quantize.h"
#include "kernels/rope.h"

namespace tercet::kernels {

struct Table {
  decltype(&QuantizeRow) quantize_row;
  decltype(&Matmul) matmul;
  decltype(&MatmulF32) matmul_f32;
  void (*rms_norm)(const float* x, const float* weight, int64_t n, float eps, float* out);
  decltype(&Rope) rope;
  void (*silu_mul)(const float* gate, const float* up, int64_t n, float* out);
  void (*gelu_tanh_mul)(const float* gate, const float* up, int64_t n, float* out);
  decltype(&AttendChunk) attend_chunk;
  decltype(&MergeChunks) merge_chunks;
  decltype(&StoreKv) store_kv;
  void (*add_into)(float* dst, const float* src, int64_t n);
  void (*scale)(float* dst, float factor, int64_t n);
  int64_t (*max_index)(const float* x, int64_t n);
  float (*log_sum_exp)(const float* x, int64_t n);
  decltype(&CollectAtLeast) collect_at_least;
  void (*exp)(const float* x, int64_t n, float* out);  // Element by element; for tests.
};

}  // namespace tercet::kernels
