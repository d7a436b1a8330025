// The shape of a text completion.
#include <absl/strings/str_cat.h>

#include "services/gateway/json_text.h"
#include "services/gateway/openai/answer_format.h"
#include "services/gateway/openai/logprobs.h"

namespace tercet::gateway {
namespace {

void AppendHead(std::string* out, int index, std::string_view text, const std::vector<TokenRecord>& tokens,
                const Vocabulary& vocabulary, const AnswerFormat::Options& options) {
  absl::StrAppend(out, "{\"index\":", index, ",\"text\":");
  AppendJsonString(out, text);
  out->append(",\"logprobs\":");
  if (options.logprobs) {
    AppendCompletionLogprobs(out, tokens, vocabulary, options.top);
  } else {
    out->append("null");
  }
}

class Implementation final : public AnswerFormat {
 public:
  std::string_view id_prefix() const override { return "cmpl-"; }
  std::string_view whole_object() const override { return "text_completion"; }
  std::string_view chunk_object() const override { return "text_completion"; }

  bool AppendOpening(std::string*, int) const override { return false; }

  void AppendDelta(std::string* out, int index, const Delta& delta, const Vocabulary& vocabulary,
                   const Options& options) const override {
    AppendHead(out, index, delta.text, delta.tokens, vocabulary, options);
    out->append(",\"finish_reason\":null}");
  }

  void AppendEnd(std::string* out, int index, Finish finish, const Options&) const override {
    absl::StrAppend(out, "{\"index\":", index, ",\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"",
                    std::string(FinishName(finish)), "\"}");
  }

  void AppendChoice(std::string* out, int index, const Choice& choice, const std::vector<uint32_t>& prompt,
                    const Vocabulary& vocabulary, const Options& options) const override {
    AppendHead(out, index, choice.text, choice.tokens, vocabulary, options);
    absl::StrAppend(out, ",\"finish_reason\":\"", std::string(FinishName(choice.finish)), "\"");
    if (options.prompt_logprobs) {
      out->append(",\"prompt_logprobs\":");
      AppendPromptLogprobs(out, prompt, choice.prompt_logprobs, vocabulary, options.prompt_top);
    }
    out->push_back('}');
  }

  void AppendMembers(std::string*, const Choice&, const std::vector<uint32_t>&, const Vocabulary&,
                     const Options&) const override {}
};

}  // namespace

const AnswerFormat& CompletionFormat() {
  static const Implementation format;
  return format;
}

}  // namespace tercet::gateway
