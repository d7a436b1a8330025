#include "services/gateway/openai/chat_completions.h"

#include <utility>

#include "services/gateway/http/reply.h"
#include "services/gateway/openai/answer.h"
#include "services/gateway/openai/chat_request.h"

namespace tercet::gateway {

void HandleChatCompletions(std::shared_ptr<Backends> backends, std::shared_ptr<Exchange> exchange) {
  absl::StatusOr<ChatRequest> request = ParseChatRequest(exchange->request().body);
  if (!request.ok()) return ReplyError(*exchange, request.status());

  AnswerSpec spec;
  spec.format = &ChatFormat();
  spec.parameters = std::move(request->parameters);
  spec.prompt_path = [](size_t) { return "messages"; };
  spec.encode = [tokenizer = backends->tokenizer, messages = std::move(request->messages_json),
                 open_turn = request->add_generation_prompt](const CallContext& context, std::shared_ptr<Strand> strand,
                                                             AnswerSpec::OnPrompts done) mutable {
    return tokenizer->RenderChat(context, std::move(strand), std::move(messages), open_turn,
                                 [done = std::move(done)](absl::StatusOr<EncodedText> text) mutable {
                                   if (!text.ok()) return done(text.status());
                                   auto ids = std::make_shared<const std::vector<uint32_t>>(std::move(text->token_ids));
                                   done(EncodedPrompts{{std::move(ids)}, std::move(text->vocabulary)});
                                 });
  };
  Answer::Begin(std::move(backends), std::move(exchange), std::move(spec));
}

}  // namespace tercet::gateway
