#include "services/gateway/openai/logprobs.h"

#include <absl/container/flat_hash_set.h>
#include <absl/strings/str_cat.h>

#include <algorithm>

#include "common/text/utf8.h"
#include "services/gateway/json_text.h"

namespace tercet::gateway {
namespace {

std::string TextOf(uint32_t id, const Vocabulary& vocabulary) {
  if (!vocabulary.Contains(id)) return "";
  return text::ReplaceInvalid(vocabulary.Piece(id));
}

void AppendBytes(std::string* out, std::string_view bytes) {
  out->push_back('[');
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out->push_back(',');
    absl::StrAppend(out, static_cast<unsigned>(static_cast<unsigned char>(bytes[i])));
  }
  out->push_back(']');
}

void AppendTokenHead(std::string* out, std::string_view text, float logprob, std::string_view bytes) {
  out->append("{\"token\":");
  AppendJsonString(out, text);
  out->append(",\"logprob\":");
  AppendJsonFloat(out, logprob);
  out->append(",\"bytes\":");
  AppendBytes(out, bytes);
}

template <typename List, typename Append>
void AppendList(std::string* out, const List& list, Append append) {
  out->push_back('[');
  bool first = true;
  for (const auto& element : list) {
    if (!first) out->push_back(',');
    first = false;
    append(element);
  }
  out->push_back(']');
}

size_t Wanted(const Logprobs& logprobs, int top) { return std::min<size_t>(logprobs.top.size(), top); }

// {"text": logprob, …}. Two ids may look alike as text; the more probable one is shown.
void AppendTopObject(std::string* out, const TokenRecord& token, const Vocabulary& vocabulary, int top) {
  if (!token.logprobs.has_value()) {
    out->append("null");
    return;
  }
  absl::flat_hash_set<std::string> shown;
  out->push_back('{');
  auto add = [&](std::string text, float logprob) {
    auto [place, fresh] = shown.insert(std::move(text));
    if (!fresh) return;
    if (shown.size() > 1) out->push_back(',');
    AppendJsonString(out, *place);
    out->push_back(':');
    AppendJsonFloat(out, logprob);
  };
  bool chosen_shown = false;
  for (size_t i = 0; i < Wanted(*token.logprobs, top); ++i) {
    const Alternative& alternative = token.logprobs->top[i];
    bool chosen = alternative.id == token.id;
    chosen_shown = chosen_shown || chosen;
    add(chosen ? token.text : TextOf(alternative.id, vocabulary), alternative.logprob);
  }
  if (!chosen_shown) add(token.text, token.logprobs->logprob);
  out->push_back('}');
}

}  // namespace

void AppendChatLogprobs(std::string* out, const std::vector<TokenRecord>& tokens, const Vocabulary& vocabulary, int top) {
  out->append("{\"content\":");
  AppendList(out, tokens, [&](const TokenRecord& token) {
    static const Logprobs kNone;
    const Logprobs& logprobs = token.logprobs.has_value() ? *token.logprobs : kNone;
    AppendTokenHead(out, token.text, logprobs.logprob, token.bytes);
    out->append(",\"top_logprobs\":[");
    for (size_t i = 0; i < Wanted(logprobs, top); ++i) {
      if (i > 0) out->push_back(',');
      const Alternative& alternative = logprobs.top[i];
      bool chosen = alternative.id == token.id;
      std::string_view bytes = vocabulary.Contains(alternative.id) ? vocabulary.Piece(alternative.id) : std::string_view();
      AppendTokenHead(out, chosen ? token.text : TextOf(alternative.id, vocabulary), alternative.logprob,
                      chosen ? token.bytes : bytes);
      out->push_back('}');
    }
    out->append("]}");
  });
  out->append(",\"refusal\":null}");
}

void AppendCompletionLogprobs(std::string* out, const std::vector<TokenRecord>& tokens, const Vocabulary& vocabulary,
                              int top) {
  out->append("{\"tokens\":");
  AppendList(out, tokens, [&](const TokenRecord& token) { AppendJsonString(out, token.text); });
  out->append(",\"token_logprobs\":");
  AppendList(out, tokens, [&](const TokenRecord& token) {
    if (token.logprobs.has_value()) {
      AppendJsonFloat(out, token.logprobs->logprob);
    } else {
      out->append("null");
    }
  });
  out->append(",\"top_logprobs\":");
  AppendList(out, tokens, [&](const TokenRecord& token) { AppendTopObject(out, token, vocabulary, top); });
  out->append(",\"text_offset\":");
  AppendList(out, tokens, [&](const TokenRecord& token) { absl::StrAppend(out, token.offset); });
  out->push_back('}');
}

void AppendPromptLogprobs(std::string* out, const std::vector<uint32_t>& prompt, const std::vector<Logprobs>& logprobs,
                          const Vocabulary& vocabulary, int top) {
  out->append("[null");
  for (size_t i = 0; i < logprobs.size() && i + 1 < prompt.size(); ++i) {
    bool first = true;
    auto add = [&](uint32_t id, float logprob, const std::string& rank) {
      absl::StrAppend(out, first ? "" : ",", "\"", id, "\":{\"logprob\":");
      first = false;
      AppendJsonFloat(out, logprob);
      absl::StrAppend(out, ",\"rank\":", rank, ",\"decoded_token\":");
      AppendJsonString(out, TextOf(id, vocabulary));
      out->push_back('}');
    };
    out->append(",{");
    uint32_t actual = prompt[i + 1];
    bool actual_shown = false;
    for (size_t k = 0; k < Wanted(logprobs[i], top); ++k) {
      const Alternative& alternative = logprobs[i].top[k];
      actual_shown = actual_shown || alternative.id == actual;
      add(alternative.id, alternative.logprob, absl::StrCat(k + 1));
    }
    if (!actual_shown) add(actual, logprobs[i].logprob, "null");
    out->push_back('}');
  }
  out->push_back(']');
}

}  // namespace tercet::gateway
