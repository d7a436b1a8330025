// One streamed answer of a model over OpenAI's HTTP interface: what `run`, `chat` and `bench` have in common.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "services/cli/http_client.h"

namespace tercet::cli {

// Sampling flags of `run` and `chat`; unset: the server's default.
struct SamplingFlags {
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int64_t> top_k;
  std::optional<double> min_p;
  std::optional<int64_t> seed;
  std::optional<int64_t> max_tokens;

  void AddTo(nlohmann::json* request) const;
};

struct AnswerStatistics {
  std::string finish_reason;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t generated_tokens = 0;
  double first_token_ms = 0;  // from sending the request
  double total_ms = 0;
  // Tokens after the first, per second; 0 when there were none.
  double tokens_per_s() const;
  // "TTFT 35 ms, 128 tokens at 180.2 tokens/s, prompt 36 tokens (16 cached), stop".
  std::string ToString() const;
};

// Posts `request` (its stream fields are set here) to `path` ("/v1/chat/completions" or "/v1/completions") and hands on
// text as it comes. Errors are sentences for the user; CANCELLED: interrupted.
absl::StatusOr<AnswerStatistics> StreamAnswer(HttpClient* client, const HttpEndpoint& endpoint, const std::string& path,
                                              nlohmann::json request,
                                              const std::function<void(std::string_view)>& on_text,
                                              Interrupt* interrupt);

// The name of the first model that the server offers.
absl::StatusOr<std::string> ServedModel(HttpClient* client, const HttpEndpoint& endpoint);

}  // namespace tercet::cli
