// What the executor tells its owner: the outcome of one or more steps, gathered.
//
// Thread safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "services/executor/sampling/logprobs.h"

namespace tercet::v1 {
class StepResults;
}

namespace tercet::executor {

enum class FinishReason { kStop, kLength, kContext };

// What happened to one sequence in these steps.
struct RowResult {
  uint64_t handle = 0;
  // In the sequence's first result only.
  std::optional<uint32_t> cached_tokens;
  uint32_t computed_tokens = 0;
  // Index of token_ids[0] among the generated tokens of the request.
  uint32_t first_index = 0;
  std::vector<uint32_t> token_ids;
  // One a token, if asked for.
  std::vector<PositionLogprobs> logprobs;
  // Index of prompt_logprobs[0] among the prompt's tokens.
  uint32_t prompt_first_index = 0;
  std::vector<PositionLogprobs> prompt_logprobs;
  std::optional<FinishReason> finish;
  // Not OK: the sequence has ended by this error.
  absl::Status error;
  bool out_of_pages = false;
  uint32_t drafted_tokens = 0;
  uint32_t accepted_tokens = 0;
  uint32_t pages = 0;
};

struct StepStatistics {
  uint32_t rows = 0;
  uint32_t prefill_rows = 0;
  // Microseconds.
  uint32_t forward_us = 0;
  uint32_t sample_us = 0;
};

struct StepResults {
  uint64_t epoch = 0;
  uint64_t plan_id = 0;
  std::vector<RowResult> rows;
  std::vector<StepStatistics> steps;
  uint32_t free_pages = 0;
  uint32_t cached_pages = 0;
  bool idle = false;
};

// Appends `later` to `earlier`: both of the same plan, in the order in which they came.
void Merge(StepResults& earlier, StepResults&& later);

// About how many bytes the message takes on the wire and in memory; an upper estimate.
size_t ApproximateBytes(const StepResults& results);

// The same as a message of the protocol.
void ToMessage(const StepResults& results, v1::StepResults* message);

}  // namespace tercet::executor
