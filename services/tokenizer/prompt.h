// From chat messages to the ids of a prompt.
//
// The template's own control tokens become those tokens; what a user wrote never does, even if it spells one: before the
// template runs, each such spelling in the messages is marked with a character that no message holds, and where the marks come
// out again the encoder takes the spelling as plain text. Immutable; thread-safe.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/template/chat_template.h"
#include "common/text/tokenizer.h"

namespace tercet::tokenizer {

struct Prompt {
  std::string text;
  std::vector<uint32_t> ids;
};

class PromptRenderer {
 public:
  // INVALID_ARGUMENT: the vocabulary's chat template does not compile (the message has row and column).
  static absl::StatusOr<std::unique_ptr<PromptRenderer>> Create(const text::Tokenizer& tokenizer);

  bool has_template() const { return template_ != nullptr; }

  // `messages`, `tools` (or null) and further variables as JSON. FAILED_PRECONDITION: the model has no chat template;
  // INVALID_ARGUMENT: messages of the wrong form, or refused by the template.
  absl::StatusOr<Prompt> Render(nlohmann::ordered_json messages, nlohmann::ordered_json tools, bool add_generation_prompt,
                                const nlohmann::ordered_json& variables) const;

 private:
  explicit PromptRenderer(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  const text::Tokenizer& tokenizer_;
  std::unique_ptr<chat::ChatTemplate> template_;
};

}  // namespace tercet::tokenizer
