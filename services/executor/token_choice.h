// The tokens of one step, chosen from its rows of logits by all workers.
//
// A choice depends on its own row of logits, parameters and position only, so the split over workers does not show.
// Thread safety: none; used from the engine's thread between forward passes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "services/executor/forward/worker_team.h"
#include "services/executor/sampling/logprobs.h"
#include "services/executor/sampling/sampler.h"

namespace tercet::executor {

// No token of any vocabulary.
inline constexpr uint32_t kNoToken = 0xffffffff;

struct TokenChoice {
  // Which of the forward pass's rows of logits, and the row itself once it has been computed.
  int32_t logits_row = 0;
  std::span<const float> logits;
  // Null: nothing is drawn, `token` is given (a prompt's own next token, to be scored).
  const SamplingParameters* sampling = nullptr;
  // The index that the token has in its sequence.
  uint64_t position = 0;
  bool score = false;
  uint32_t top = 0;

  // Out; `logprobs` when `score`. After an error the token is kNoToken.
  uint32_t token = kNoToken;
  PositionLogprobs logprobs;
  absl::Status status;
};

class TokenChooser {
 public:
  TokenChooser(int64_t vocabulary, WorkerTeam& team);

  void Choose(std::span<TokenChoice> choices);

 private:
  WorkerTeam& team_;
  // One a worker.
  std::vector<Sampler> samplers_;
};

}  // namespace tercet::executor
