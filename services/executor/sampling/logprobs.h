// Log-probabilities of the model's own distribution: natural logarithm of softmax(logits), before temperature and filters.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tercet::executor {

struct TokenLogprob {
  uint32_t id = 0;
  float logprob = 0;  // ≤ 0
  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

struct PositionLogprobs {
  float logprob = 0;  // ≤ 0
  // The most probable tokens, best first; equal ones by id.
  std::vector<TokenLogprob> top;
  friend bool operator==(const PositionLogprobs&, const PositionLogprobs&) = default;
};

// Most alternatives a position.
inline constexpr uint32_t kMaxTopLogprobs = 20;

// `logits`: [vocabulary], without NaN. `id` < vocabulary; `top` ≤ kMaxTopLogprobs alternatives (fewer when the vocabulary
// is smaller). The result depends on these logits alone, bit for bit.
PositionLogprobs ComputeLogprobs(std::span<const float> logits, uint32_t id, uint32_t top);

}  // namespace tercet::executor
