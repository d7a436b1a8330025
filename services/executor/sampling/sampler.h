// Logits in, token out.
//
// The token is a function of (logits, parameters, position). Owns scratch memory for one vocabulary; the step path
// allocates nothing. Thread safety: none; one Sampler a worker.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/executor/sampling/candidates.h"
#include "services/executor/sampling/parameters.h"

namespace tercet::executor {

class Sampler {
 public:
  explicit Sampler(int64_t vocabulary) : filter_(vocabulary) {}

  // `logits`: [vocabulary]. `position`: the index that the token gets in its sequence, prompt included; keys the noise.
  // Greedy (temperature 0) is the largest logit, the lowest id of equal ones.
  // INTERNAL: a logit is NaN or +inf, or none is finite; the message names the position and the token.
  absl::StatusOr<uint32_t> Sample(std::span<const float> logits, const SamplingParameters& parameters,
                                  uint64_t position);

 private:
  CandidateFilter filter_;
};

// OK, or INTERNAL with the position and the first token whose logit is no usable number.
absl::Status CheckLogits(std::span<const float> logits, uint64_t position);

}  // namespace tercet::executor
