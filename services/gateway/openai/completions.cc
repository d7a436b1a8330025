#include "services/gateway/openai/completions.h"

#include <utility>

#include "services/gateway/http/api_error.h"
#include "services/gateway/http/reply.h"
#include "services/gateway/openai/answer.h"
#include "services/gateway/openai/completion_request.h"

namespace tercet::gateway {
namespace {

// Turns the prompts of one request into ids, one after the other. On the strand.
class PromptEncoder final : public Call, public std::enable_shared_from_this<PromptEncoder> {
 public:
  PromptEncoder(std::shared_ptr<TokenizerClient> tokenizer, std::shared_ptr<const CompletionRequest> request,
                const CallContext& context, std::shared_ptr<Strand> strand, AnswerSpec::OnPrompts done)
      : tokenizer_(std::move(tokenizer)),
        request_(std::move(request)),
        context_(context),
        strand_(std::move(strand)),
        done_(std::move(done)) {}

  void Next() {
    while (encoded_.prompts.size() < request_->prompts.size()) {
      const Prompt& prompt = request_->prompts[encoded_.prompts.size()];
      if (const auto* text = std::get_if<std::string>(&prompt)) return Ask(*text);
      encoded_.prompts.push_back(std::make_shared<const std::vector<uint32_t>>(std::get<std::vector<uint32_t>>(prompt)));
    }
    if (encoded_.vocabulary != nullptr) return std::exchange(done_, nullptr)(std::move(encoded_));
    // Ids only: whatever vocabulary there is must know them.
    tokenizer_->GetVocabulary(strand_,
                              [self = shared_from_this()](absl::StatusOr<std::shared_ptr<const Vocabulary>> vocabulary) {
                                if (!vocabulary.ok()) return self->Fail(vocabulary.status());
                                self->encoded_.vocabulary = *std::move(vocabulary);
                                self->Next();
                              });
  }

  void Cancel() override {
    if (running_ != nullptr) running_->Cancel();
    done_ = nullptr;
  }

 private:
  void Ask(const std::string& text) {
    running_ = tokenizer_->Encode(context_, strand_, text, request_->add_special, request_->parse_special,
                                  [self = shared_from_this()](absl::StatusOr<EncodedText> result) {
                                    self->running_ = nullptr;
                                    self->Take(std::move(result));
                                  });
  }

  void Take(absl::StatusOr<EncodedText> result) {
    if (!result.ok()) {
      std::string path = request_->PathOfPrompt(encoded_.prompts.size());
      return Fail(absl::IsInvalidArgument(result.status()) ? WithParam(result.status(), path) : result.status());
    }
    if (encoded_.vocabulary != nullptr && encoded_.vocabulary != result->vocabulary) {
      return Fail(absl::UnavailableError("the tokenizer's model changed while this request was being read; try again"));
    }
    encoded_.vocabulary = std::move(result->vocabulary);
    encoded_.prompts.push_back(std::make_shared<const std::vector<uint32_t>>(std::move(result->token_ids)));
    if (done_) Next();
  }

  void Fail(absl::Status status) {
    if (auto done = std::exchange(done_, nullptr)) done(std::move(status));
  }

  std::shared_ptr<TokenizerClient> tokenizer_;
  std::shared_ptr<const CompletionRequest> request_;
  CallContext context_;
  std::shared_ptr<Strand> strand_;
  AnswerSpec::OnPrompts done_;  // null: told already, or not wanted
  std::shared_ptr<Call> running_;
  EncodedPrompts encoded_;
};

}  // namespace

void HandleCompletions(std::shared_ptr<Backends> backends, std::shared_ptr<Exchange> exchange) {
  absl::StatusOr<CompletionRequest> parsed = ParseCompletionRequest(exchange->request().body);
  if (!parsed.ok()) return ReplyError(*exchange, parsed.status());
  auto request = std::make_shared<CompletionRequest>(*std::move(parsed));

  AnswerSpec spec;
  spec.format = &CompletionFormat();
  spec.parameters = std::move(request->parameters);
  spec.echo = request->echo;
  spec.prompt_path = [request](size_t index) { return request->PathOfPrompt(index); };
  spec.encode = [tokenizer = backends->tokenizer, request](const CallContext& context, std::shared_ptr<Strand> strand,
                                                           AnswerSpec::OnPrompts done) {
    auto encoder = std::make_shared<PromptEncoder>(tokenizer, request, context, std::move(strand), std::move(done));
    encoder->Next();
    return encoder;
  };
  Answer::Begin(std::move(backends), std::move(exchange), std::move(spec));
}

}  // namespace tercet::gateway
