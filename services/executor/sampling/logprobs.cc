#include "services/executor/sampling/logprobs.h"

#include <algorithm>
#include <array>

#include "kernels/candidates.h"
#include "kernels/reduce.h"

namespace tercet::executor {

PositionLogprobs ComputeLogprobs(std::span<const float> logits, uint32_t id, uint32_t top) {
  const int64_t n = static_cast<int64_t>(logits.size());
  const float normalizer = kernels::LogSumExp(logits.data(), n);
  // Rounding may push a probability above 1 by an ulp.
  const auto logprob = [&](float logit) { return std::min(logit - normalizer, 0.0f); };
  PositionLogprobs result{.logprob = logprob(logits[id])};
  if (top > 0) {
    std::array<kernels::Candidate, kernels::TopKRoom(kMaxTopLogprobs)> best;
    const int64_t count = kernels::TopK(logits.data(), n, std::min<int64_t>({top, kMaxTopLogprobs, n}), best.data());
    result.top.reserve(count);
    for (int64_t i = 0; i < count; ++i) {
      result.top.push_back({.id = static_cast<uint32_t>(best[i].id), .logprob = logprob(best[i].logit)});
    }
  }
  return result;
}

}  // namespace tercet::executor
