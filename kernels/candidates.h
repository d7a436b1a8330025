// The few tokens worth sampling, out of a vocabulary of logits.
//
// NaN and −inf (a masked token) are never candidates. Thread safety: pure functions; no allocation.
#pragma once

#include <cstdint>

namespace tercet::kernels {

struct Candidate {
  int32_t id;
  float logit;
};

// Room TopK needs in `out`: it gathers what beats the k-th best so far, and shrinks to k when the room is full.
constexpr int64_t TopKRoom(int64_t k) { return 2 * k + 64; }

// The k largest of logits[n] (k ≥ 1, n < 2^31), best first, the lower id first among equals, to out[TopKRoom(k)].
// Returns how many there are: k, or less when fewer logits are candidates at all.
int64_t TopK(const float* logits, int64_t n, int64_t k, Candidate* out);

// All candidates with logit ≥ threshold, in order of id, from logits[begin] on, until `room` of them are in `out`.
// Returns how many were written; *next is where to go on (n when done).
int64_t CollectAtLeast(const float* logits, int64_t begin, int64_t n, float threshold, Candidate* out, int64_t room,
                       int64_t* next);

}  // namespace tercet::kernels
