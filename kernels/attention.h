// Attention over paged keys and values, in chunks of 256 positions.
//
// A page holds 16 positions of one layer and one key-value head, as f16:
//   K page [head_dim][16]: lanes run over positions, so 16 scores grow in one register
//   V page [16][head_dim]: lanes run over head_dim
// The positions are cut into chunks at absolute multiples of 256, never where a batch or a prefill chunk happens to end;
// each chunk has its own softmax (AttendChunk), the chunks are put together in order (MergeChunks). So a query's bits
// depend on the query, the keys and the values it sees, and on nothing else: not on the other queries of a call, not on
// what the slots behind its last position hold.
//
// Exactness, per query and chunk:
//   score_t = fma(q[d], K[d][t], score_t), d in order, from +0
//   max     = the largest visible score (a NaN score is never the largest), −0 written as +0
//   p_t     = exp(score_t − max)     (exp.h)
//   sum     = 16 strided partial sums of p (partial i takes the positions t with t mod 16 = i, in order), folded by the
//             tree of reduce.h
//   out_d   = fma(p_t, V[t][d], out_d), visible positions in order, from +0; not divided by the sum
// A NaN or an infinite score gives NaN results, never a hang.
//
// Thread safety: pure functions; threads write disjoint results. No allocation.
#pragma once

#include <cstdint>

namespace tercet::kernels {

constexpr int64_t kPageTokens = 16;
constexpr int64_t kChunkTokens = 256;

// Queries against one chunk of one key-value head. Queries which share keys (the heads of a group, neighbouring
// positions) belong in one call: the keys are loaded and widened once for several queries.
struct AttentionChunk {
  const float* q;        // Query i at q + i·q_stride, head_dim numbers, already scaled (1/sqrt(head_dim) or the like).
  int64_t queries;       // Any number.
  int64_t q_stride;
  const int32_t* query_begin;  // [queries] First visible position, absolute (0, or the start of the sliding window).
  const int32_t* query_end;    // [queries] One past the last visible position, absolute; first_position + tokens at most
                               // counts in this chunk.
  const uint16_t* const* k_pages;  // [⌈tokens / 16⌉] The pages of this chunk, in order.
  const uint16_t* const* v_pages;
  int64_t first_position;  // Of the chunk; a multiple of kChunkTokens.
  int64_t tokens;          // Positions of the chunk which are stored, 1 … 256.
  int64_t head_dim;        // A multiple of 16, at most kMaxHeadDim.
  float* max;              // [queries]
  float* sum;              // [queries]
  float* out;              // Query i at out + i·out_stride, head_dim numbers.
  int64_t out_stride;
};
constexpr int64_t kMaxHeadDim = 512;

// Fills max, sum and out. A query that sees no position of the chunk gets max = −inf, sum = 0, out = 0.
void AttendChunk(const AttentionChunk& chunk);

// One query's result from its chunks, in order: with M = max over chunks and w_c = exp(max_c − M),
//   total = fma(sum_c, w_c, total);  result_d = fma(out_c[d], w_c, result_d), chunks in order, from +0;
//   result = result · (1 / total).
// max[chunks], sum[chunks], out[chunks] → head_dim numbers each, result[head_dim]. Chunks with max = −inf and sum = 0 are
// passed over; if there is no other, the result is 0.
void MergeChunks(int64_t chunks, const float* max, const float* sum, const float* const* out, int64_t head_dim,
                 float* result);

// Writes the key and the value of one position to slot 0 … 15 of its pages, as f16 rounded to nearest even (magnitudes
// from 65520 on become infinite).
void StoreKv(const float* k, const float* v, int64_t head_dim, int64_t slot, uint16_t* k_page, uint16_t* v_page);

}  // namespace tercet::kernels
