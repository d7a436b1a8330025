// Log-probabilities in the shapes of OpenAI's two endpoints, and of vLLM's prompt_logprobs.
//
// The text of an alternative is its piece alone, with U+FFFD for what is not UTF-8 by itself; a control token shows its
// name. The chosen token appears among the alternatives under the same text as in the list of tokens. Numbers are the
// shortest decimals that read back as the same float. Pure.
#pragma once

#include <string>
#include <vector>

#include "services/gateway/generation/text_assembler.h"
#include "services/gateway/vocabulary.h"

namespace tercet::gateway {

// {"content": [{"token", "logprob", "bytes", "top_logprobs": […]}, …], "refusal": null}
void AppendChatLogprobs(std::string* out, const std::vector<TokenRecord>& tokens, const Vocabulary& vocabulary, int top);

// {"tokens": […], "token_logprobs": […], "top_logprobs": […], "text_offset": […]}. An object of top_logprobs has the `top`
// most probable tokens and the chosen one.
void AppendCompletionLogprobs(std::string* out, const std::vector<TokenRecord>& tokens, const Vocabulary& vocabulary, int top);

// [null, {"<id>": {"logprob", "rank", "decoded_token"}, …}, …], one entry a prompt token. The rank of a token that is not
// among the alternatives is not known and null.
void AppendPromptLogprobs(std::string* out, const std::vector<uint32_t>& prompt, const std::vector<Logprobs>& logprobs,
                          const Vocabulary& vocabulary, int top);

}  // namespace tercet::gateway
