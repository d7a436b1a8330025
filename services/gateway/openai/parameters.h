// What chat completions and completions have in common: how to generate, when to stop, what to report.
//
// Fail closed: a field that this server does not know, or knows but cannot honour, is refused by name. Fields that only
// label a request, or that ask for what is done anyway, are accepted.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "services/gateway/openai/fields.h"
#include "tercet/v1/types.pb.h"

namespace tercet::gateway {

struct GenerationParameters {
  std::optional<std::string> model;
  v1::SamplingParameters sampling;        // without a seed
  std::optional<uint64_t> seed;           // drawn if the client gave none
  std::optional<uint32_t> max_new_tokens;  // unset: what is left of the context
  std::vector<uint32_t> stop_token_ids;
  std::vector<std::string> stops;
  bool include_stop = false;
  bool ignore_eos = false;
  int n = 1;
  bool stream = false;
  bool include_usage = false;
  std::optional<int> logprobs;         // alternatives a generated token
  std::optional<int> prompt_logprobs;  // alternatives a prompt token
  int32_t priority = 0;
  std::string cache_salt;
};

inline constexpr int kMaxChoices = 16;
inline constexpr int kMaxStops = 16;
inline constexpr size_t kMaxStopBytes = 1024;
inline constexpr int kMaxAlternatives = 20;

// Takes the common fields; faults are recorded in `fields`.
GenerationParameters TakeGenerationParameters(Fields& fields);

// The seed of choice `index` of a request with `seed`: choice 0 is the request with n = 1.
uint64_t SeedOfChoice(uint64_t seed, int index);

}  // namespace tercet::gateway
