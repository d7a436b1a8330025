#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention.h"
#include "kernels/exp.h"
#include "kernels/half.h"
#include "kernels/scalar/ops.h"

namespace tercet::kernels::scalar {

namespace {

void AttendQuery(const AttentionChunk& chunk, int64_t query) {
  const float* q = chunk.q + query * chunk.q_stride;
  float* out = chunk.out + query * chunk.out_stride;
  // The visible positions, counted from the start of the chunk.
  const int64_t begin = std::max<int64_t>(chunk.query_begin[query] - chunk.first_position, 0);
  const int64_t end = std::min<int64_t>(chunk.query_end[query] - chunk.first_position, chunk.tokens);

  float score[kChunkTokens];
  float max = -std::numeric_limits<float>::infinity();
  for (int64_t t = begin; t < end; ++t) {
    const uint16_t* k_page = chunk.k_pages[t / kPageTokens];
    score[t] = 0.0f;
    for (int64_t d = 0; d < chunk.head_dim; ++d) {
      score[t] = std::fma(q[d], HalfToFloat(k_page[d * kPageTokens + t % kPageTokens]), score[t]);
    }
    if (score[t] > max) max = score[t];
  }
  max += 0.0f;

  float partial[16] = {};
  std::fill_n(out, chunk.head_dim, 0.0f);
  for (int64_t t = begin; t < end; ++t) {
    const uint16_t* v = chunk.v_pages[t / kPageTokens] + t % kPageTokens * chunk.head_dim;
    const float p = Exp(score[t] - max);
    partial[t % 16] += p;
    for (int64_t d = 0; d < chunk.head_dim; ++d) out[d] = std::fma(p, HalfToFloat(v[d]), out[d]);
  }
  chunk.max[query] = max;
  chunk.sum[query] = FoldSum(partial);
}

}  // namespace

void AttendChunk(const AttentionChunk& chunk) {
  for (int64_t query = 0; query < chunk.queries; ++query) AttendQuery(chunk, query);
}

void MergeChunks(int64_t chunks, const float* max, const float* sum, const float* const* out, int64_t head_dim,
                 float* result) {
  float largest = -std::numeric_limits<float>::infinity();
  for (int64_t c = 0; c < chunks; ++c) {
    if (max[c] > largest) largest = max[c];
  }
  std::fill_n(result, head_dim, 0.0f);
  float total = 0.0f;
  bool any = false;
  for (int64_t c = 0; c < chunks; ++c) {
    if (sum[c] == 0.0f) continue;  // Saw nothing; a chunk that saw something has a sum of at least 1, or NaN.
    any = true;
    const float weight = Exp(max[c] - largest);
    total = std::fma(sum[c], weight, total);
    for (int64_t d = 0; d < head_dim; ++d) result[d] = std::fma(out[c][d], weight, result[d]);
  }
  if (!any) return;
  const float inverse = 1.0f / total;
  for (int64_t d = 0; d < head_dim; ++d) result[d] *= inverse;
}

void StoreKv(const float* k, const float* v, int64_t head_dim, int64_t slot, uint16_t* k_page, uint16_t* v_page) {
  for (int64_t d = 0; d < head_dim; ++d) {
    k_page[d * kPageTokens + slot] = FloatToHalf(k[d]);
    v_page[slot * head_dim + d] = FloatToHalf(v[d]);
  }
}

}  // namespace tercet::kernels::scalar
