// The body of POST /v1/completions. Pure.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "services/gateway/openai/parameters.h"

namespace tercet::gateway {

// Text to be encoded, or ids as they are.
using Prompt = std::variant<std::string, std::vector<uint32_t>>;

inline constexpr size_t kMaxSequences = 1024;

struct CompletionRequest {
  GenerationParameters parameters;
  // At least one; prompts × n is at most kMaxSequences.
  std::vector<Prompt> prompts;
  bool echo = false;
  // Put the vocabulary's special tokens around a text (a BOS, say).
  bool add_special = true;
  // Recognise control tokens written out in a text.
  bool parse_special = false;

  // "prompt" or "prompt[3]": how an error names a prompt.
  std::string PathOfPrompt(size_t index) const;
};

// INVALID_ARGUMENT that names the field.
absl::StatusOr<CompletionRequest> ParseCompletionRequest(std::string_view body);

}  // namespace tercet::gateway
