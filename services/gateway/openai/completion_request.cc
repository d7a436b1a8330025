#include "services/gateway/openai/completion_request.h"

#include <absl/strings/str_cat.h>

#include "services/gateway/http/api_error.h"

namespace tercet::gateway {
namespace {

// OpenAI's default for this endpoint.
constexpr uint32_t kDefaultNewTokens = 16;

bool IsId(const Json& value) { return value.is_number_unsigned() && value.get<uint64_t>() <= 0xFFFFFFFFu; }

// An array of ids. The array is known not to be empty.
void TakeIds(Fields& fields, const std::string& name, const Json& array, std::vector<Prompt>* prompts) {
  std::vector<uint32_t> ids;
  ids.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    if (!IsId(array[i])) {
      return fields.Fault(absl::StrCat(name, "[", i, "]"), absl::StrCat("must be a token id, not ", DescribeJson(array[i])));
    }
    ids.push_back(array[i].get<uint32_t>());
  }
  prompts->emplace_back(std::move(ids));
}

void TakePrompts(Fields& fields, std::vector<Prompt>* prompts) {
  const Json* prompt = fields.Any("prompt");
  if (prompt == nullptr) return fields.Fault("prompt", "is required");
  if (prompt->is_string()) {
    prompts->emplace_back(prompt->get<std::string>());
    return;
  }
  if (!prompt->is_array()) {
    return fields.Fault("prompt", absl::StrCat("must be a string, an array of strings, an array of token ids, or an array of "
                                               "such arrays, not ",
                                               DescribeJson(*prompt)));
  }
  if (prompt->empty()) return fields.Fault("prompt", "must not be empty");
  if (prompt->front().is_number()) return TakeIds(fields, "prompt", *prompt, prompts);
  if (prompt->size() > kMaxSequences) {
    return fields.Fault("prompt", absl::StrCat("must not have more than ", kMaxSequences, " prompts; it has ", prompt->size()));
  }
  bool texts = prompt->front().is_string();
  for (size_t i = 0; i < prompt->size() && fields.ok(); ++i) {
    const Json& element = (*prompt)[i];
    std::string name = absl::StrCat("prompt[", i, "]");
    if (texts ? !element.is_string() : !element.is_array()) {
      fields.Fault(name, absl::StrCat("must be ", texts ? "a string like the first prompt" : "an array of token ids", ", not ",
                                      DescribeJson(element)));
    } else if (texts) {
      prompts->emplace_back(element.get<std::string>());
    } else if (element.empty()) {
      fields.Fault(name, "must not be empty");
    } else {
      TakeIds(fields, name, element, prompts);
    }
  }
}

}  // namespace

std::string CompletionRequest::PathOfPrompt(size_t index) const {
  return prompts.size() == 1 ? "prompt" : absl::StrCat("prompt[", index, "]");
}

absl::StatusOr<CompletionRequest> ParseCompletionRequest(std::string_view body) {
  absl::StatusOr<Json> json = ParseJsonObject(body);
  if (!json.ok()) return json.status();
  Fields fields(*json);
  CompletionRequest request;
  TakePrompts(fields, &request.prompts);
  request.parameters = TakeGenerationParameters(fields);
  GenerationParameters& parameters = request.parameters;
  if (!parameters.max_new_tokens.has_value()) parameters.max_new_tokens = kDefaultNewTokens;

  if (auto logprobs = fields.Integer("logprobs", 0, kMaxAlternatives)) parameters.logprobs = static_cast<int>(*logprobs);
  request.echo = fields.Bool("echo").value_or(false);
  request.add_special = fields.Bool("add_special_tokens").value_or(true);
  request.parse_special = fields.Bool("parse_special").value_or(false);
  fields.Unsupported("suffix", [](const Json& value) { return value == ""; });
  fields.Unsupported("best_of", [&](const Json& value) { return value == parameters.n; });
  if (fields.ok() && request.prompts.size() * parameters.n > kMaxSequences) {
    fields.Fault("n", absl::StrCat("asks for more than ", kMaxSequences, " sequences together with ",
                                   request.prompts.size(), " prompts"));
  }
  if (absl::Status status = fields.Finish(); !status.ok()) return status;
  return request;
}

}  // namespace tercet::gateway
