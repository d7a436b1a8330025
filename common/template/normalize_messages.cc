#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "common/template/chat_template.h"
#include "common/template/error.h"
#include "common/template/runtime.h"
#include "common/template/strcat.h"
#include "common/template/tojson.h"

namespace tercet::chat {
namespace {

using Json = nlohmann::ordered_json;

// Lists and mappings that arguments may nest; more than any function's parameters, less than what recursion bears.
constexpr int kMaxArgumentDepth = 100;

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(StrCat(parts...));
}

bool NestsTooDeep(std::string_view json) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < json.size(); ++i) {
    if (quoted) {
      if (json[i] == '\\') ++i;
      if (i < json.size() && json[i] == '"') quoted = false;
    } else if (json[i] == '"') {
      quoted = true;
    } else if (json[i] == '{' || json[i] == '[') {
      if (++depth > kMaxArgumentDepth) return true;
    } else if (json[i] == '}' || json[i] == ']') {
      --depth;
    }
  }
  return false;
}

// json.dumps(value), the way Python's clients write arguments.
absl::StatusOr<std::string> Dump(const Json& value) {
  try {
    Runtime runtime(RenderLimits{}, std::nullopt);
    return ToJson(runtime, runtime.FromJson(value), JsonStyle{});
  } catch (const TemplateError& error) {
    return Invalid(error.message);
  }
}

absl::Status NormalizeArguments(const TemplateTraits& traits, const std::string& place, Json* arguments) {
  if (arguments->is_string()) {
    const auto& text = arguments->get_ref<const std::string&>();
    if (NestsTooDeep(text)) return Invalid(place, ": nested deeper than ", kMaxArgumentDepth, " levels");
    Json parsed = Json::parse(text, nullptr, false);
    if (parsed.is_discarded()) return Invalid(place, ": not valid JSON; expected a string that holds a JSON object");
    if (!parsed.is_object()) {
      return Invalid(place, ": holds a JSON ", parsed.type_name(), "; expected a string that holds a JSON object");
    }
    if (traits.arguments_as_mapping) *arguments = std::move(parsed);
    return absl::OkStatus();
  }
  if (!arguments->is_object()) {
    return Invalid(place, ": is a JSON ", arguments->type_name(), "; expected a string that holds a JSON object");
  }
  if (traits.arguments_as_mapping) return absl::OkStatus();
  auto text = Dump(*arguments);
  if (!text.ok()) return Invalid(place, ": ", std::string(text.status().message()));
  *arguments = *std::move(text);
  return absl::OkStatus();
}

absl::Status NormalizeToolCalls(const TemplateTraits& traits, const std::string& place, Json* calls) {
  if (!calls->is_array()) return Invalid(place, ": expected an array of tool calls, got a JSON ", calls->type_name());
  for (size_t j = 0; j < calls->size(); ++j) {
    Json& call = (*calls)[j];
    const std::string at = StrCat(place, "[", j, "]");
    if (!call.is_object()) return Invalid(at, ": expected an object, got a JSON ", call.type_name());
    const auto function = call.find("function");
    if (function == call.end() || !function->is_object()) return Invalid(at, ".function: expected an object");
    const auto arguments = function->find("arguments");
    if (arguments == function->end()) continue;
    if (auto status = NormalizeArguments(traits, at + ".function.arguments", &*arguments); !status.ok()) return status;
  }
  return absl::OkStatus();
}

bool TakesParts(const TemplateTraits& traits, std::string_view role) {
  if (role == "assistant") return traits.assistant_parts;
  if (role == "system" || role == "developer") return traits.system_parts;
  if (role == "tool" || role == "function") return traits.tool_parts;
  return traits.user_parts;
}

absl::Status NormalizeParts(bool keep, const std::string& place, Json* content) {
  std::string joined;
  for (size_t j = 0; j < content->size(); ++j) {
    const Json& part = (*content)[j];
    const std::string at = StrCat(place, "[", j, "]");
    if (!part.is_object()) return Invalid(at, ": expected an object with type and text, got a JSON ", part.type_name());
    const auto type = part.find("type");
    if (type == part.end() || !type->is_string()) return Invalid(at, ".type: expected a string");
    if (*type != "text") {
      return Invalid(at, ".type: '", type->get_ref<const std::string&>(), "' is not supported; expected 'text'");
    }
    const auto text = part.find("text");
    if (text == part.end() || !text->is_string()) return Invalid(at, ".text: expected a string");
    joined += text->get_ref<const std::string&>();
  }
  if (!keep) *content = std::move(joined);
  return absl::OkStatus();
}

absl::Status NormalizeContent(const TemplateTraits& traits, std::string_view role, bool calls, const std::string& place,
                              Json* message) {
  const bool parts = TakesParts(traits, role);
  Json& content = (*message)["content"];
  if (content.is_null()) {
    if (!(calls && role == "assistant" && traits.null_content)) content = "";
    return absl::OkStatus();
  }
  if (content.is_string()) {
    if (!traits.string_content && parts) {
      content = Json::array({Json{{"type", "text"}, {"text", std::move(content)}}});
    }
    return absl::OkStatus();
  }
  if (!content.is_array()) {
    return Invalid(place, ": expected a string or an array of parts, got a JSON ", content.type_name());
  }
  return NormalizeParts(parts, place, &content);
}

// Clients send back every field of an answer, most of them null: that is the same as leaving them out.
void DropNulls(Json* message) {
  for (auto it = message->begin(); it != message->end();) {
    const bool empty_calls = it.key() == "tool_calls" && it->is_array() && it->empty();
    if ((it->is_null() && it.key() != "content") || empty_calls) {
      it = message->erase(it);
    } else {
      ++it;
    }
  }
}

}  // namespace

absl::StatusOr<Json> NormalizeMessages(const ChatTemplate& chat_template, Json messages) {
  if (!messages.is_array()) return Invalid("messages: expected an array, got a JSON ", messages.type_name());
  for (size_t i = 0; i < messages.size(); ++i) {
    Json& message = messages[i];
    const std::string place = StrCat("messages[", i, "]");
    if (!message.is_object()) return Invalid(place, ": expected an object, got a JSON ", message.type_name());
    const auto role_field = message.find("role");
    if (role_field == message.end() || !role_field->is_string()) return Invalid(place, ".role: expected a string");
    const std::string role = role_field->get<std::string>();
    DropNulls(&message);
    const auto calls = message.find("tool_calls");
    const bool has_calls = calls != message.end();
    if (has_calls) {
      if (auto status = NormalizeToolCalls(chat_template.traits(), place + ".tool_calls", &*calls); !status.ok()) {
        return status;
      }
    }
    if (auto status = NormalizeContent(chat_template.traits(), role, has_calls, place + ".content", &message);
        !status.ok()) {
      return status;
    }
  }
  return messages;
}

}  // namespace tercet::chat
