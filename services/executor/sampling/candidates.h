// Which tokens may be drawn: temperature, then top-k, then top-p, then min-p.
//
// The order is that of the common stacks (temperature, top-k, top-p, min-p):
//   1. The distribution is softmax(logits / temperature).
//   2. top_k keeps the k most probable tokens; what follows sees their probabilities renormalized.
//   3. top_p keeps the most probable tokens up to and including the one with which their sum reaches top_p.
//   4. min_p keeps tokens with at least min_p times the probability of the most probable one.
// Tokens of equal probability are ordered by id, lowest first, so each filter keeps a prefix of one fixed order and the
// result is never empty. A logit of -inf is never kept.
//
// Cost: none of the filters sorts the vocabulary; they select by threshold or take the best 64, then 1024 tokens, and
// go to the whole vocabulary only when the nucleus is larger than that.
//
// Thread safety: none; one object a worker. It owns scratch memory for one vocabulary and allocates nothing later.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/candidates.h"
#include "services/executor/sampling/parameters.h"

namespace tercet::executor {

// Whether any filter can drop a token.
bool HasFilters(const SamplingParameters& parameters, int64_t vocabulary);

class CandidateFilter {
 public:
  explicit CandidateFilter(int64_t vocabulary);

  // `logits`: [vocabulary], no NaN, at least one finite; `max_logit` is their largest, finite value. temperature > 0.
  // The kept candidates, best first (in order of id when min_p is the only filter); valid until the next call.
  std::span<const kernels::Candidate> Keep(std::span<const float> logits, float max_logit,
                                           const SamplingParameters& parameters);

 private:
  // The `k` best logits, best first, into candidates_; returns how many (fewer when fewer are finite).
  int64_t SelectBest(std::span<const float> logits, int64_t k);

  // Σ exp((logit - max) / temperature) over the vocabulary.
  double Mass(std::span<const float> logits, float max_logit, double inverse_temperature);

  std::vector<kernels::Candidate> candidates_;
  std::vector<float> scaled_;
};

}  // namespace tercet::executor
