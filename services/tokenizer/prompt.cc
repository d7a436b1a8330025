#include "services/tokenizer/prompt.h"

#include <absl/strings/str_cat.h>

#include <functional>
#include <optional>

namespace tercet::tokenizer {
namespace {

using Json = nlohmann::ordered_json;

// Calls visit with every string value inside `value`.
void ForEachString(Json& value, const std::function<void(std::string&)>& visit) {
  if (value.is_string()) {
    visit(value.get_ref<std::string&>());
  } else if (value.is_structured()) {
    for (auto& child : value) ForEachString(child, visit);
  }
}

// A noncharacter (U+FDD0 … U+FDEF, which no exchanged text should hold) that is nowhere in the messages.
std::optional<std::string> ChooseMark(Json& messages, Json& tools) {
  for (char last = '\x90'; last <= '\xaf'; ++last) {
    std::string mark = {'\xef', '\xb7', last};
    bool used = false;
    auto look = [&](std::string& text) { used = used || text.find(mark) != std::string::npos; };
    ForEachString(messages, look);
    ForEachString(tools, look);
    if (!used) return mark;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PromptRenderer>> PromptRenderer::Create(const text::Tokenizer& tokenizer) {
  auto renderer = std::unique_ptr<PromptRenderer>(new PromptRenderer(tokenizer));
  const std::string& source = tokenizer.vocabulary().chat_template();
  if (source.empty()) return renderer;
  absl::StatusOr<std::unique_ptr<chat::ChatTemplate>> compiled = chat::ChatTemplate::Compile(source);
  if (!compiled.ok()) return compiled.status();
  renderer->template_ = *std::move(compiled);
  return renderer;
}

absl::StatusOr<Prompt> PromptRenderer::Render(Json messages, Json tools, bool add_generation_prompt,
                                              const Json& variables) const {
  if (template_ == nullptr) {
    return absl::FailedPreconditionError(
        "the model file has no chat template; use completions, or a model with tokenizer.chat_template");
  }
  absl::StatusOr<Json> normalised = chat::NormalizeMessages(*template_, std::move(messages));
  if (!normalised.ok()) return normalised.status();

  std::string mark;
  auto needs_mark = [&](std::string& text) {
    if (mark.empty() && !tokenizer_.FindSpecial(text).empty()) mark = "?";
  };
  ForEachString(*normalised, needs_mark);
  ForEachString(tools, needs_mark);
  if (!mark.empty()) {
    std::optional<std::string> chosen = ChooseMark(*normalised, tools);
    if (!chosen.has_value()) return absl::InvalidArgumentError("messages hold every Unicode noncharacter from U+FDD0 to U+FDEF");
    mark = *chosen;
    auto insert_marks = [&](std::string& text) {
      std::vector<size_t> offsets = tokenizer_.FindSpecial(text);
      for (auto offset = offsets.rbegin(); offset != offsets.rend(); ++offset) text.insert(*offset, mark);
    };
    ForEachString(*normalised, insert_marks);
    ForEachString(tools, insert_marks);
  }

  const text::Vocabulary& vocabulary = tokenizer_.vocabulary();
  Json all = variables.is_object() ? variables : Json::object();
  all["messages"] = *std::move(normalised);
  if (!tools.is_null()) all["tools"] = std::move(tools);
  all["add_generation_prompt"] = add_generation_prompt;
  all["bos_token"] = vocabulary.bos().has_value() ? vocabulary.token(*vocabulary.bos()) : "";
  all["eos_token"] = vocabulary.eos().has_value() ? vocabulary.token(*vocabulary.eos()) : "";
  absl::StatusOr<std::string> rendered = template_->Render(all);
  if (!rendered.ok()) return rendered.status();

  Prompt prompt;
  std::vector<size_t> literal_at;
  if (mark.empty()) {
    prompt.text = *std::move(rendered);
  } else {
    for (size_t at = 0; at < rendered->size();) {
      if (rendered->compare(at, mark.size(), mark) == 0) {
        literal_at.push_back(prompt.text.size());
        at += mark.size();
      } else {
        prompt.text += (*rendered)[at++];
      }
    }
  }
  // The template writes BOS where the model wants one; the encoder adds none.
  absl::StatusOr<std::vector<uint32_t>> ids =
      tokenizer_.Encode(prompt.text, {.add_special = false, .parse_special = true, .literal_at = literal_at});
  if (!ids.ok()) return ids.status();
  prompt.ids = *std::move(ids);
  return prompt;
}

}  // namespace tercet::tokenizer
