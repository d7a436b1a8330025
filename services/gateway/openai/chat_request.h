// The body of POST /v1/chat/completions. Pure.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "services/gateway/openai/parameters.h"

namespace tercet::gateway {

struct ChatRequest {
  GenerationParameters parameters;
  // A JSON array for the tokenizer: only known members, none null, role "developer" written as "system".
  std::string messages_json;
  bool add_generation_prompt = true;
};

// INVALID_ARGUMENT that names the field.
absl::StatusOr<ChatRequest> ParseChatRequest(std::string_view body);

}  // namespace tercet::gateway
