// Gumbel-max: the token with the largest logit / temperature + Gumbel noise is a draw from softmax(logits / temperature).
//
// With filters, only the kept candidates take part. Noise belongs to the token, not to the order of evaluation, so any
// split of the vocabulary gives the same winner, and a draft model with the same noise tends to draw the same token.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "kernels/candidates.h"
#include "services/executor/sampling/noise.h"

namespace tercet::executor {

struct Draw {
  double score = -std::numeric_limits<double>::infinity();
  // -1: none.
  int64_t id = -1;
};

// The winner of two; equal scores go to the lower id.
Draw Better(const Draw& a, const Draw& b);

// Draws among tokens [begin, end) of `logits` (no NaN; -inf is never drawn).
// `begin` and `end` are multiples of Noise::kBlock, but for the vocabulary's end.
// Costs one hash and one maximum a block: noise is computed only for the few blocks that could hold the winner.
Draw DrawFromLogits(std::span<const float> logits, int64_t begin, int64_t end, double inverse_temperature,
                    const Noise& noise);

// Draws among candidates.
Draw DrawFromCandidates(std::span<const kernels::Candidate> candidates, double inverse_temperature, const Noise& noise);

}  // namespace tercet::executor
