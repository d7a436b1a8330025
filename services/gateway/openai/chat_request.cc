#include "services/gateway/openai/chat_request.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>

#include "services/gateway/http/api_error.h"

namespace tercet::gateway {
namespace {

constexpr size_t kMaxMessages = 65536;
constexpr size_t kAnyLength = SIZE_MAX;

absl::Status CheckPart(const Json& part, const std::string& path) {
  if (!part.is_object()) return FieldError(path, absl::StrCat("'", path, "' must be an object, not ", DescribeJson(part)));
  Fields fields(part, path);
  std::optional<std::string> type = fields.String("type", 64);
  if (fields.ok() && type != "text") {
    fields.Fault("type", "must be \"text\": this server reads text only", "unsupported_parameter");
  }
  if (!fields.String("text", kAnyLength).has_value()) fields.Fault("text", "is required");
  return fields.Finish();
}

// Content is a string or an array of text parts; only an assistant that called tools may have none.
void CheckContent(Fields& fields, bool required) {
  const Json* content = fields.Any("content");
  if (content == nullptr) {
    if (required) fields.Fault("content", "is required: a string or an array of text parts");
    return;
  }
  if (content->is_string()) return;
  if (!content->is_array() || content->empty()) {
    return fields.Fault("content", absl::StrCat("must be a string or an array of text parts, not ",
                                                content->is_array() ? "an empty array" : DescribeJson(*content)));
  }
  for (size_t i = 0; i < content->size(); ++i) {
    absl::Status status = CheckPart((*content)[i], fields.PathOf(absl::StrCat("content[", i, "]")));
    if (!status.ok()) return fields.Fault(status);
  }
}

absl::Status CheckToolCall(const Json& call, const std::string& path) {
  if (!call.is_object()) return FieldError(path, absl::StrCat("'", path, "' must be an object, not ", DescribeJson(call)));
  Fields fields(call, path);
  fields.String("id", 256);
  fields.Integer("index", 0, 1024);
  if (auto type = fields.String("type", 64); type.has_value() && *type != "function") {
    fields.Fault("type", "must be \"function\"", "unsupported_parameter");
  }
  const Json* function = fields.Object("function");
  if (function == nullptr) {
    fields.Fault("function", "is required");
    return fields.Finish();
  }
  Fields inner(*function, fields.PathOf("function"));
  if (!inner.String("name", 256).has_value()) inner.Fault("name", "is required");
  if (!inner.String("arguments", kAnyLength).has_value()) inner.Fault("arguments", "is required: JSON in a string");
  if (absl::Status status = inner.Finish(); !status.ok()) return status;
  return fields.Finish();
}

// True when the message has tool calls.
bool CheckToolCalls(Fields& fields) {
  const Json* calls = fields.Any("tool_calls");
  if (calls == nullptr) return false;
  if (!calls->is_array()) {
    fields.Fault("tool_calls", absl::StrCat("must be an array, not ", DescribeJson(*calls)));
    return false;
  }
  for (size_t i = 0; i < calls->size(); ++i) {
    absl::Status status = CheckToolCall((*calls)[i], fields.PathOf(absl::StrCat("tool_calls[", i, "]")));
    if (!status.ok()) {
      fields.Fault(status);
      return false;
    }
  }
  return !calls->empty();
}

absl::Status CheckMessage(const Json& message, const std::string& path) {
  if (!message.is_object()) {
    return FieldError(path, absl::StrCat("'", path, "' must be an object, not ", DescribeJson(message)));
  }
  constexpr std::array kRoles = {"system", "developer", "user", "assistant", "tool"};
  Fields fields(message, path);
  std::string role = fields.String("role", 64).value_or("");
  if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end()) {
    fields.Fault("role", "must be one of system, developer, user, assistant, tool");
  }
  bool assistant = role == "assistant";
  fields.String("name", 256);
  bool called_tools = false;
  if (assistant) {
    called_tools = CheckToolCalls(fields);
    // What clients send back of an answer of ours.
    fields.String("refusal", kAnyLength);
    fields.String("reasoning_content", kAnyLength);
    fields.Unsupported("annotations", [](const Json& value) { return value.is_array() && value.empty(); });
    fields.Unsupported("audio", [](const Json&) { return false; });
    fields.Unsupported("function_call", [](const Json&) { return false; });
  }
  if (role == "tool") fields.String("tool_call_id", 256);
  CheckContent(fields, /*required=*/!called_tools);
  return fields.Finish();
}

// What the template sees of a message that has been checked.
Json ForTemplate(const Json& message) {
  Json out = Json::object();
  for (const auto& [key, value] : message.items()) {
    bool answer_detail = key == "refusal" || key == "annotations";
    if (answer_detail || (value.is_null() && key != "content")) continue;
    out[key] = key == "role" && value == "developer" ? Json("system") : value;
  }
  return out;
}

}  // namespace

absl::StatusOr<ChatRequest> ParseChatRequest(std::string_view body) {
  absl::StatusOr<Json> json = ParseJsonObject(body);
  if (!json.ok()) return json.status();
  Fields fields(*json);
  ChatRequest request;

  const Json* messages = fields.Any("messages");
  if (messages == nullptr) {
    fields.Fault("messages", "is required");
  } else if (!messages->is_array() || messages->empty()) {
    fields.Fault("messages", "must be an array with at least one message");
  } else if (messages->size() > kMaxMessages) {
    fields.Fault("messages", absl::StrCat("must not have more than ", kMaxMessages, " messages"));
  } else {
    Json cleaned = Json::array();
    for (size_t i = 0; i < messages->size() && fields.ok(); ++i) {
      absl::Status status = CheckMessage((*messages)[i], absl::StrCat("messages[", i, "]"));
      if (!status.ok()) fields.Fault(status);
      if (status.ok()) cleaned.push_back(ForTemplate((*messages)[i]));
    }
    if (fields.ok()) request.messages_json = cleaned.dump();
  }

  request.parameters = TakeGenerationParameters(fields);
  if (auto tokens = fields.Integer("max_completion_tokens", 0, INT32_MAX)) {
    if (request.parameters.max_new_tokens.has_value() && *request.parameters.max_new_tokens != *tokens) {
      fields.Fault("max_completion_tokens", "contradicts 'max_tokens'; give one of them");
    }
    request.parameters.max_new_tokens = static_cast<uint32_t>(*tokens);
  }
  bool logprobs = fields.Bool("logprobs").value_or(false);
  std::optional<int64_t> top = fields.Integer("top_logprobs", 0, kMaxAlternatives);
  if (top.has_value() && !logprobs) fields.Fault("top_logprobs", "needs 'logprobs' to be true");
  if (logprobs) request.parameters.logprobs = static_cast<int>(top.value_or(0));
  request.add_generation_prompt = fields.Bool("add_generation_prompt").value_or(true);

  if (absl::Status status = fields.Finish(); !status.ok()) return status;
  return request;
}

}  // namespace tercet::gateway
