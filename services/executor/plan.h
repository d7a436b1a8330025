// What the owner asks for, as plain values that have been checked: a Plan that exists is well formed.
//
// Everything that a message says alone is checked here (ranges, ids, duplicates inside the plan); what needs the state of
// the sequences (a handle in use, plan ids that go back) is checked by the engine.
//
// Thread safety: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/executor/sampling/parameters.h"

namespace tercet::v1 {
class Plan;
}

namespace tercet::executor {

struct StopConditions {
  // 0 computes the prompt only.
  uint32_t max_new_tokens = 0;
  std::vector<uint32_t> stop_token_ids;
  bool ignore_eos = false;
};

struct LogprobOptions {
  bool enabled = false;
  uint32_t top = 0;
  bool prompt = false;
};

struct OpenSequence {
  uint64_t handle = 0;
  // Prompt, then what was generated before.
  std::vector<uint32_t> token_ids;
  uint32_t prompt_length = 0;
  SamplingParameters sampling;
  StopConditions stop;
  LogprobOptions logprobs;
  std::string cache_salt;
};

struct PlanRow {
  uint64_t handle = 0;
  uint32_t prefill_tokens = 0;
  std::vector<uint32_t> draft_token_ids;
  // Pages; 0: no limit.
  uint32_t page_limit = 0;
};

struct Plan {
  uint64_t id = 0;
  std::vector<OpenSequence> open;
  std::vector<uint64_t> close;
  std::vector<PlanRow> rows;
  uint32_t free_steps = 0;
};

// What a plan is checked against.
struct PlanLimits {
  uint32_t vocabulary_size = 0;
  uint32_t context_length = 0;
  uint32_t max_rows = 0;
  uint32_t max_sequences = 0;
};

inline constexpr uint32_t kMaxFreeSteps = 4096;
inline constexpr uint32_t kMaxStopTokenIds = 64;
inline constexpr size_t kMaxCacheSaltBytes = 256;

// INVALID_ARGUMENT with one sentence that names the plan, the sequence, the field, its value and its range.
absl::StatusOr<Plan> ParsePlan(const v1::Plan& message, const PlanLimits& limits);

}  // namespace tercet::executor
