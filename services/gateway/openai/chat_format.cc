// The shape of a chat completion.
#include <absl/strings/str_cat.h>

#include "services/gateway/json_text.h"
#include "services/gateway/openai/answer_format.h"
#include "services/gateway/openai/logprobs.h"

namespace tercet::gateway {
namespace {

void AppendLogprobsMember(std::string* out, const std::vector<TokenRecord>& tokens, const Vocabulary& vocabulary,
                          const AnswerFormat::Options& options) {
  out->append(",\"logprobs\":");
  if (options.logprobs) {
    AppendChatLogprobs(out, tokens, vocabulary, options.top);
  } else {
    out->append("null");
  }
}

class Implementation final : public AnswerFormat {
 public:
  std::string_view id_prefix() const override { return "chatcmpl-"; }
  std::string_view whole_object() const override { return "chat.completion"; }
  std::string_view chunk_object() const override { return "chat.completion.chunk"; }

  bool AppendOpening(std::string* out, int index) const override {
    absl::StrAppend(out, "{\"index\":", index,
                    ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}");
    return true;
  }

  void AppendDelta(std::string* out, int index, const Delta& delta, const Vocabulary& vocabulary,
                   const Options& options) const override {
    absl::StrAppend(out, "{\"index\":", index, ",\"delta\":{\"content\":");
    AppendJsonString(out, delta.text);
    out->push_back('}');
    AppendLogprobsMember(out, delta.tokens, vocabulary, options);
    out->append(",\"finish_reason\":null}");
  }

  void AppendEnd(std::string* out, int index, Finish finish, const Options&) const override {
    absl::StrAppend(out, "{\"index\":", index, ",\"delta\":{},\"logprobs\":null,\"finish_reason\":\"",
                    std::string(FinishName(finish)), "\"}");
  }

  void AppendChoice(std::string* out, int index, const Choice& choice, const std::vector<uint32_t>&,
                    const Vocabulary& vocabulary, const Options& options) const override {
    absl::StrAppend(out, "{\"index\":", index, ",\"message\":{\"role\":\"assistant\",\"content\":");
    AppendJsonString(out, choice.text);
    out->append(",\"refusal\":null}");
    AppendLogprobsMember(out, choice.tokens, vocabulary, options);
    absl::StrAppend(out, ",\"finish_reason\":\"", std::string(FinishName(choice.finish)), "\"}");
  }

  void AppendMembers(std::string* out, const Choice& first_choice, const std::vector<uint32_t>& prompt,
                     const Vocabulary& vocabulary, const Options& options) const override {
    if (!options.prompt_logprobs) return;
    out->append(",\"prompt_logprobs\":");
    AppendPromptLogprobs(out, prompt, first_choice.prompt_logprobs, vocabulary, options.prompt_top);
  }
};

}  // namespace

const AnswerFormat& ChatFormat() {
  static const Implementation format;
  return format;
}

std::string_view FinishName(Finish finish) {
  switch (finish) {
    case Finish::kStop:
      return "stop";
    case Finish::kLength:
      return "length";
  }
  return "length";
}

}  // namespace tercet::gateway
