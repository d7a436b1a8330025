#include "services/gateway/openai/parameters.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

namespace tercet::gateway {
namespace {

constexpr int64_t kMaxId = 0xFFFFFFFF;

bool IsZero(const Json& value) { return value.is_number() && value.get<double>() == 0; }
bool IsOne(const Json& value) { return value.is_number() && value.get<double>() == 1; }
bool IsEmpty(const Json& value) { return (value.is_object() || value.is_array()) && value.empty(); }
bool IsTrue(const Json& value) { return value.is_boolean() && value.get<bool>(); }
bool IsFalse(const Json& value) { return value.is_boolean() && !value.get<bool>(); }
bool Never(const Json&) { return false; }
bool IsTextFormat(const Json& value) {
  return value.is_object() && value.size() == 1 && value.contains("type") && value["type"] == "text";
}
bool IsTextModality(const Json& value) { return value.is_array() && value.size() == 1 && value[0] == "text"; }
bool IsUsualTier(const Json& value) { return value == "auto" || value == "default"; }
bool AsksForNoTool(const Json& value) { return value == "none" || value == "auto"; }

void TakeSampling(Fields& fields, GenerationParameters* out) {
  out->sampling.set_temperature(static_cast<float>(fields.Number("temperature", 0, 100).value_or(1.0)));
  if (auto top_p = fields.Number("top_p", 0, 1)) {
    if (*top_p == 0) {
      fields.Fault("top_p", "must be greater than 0; for the most probable token alone set temperature to 0");
    }
    out->sampling.set_top_p(static_cast<float>(*top_p));
  }
  // -1 is how vLLM writes "off".
  out->sampling.set_top_k(static_cast<uint32_t>(std::max<int64_t>(0, fields.Integer("top_k", -1, INT32_MAX).value_or(0))));
  out->sampling.set_min_p(static_cast<float>(fields.Number("min_p", 0, 1).value_or(0)));
  // Any 64-bit number, signed or not.
  if (const Json* seed = fields.Any("seed")) {
    if (seed->is_number_unsigned()) {
      out->seed = seed->get<uint64_t>();
    } else if (auto number = fields.Integer("seed", INT64_MIN, INT64_MAX)) {
      out->seed = static_cast<uint64_t>(*number);
    }
  }
}

void TakeStops(Fields& fields, GenerationParameters* out) {
  auto add = [&](const std::string& name, const Json& value) {
    if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
      return fields.Fault(name, absl::StrCat("must be a string with at least one character, not ", DescribeJson(value)));
    }
    if (value.get_ref<const std::string&>().size() > kMaxStopBytes) {
      return fields.Fault(name, absl::StrCat("must not be longer than ", kMaxStopBytes, " bytes"));
    }
    out->stops.push_back(value.get<std::string>());
  };
  const Json* stop = fields.Any("stop");
  if (stop == nullptr) return;
  if (!stop->is_array()) return add("stop", *stop);
  if (stop->size() > kMaxStops) {
    return fields.Fault("stop", absl::StrCat("must not list more than ", kMaxStops, " strings"));
  }
  for (size_t i = 0; i < stop->size(); ++i) add(absl::StrCat("stop[", i, "]"), (*stop)[i]);
}

void TakeStopIds(Fields& fields, GenerationParameters* out) {
  const Json* ids = fields.Any("stop_token_ids");
  if (ids == nullptr) return;
  if (!ids->is_array() || ids->size() > 64) {
    return fields.Fault("stop_token_ids", "must be an array of at most 64 token ids");
  }
  for (size_t i = 0; i < ids->size(); ++i) {
    const Json& id = (*ids)[i];
    if (!id.is_number_unsigned() || id.get<uint64_t>() > kMaxId) {
      return fields.Fault(absl::StrCat("stop_token_ids[", i, "]"), absl::StrCat("must be a token id, not ", DescribeJson(id)));
    }
    out->stop_token_ids.push_back(id.get<uint32_t>());
  }
}

void TakeStreaming(Fields& fields, GenerationParameters* out) {
  out->stream = fields.Bool("stream").value_or(false);
  const Json* options = fields.Object("stream_options");
  if (options == nullptr) return;
  if (!out->stream) return fields.Fault("stream_options", "is only allowed together with stream: true");
  Fields inner(*options, "stream_options");
  out->include_usage = inner.Bool("include_usage").value_or(false);
  inner.Unsupported("include_obfuscation", IsFalse);
  if (absl::Status status = inner.Finish(); !status.ok()) fields.Fault(status);
}

void RefuseTheRest(Fields& fields) {
  fields.Unsupported("frequency_penalty", IsZero);
  fields.Unsupported("presence_penalty", IsZero);
  fields.Unsupported("repetition_penalty", IsOne);
  fields.Unsupported("logit_bias", IsEmpty);
  fields.Unsupported("min_tokens", IsZero);
  fields.Unsupported("skip_special_tokens", IsTrue);
  fields.Unsupported("response_format", IsTextFormat);
  fields.Unsupported("tools", IsEmpty);
  fields.Unsupported("functions", IsEmpty);
  fields.Unsupported("tool_choice", AsksForNoTool);
  fields.Unsupported("function_call", AsksForNoTool);
  fields.Unsupported("modalities", IsTextModality);
  fields.Unsupported("service_tier", IsUsualTier);
  fields.Unsupported("store", IsFalse);
  for (const char* name : {"audio", "prediction", "reasoning_effort", "verbosity", "web_search_options", "guided_json",
                           "guided_regex", "guided_choice", "guided_grammar", "structured_outputs",
                           "truncate_prompt_tokens", "chat_template", "chat_template_kwargs"}) {
    fields.Unsupported(name, Never);
  }
  // Labels, and a promise about tool calls which there are none of.
  fields.Bool("parallel_tool_calls");
  fields.String("user", 1024);
  fields.String("safety_identifier", 1024);
  fields.String("prompt_cache_key", 1024);
  if (const Json* metadata = fields.Object("metadata")) {
    for (const auto& [key, value] : metadata->items()) {
      if (!value.is_string()) fields.Fault("metadata", "must be an object with strings as values");
    }
  }
}

}  // namespace

GenerationParameters TakeGenerationParameters(Fields& fields) {
  GenerationParameters out;
  out.model = fields.String("model", 1024);
  TakeSampling(fields, &out);
  out.n = static_cast<int>(fields.Integer("n", 1, kMaxChoices).value_or(1));
  TakeStops(fields, &out);
  TakeStopIds(fields, &out);
  out.include_stop = fields.Bool("include_stop_str_in_output").value_or(false);
  out.ignore_eos = fields.Bool("ignore_eos").value_or(false);
  if (auto tokens = fields.Integer("max_tokens", 0, INT32_MAX)) out.max_new_tokens = static_cast<uint32_t>(*tokens);
  TakeStreaming(fields, &out);
  if (auto count = fields.Integer("prompt_logprobs", 0, kMaxAlternatives)) {
    out.prompt_logprobs = static_cast<int>(*count);
    if (out.stream) fields.Fault("prompt_logprobs", "is not available together with stream: true");
  }
  out.priority = static_cast<int32_t>(fields.Integer("priority", -100, 100).value_or(0));
  out.cache_salt = fields.String("cache_salt", 256).value_or("");
  RefuseTheRest(fields);
  return out;
}

uint64_t SeedOfChoice(uint64_t seed, int index) {
  if (index == 0) return seed;
  // SplitMix64's finalizer over (seed, index).
  uint64_t z = seed + 0x9E3779B97F4A7C15u * static_cast<uint64_t>(index);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace tercet::gateway
